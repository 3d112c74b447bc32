# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.conftest import Gate, Record
from benchmarks.ratio import Ratio
from koord.kernels import cgroup_parse
from koord.kernels.cgroup import Hierarchy, Reader
from koord.kernels.cgroup_parse import Version

BENCH = Path(__file__).resolve().parent.parent / "build/cpp/cpp/bench/koord_bench"
STAT = "usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods 9\nnr_throttled 1\nthrottled_usec 5\n"
FILES = {"cpu.stat": STAT, "cpu.weight": "39\n", "memory.current": "4096\n"}
RESOURCES = ["cpu.stat", "cpu.shares", "memory.usage_in_bytes"]


@pytest.fixture
def containers(tmp_path: Path) -> list[str]:
    names = [f"kubepods.slice/kubepods-pod{i}.slice/cri-containerd-{i}.scope" for i in range(100)]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        for file, text in FILES.items():
            (tmp_path / name / file).write_text(text)
    return names


def plain_loop(root: Path, containers: list[str]) -> list[tuple[int, int, int]]:
    """What a careful Python program does: open, read, close and parse each file."""
    rows = []
    for name in containers:
        texts = []
        for file in FILES:
            descriptor = os.open(f"{root}/{name}/{file}", os.O_RDONLY)
            texts.append(os.read(descriptor, 16384).decode())
            os.close(descriptor)
        stat = dict(line.split() for line in texts[0].splitlines())
        rows.append((int(stat["nr_periods"]), int(texts[1]), int(texts[2])))
    return rows


def test_read_cold(gate: Gate, tmp_path: Path, containers: list[str]) -> None:
    reader = Reader(Hierarchy(tmp_path, Version.V2), kept_max=0)
    gate("cgroup: read 100 x 3 files, opened each time", lambda: reader.read(containers, RESOURCES),
         lambda: plain_loop(tmp_path, containers), 1.15)  # fmt: skip


def test_read_kept(gate: Gate, tmp_path: Path, containers: list[str]) -> None:
    reader = Reader(Hierarchy(tmp_path, Version.V2), kept_max=300)
    gate("cgroup: read 100 x 3 files, kept descriptors", lambda: reader.read(containers, RESOURCES),
         lambda: plain_loop(tmp_path, containers), 3)  # fmt: skip


def test_parse_cpu_stat(gate: Gate) -> None:
    def plain() -> tuple[int, ...]:
        values = dict(line.split()[:2] for line in STAT.splitlines())
        keys = ("nr_periods", "nr_throttled", "throttled_usec")
        return tuple(int(values[key]) for key in keys)

    gate("cgroup: parse cpu.stat", lambda: cgroup_parse.parse_cpu_stat(STAT, Version.V2), plain, 1)


def test_native_read_against_a_bare_c_loop(record: Record) -> None:
    """500 containers x 6 files: 1.3x openat, read, close at most; less with kept descriptors."""
    if not BENCH.exists():
        pytest.skip(f"{BENCH.name} is not built; `make test-cpp` builds it")
    best = {"bare": float("inf"), "cold": float("inf"), "kept": float("inf")}
    # The rounds of the three alternate; more runs are for the case that none of them was calm.
    for _ in range(4):
        command = [BENCH, "--json", "cgroup/"]
        output = subprocess.run(command, check=True, capture_output=True).stdout
        for name, seconds in json.loads(output).items():
            key = next(word for word in best if word in name)
            best[key] = min(best[key], seconds)
        if best["cold"] <= 1.3 * best["bare"]:
            break
    # The aim is 1 / 1.3 = 0.77; the slack is for what is left of the noise.
    for way, at_least in (("cold", 0.71), ("kept", 1.25)):
        name = f"cgroup: native, 500 x 6 files, {way}, against a bare C loop"
        record(name, Ratio(best[way], best["bare"]), at_least)
