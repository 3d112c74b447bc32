# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SNAPSHOT = Path(__file__).resolve().parents[4] / "examples" / "descheduler" / "hot-node.yaml"


@pytest.fixture
def plan(koord: Run) -> Run:
    return partial(koord, "deschedule", "plan")


def test_the_shipped_example_as_json(plan) -> None:
    status, out, _ = plan("--snapshot", SNAPSHOT, "-o", "json")
    assert status == 0
    made = json.loads(out)
    (step,) = made["steps"]
    assert (step["name"], step["node"], step["target"]) == ("web-0", "node-0", "node-2")
    assert made["overloadBefore"] - made.get("overloadAfter", 0.0) == step["gain"] == 8.125
    assert len(made["nodes"]) == 6


def test_the_same_for_people(plan) -> None:
    status, out, _ = plan("--snapshot", SNAPSHOT)
    assert status == 0
    assert out.startswith("1 move planned as of 2026-01-01T00:00:00Z, 0 pods of those wanted stay")
    assert "cpu    before ▇▅▂▃▃▃" in out
    assert "cpu    after  ▆▅▃▃▃▃" in out
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith("note"))


def test_what_cannot_be_read_is_said_in_one_line(plan, tmp_path: Path) -> None:
    twice = tmp_path / "twice.yaml"
    twice.write_text("---\n".join(2 * ["apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"]))
    for words, told in (
        (["--snapshot", twice], "'Node n1', expected every object once"),
        (["--snapshot", SNAPSHOT, "--scheduler-config", twice], "expected one document"),
        (["--snapshot", SNAPSHOT, "--context", "x"], "--context"),
    ):
        status, out, error = plan(*words)
        assert (status, out, len(error.splitlines())) == (2, "", 1)
        assert told in error
