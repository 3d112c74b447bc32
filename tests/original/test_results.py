# SPDX-License-Identifier: Apache-2.0
"""What a run of the original's specs tells: tables, and whether koord is behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from koord.simulator.nodes.pools import load_pools
from tests.original.clusters import by_pools
from tests.original.source import MissingSourceError, Source
from tests.original.specs import Outcome, Spec
from tests.original.table import Results, markdown

A = Spec("[quota] basic [koordinator.sh] basic the sum [Conformance]")
B = Spec("[scheduling] Reservation a|b")
PASSED, FAILED = Outcome("passed", 2.0), Outcome("failed", 61.0, "no")


def results() -> Results:
    made = Results("c0ffee", "2026-01-02", [A, B])
    made.outcomes = {
        "koord up": {A.text: PASSED, B.text: FAILED},
        "real + original": {A.text: FAILED, B.text: PASSED},
    }
    made.benchmark = {"koord up": {"throughputPodsPerSec": 99.96, "latencyP99Sec": 3}}
    return made


def test_koord_is_behind_only_where_the_original_passes() -> None:
    made = results()
    assert made.behind("real + original") == [B.name]
    made.outcomes["koord up"][B.text] = PASSED
    assert made.behind("real + original") == []
    assert made.behind("not run") == []
    del made.outcomes["koord up"][B.text]
    assert made.behind("real + original") == [B.name]


def test_tables() -> None:
    assert markdown(results()).splitlines() == [
        "| spec | koord up | real + original |",
        "| --- | --- | --- |",
        "| [quota] basic basic the sum | passed | failed |",
        r"| [scheduling] Reservation a\|b | failed | passed |",
        "| **passed** | 1 of 2 | 1 of 2 |",
        "",
        "| benchmark | koord up |",
        "| --- | --- |",
        "| pods a second | 100.0 |",
        "| all scheduled after, s |  |",
        "| p50, s |  |",
        "| p99, s | 3 |",
        "| attempts that failed |  |",
    ]


def test_the_file_has_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "original.json"
    results().write(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["specs"][1]["outcomes"]["koord up"] == {
        "state": "failed", "seconds": 61.0, "message": "no",
    }  # fmt: skip
    assert document["benchmark"]["koord up"]["latencyP99Sec"] == 3
    assert Results.read(path) == results()


def test_without_source_it_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOORD_ORIGINAL", str(tmp_path))
    with pytest.raises(MissingSourceError, match="KOORD_ORIGINAL"):
        Source.at_hand()
    call = [sys.executable, "-m", "tests.original"]
    ran = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert ran.stderr.splitlines() == [
        f"error: no source of the original in {tmp_path}: clone its repository there, "
        "or name a checkout in KOORD_ORIGINAL"
    ]


def test_specs_run_on_machines_on_which_they_can_pass() -> None:
    single = Spec("[scheduling] DeviceShare only one Pod of all matched reservation that is using")
    small = Spec("[scheduling] Create reservation with Restricted policy, reserves 4Core8Gi, and")
    found = [(pools.stem, chosen) for pools, chosen in by_pools([A, single, small, B])]
    assert found == [("pools", [A, B]), ("single-cards", [single]), ("small-machines", [small])]
    for pools, _ in by_pools([]):
        load_pools(pools)
