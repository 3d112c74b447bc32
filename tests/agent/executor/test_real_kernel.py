# SPDX-License-Identifier: Apache-2.0
"""The executor on this machine's own cgroup v1 files, in groups made and removed by each test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.agent.executor.claim import Claim, Layer
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.base.clock import VirtualClock
from koord.kernels.cgroup import Base, Hierarchy
from koord.kernels.cgroup_parse import Version

ROOT = Path("/sys/fs/cgroup")
POD = f"koord-executor-{os.getpid()}"
CHILD = f"{POD}/child"
QUOTA, BURST, CPUS = "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpuset.cpus"
SHARES, MEMORY = "cpu.shares", "memory.limit_in_bytes"


@pytest.fixture
def groups() -> Iterator[None]:
    made: list[Path] = []
    try:
        for hierarchy in ("cpu", "cpuset", "memory"):
            for name in (POD, CHILD):
                path = ROOT / hierarchy / name
                path.mkdir()
                made.append(path)
        for name in (POD, CHILD):
            for file in ("cpuset.mems", "cpuset.cpus"):
                text = (ROOT / "cpuset" / file).read_text()
                (ROOT / "cpuset" / name / file).write_text(text)
    except OSError as error:
        for path in reversed(made):
            path.rmdir()
        pytest.skip(f"no cgroup v1 groups can be made here: {error}")
    yield
    for path in reversed(made):
        path.rmdir()


def opened(state: Path, kept_max: int = 0, clock: VirtualClock | None = None) -> HostExecutor:
    files = NativeCgroupFiles(Hierarchy(ROOT, Version.V1, kubepods=POD), kept_max)
    settings = ExecutorOptions(Version.V1, page_bytes=os.sysconf("SC_PAGE_SIZE"))
    kinds = [CgroupFileWriter({Base.CGROUP: files})]
    return HostExecutor(kinds, Journal(state, "boot"), clock or VirtualClock(), settings)


def say(executor: HostExecutor) -> dict[tuple[str, str], str | None]:
    resources = (QUOTA, BURST, CPUS, SHARES, MEMORY)
    return {(r, d): executor.current(r, d) for r in resources for d in (POD, CHILD)}


def test_every_step_is_taken_by_the_kernel(tmp_path: Path, groups: None) -> None:
    executor = opened(tmp_path)
    before = say(executor)
    steps = [(200000, 150000), (40000, 30000), (-1, -1), (60000, 60000), (1000, 1000), (90000, -1)]
    for pod, child in steps:
        claims = [Claim(QUOTA, POD, pod, "r"), Claim(QUOTA, CHILD, child, "r")]
        claims += [Claim(SHARES, d, 512, "r") for d in (POD, CHILD)]
        claims += [Claim(MEMORY, d, (64 << 20) + 17, "r") for d in (POD, CHILD)]
        claims += [Claim(CPUS, d, "0", "r", Layer.CAP) for d in (POD, CHILD)]
        if before[BURST, POD] is not None:
            claims += [Claim(BURST, POD, max(pod, 0), "r"), Claim(BURST, CHILD, 20000, "r")]
        executor.state("a", "s", claims)
        executor.settle()
        assert executor.failures() == []
        assert executor.refused() == {}
        said = say(executor)
        assert (said[QUOTA, POD], said[QUOTA, CHILD]) == (str(pod), str(child))
        assert said[CPUS, CHILD] == "0"
        assert said[MEMORY, CHILD] == str(64 << 20)
    executor.withdraw("a")
    executor.settle()
    assert executor.failures() == []
    assert say(executor) == before


def test_suppression_of_the_parent_bounds_what_the_child_asks(tmp_path: Path, groups: None) -> None:
    executor = opened(tmp_path)
    before = say(executor)
    executor.state("a", "s", [Claim(QUOTA, CHILD, 80000, "r")])
    executor.state("b", "s", [Claim(QUOTA, POD, 50000, "r", Layer.CAP)])
    executor.settle()
    assert say(executor)[QUOTA, CHILD] == "50000"
    executor.withdraw("b")
    executor.settle()
    assert say(executor)[QUOTA, CHILD] == "80000"
    again = opened(tmp_path)  # killed: nothing was given back
    assert again.give_all_back() == []
    assert say(again) == before


def test_a_cgroup_that_comes_back_is_compared_itself(tmp_path: Path, groups: None) -> None:
    """Not through the descriptor of the one that was there before."""
    executor = opened(tmp_path, kept_max=16)
    executor.state("a", "s", [Claim(SHARES, directory, 512, "r") for directory in (POD, CHILD)])
    executor.settle()
    for _ in range(2):
        executor.recheck()
        executor.settle()
        child = ROOT / "cpu" / CHILD
        child.rmdir()
        child.mkdir()
        assert say(executor)[SHARES, CHILD] == "1024"
        executor.recheck()
        executor.settle()
        assert say(executor)[SHARES, CHILD] == "512"
    executor.withdraw("a")
    executor.settle()
    assert executor.failures() == []


def test_of_cgroups_that_are_gone_no_descriptor_stays_open(tmp_path: Path, groups: None) -> None:
    """Whether they went by themselves or were given back before; others are opened anew."""
    clock = VirtualClock()
    executor = opened(tmp_path, kept_max=16, clock=clock)

    def compare() -> set[str]:
        for _ in range(2):
            executor.recheck()
            executor.settle()
        return {Path(name).parent.name for name in open_files() if POD in name}

    child = ROOT / "cpu" / CHILD
    claims = [Claim(SHARES, directory, 512, "r") for directory in (POD, CHILD)]
    claims += [Claim(QUOTA, POD, 50000, "r"), Claim(MEMORY, POD, 64 << 20, "r")]
    executor.state("a", "s", claims)
    executor.settle()
    assert compare() == {POD, "child"}
    child.rmdir()
    assert compare() == {POD}
    child.mkdir()
    executor.state("a", "s", claims)
    executor.settle()
    assert compare() == {POD, "child"}
    executor.state("a", "s", [each for each in claims if each.directory == POD])
    executor.settle()
    child.rmdir()
    # Not at once again: the others are many.
    assert compare() == {POD, "child"}
    clock.advance(30.0)
    assert compare() == {POD}
    child.mkdir()
    executor.withdraw("a")
    executor.settle()
    executor.close()
    assert compare() == set()


def open_files() -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since they were listed
            found.append(str(each.readlink()))
    return found
