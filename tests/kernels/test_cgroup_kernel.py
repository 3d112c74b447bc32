# SPDX-License-Identifier: Apache-2.0
"""Against the kernel's own files, in a group that each test makes and removes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.kernels.cgroup import Directories, Hierarchy, Outcome, Reader, Write, Writer
from koord.kernels.cgroup_parse import Version

ROOT = Path("/sys/fs/cgroup")
NAME = f"koord-test-{os.getpid()}"


def make(*directories: Path) -> Iterator[str]:
    """The name of a group that exists in each hierarchy; skips where one cannot be made."""
    made: list[Path] = []
    try:
        for directory in directories:
            for path in (directory / NAME, directory / NAME / "child"):
                path.mkdir()
                made.append(path)
        yield NAME
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    finally:
        for path in reversed(made):
            if path.exists():
                path.rmdir()


@pytest.fixture
def v1_group() -> Iterator[str]:
    yield from make(ROOT / "cpu", ROOT / "cpuset")


@pytest.fixture
def v2_root() -> Path:
    for root in (ROOT, ROOT / "unified"):
        if (root / "cgroup.controllers").exists():
            return root
    pytest.skip("no cgroup v2 hierarchy is mounted")


def test_v1_values_are_what_the_kernel_shows(v1_group: str) -> None:
    tree = Hierarchy(ROOT, Version.V1)
    child = f"{v1_group}/child"
    mems = (ROOT / "cpuset/cpuset.mems").read_text()
    for name in (v1_group, child):
        (ROOT / "cpuset" / name / "cpuset.mems").write_text(mems)
    (root_cpus,) = Reader(tree).read(["."], ["cpuset.cpus"])["cpuset.cpus"].texts
    levels = [
        [Write("cpu.cfs_quota_us", name, quota), Write("cpuset.cpus", name, root_cpus)]
        for name, quota in ((v1_group, 80000), (child, 50000))
    ]
    shares = [Write("cpu.shares", name, 2048) for name in (v1_group, child)]
    writer = Writer(tree)
    results = [
        *writer.write(shares, 0),
        *(r for level in writer.write_leveled(levels, 0) for r in level),
    ]
    assert [result.outcome for result in results] == [Outcome.WRITTEN] * 6
    tables = Reader(tree).read(
        [v1_group, child], ["cpu.shares", "cpu.cfs_quota_us", "cpuset.cpus", "cpu.stat"]
    )
    assert tables["cpu.shares"]["value"].tolist() == [2048, 2048]
    assert tables["cpu.cfs_quota_us"]["value"].tolist() == [80000, 50000]
    assert tables["cpuset.cpus"].texts == [root_cpus, root_cpus]
    assert tables["cpu.stat"].error.tolist() == [0, 0]
    # The kernel refuses a child above its parent: both may grow and shrink only in the right order.
    for quotas in ((200000, 150000), (40000, 30000), (-1, -1), (60000, 60000)):
        levels = [
            [Write("cpu.cfs_quota_us", name, q)]
            for name, q in zip((v1_group, child), quotas, strict=True)
        ]
        assert [level[0].errno for level in writer.write_leveled(levels, 1)] == [0, 0]
        values = Reader(tree).read([v1_group, child], ["cpu.cfs_quota_us"])["cpu.cfs_quota_us"][
            "value"
        ]
        assert values.tolist() == list(quotas)


def test_v1_burst_moves_with_its_quota(v1_group: str) -> None:
    if not (ROOT / "cpu" / v1_group / "cpu.cfs_burst_us").exists():
        pytest.skip("this kernel has no CPU burst")
    writer = Writer(Hierarchy(ROOT, Version.V1))
    for quota, burst in ((50000, 50000), (90000, 80000), (20000, 10000), (15000, 15000)):
        level = [
            Write("cpu.cfs_burst_us", v1_group, burst),
            Write("cpu.cfs_quota_us", v1_group, quota),
        ]
        assert [result.message for result in writer.write_leveled([level], 0)[0]] == ["", ""]


def test_a_refused_write_gives_the_kernels_errno(v1_group: str) -> None:
    writer = Writer(Hierarchy(ROOT, Version.V1))
    (result,) = writer.write([Write("cpu.cfs_quota_us", v1_group, 1)], 0)
    assert (result.outcome, result.errno) == (Outcome.FAILED, errno.EINVAL)


@pytest.mark.parametrize("remembered", [False, True])
def test_a_kept_descriptor_of_a_removed_group_is_opened_anew(
    v1_group: str, remembered: bool
) -> None:
    reader = Reader(Hierarchy(ROOT, Version.V1), kept_max=4)
    child, shares = f"{v1_group}/child", ["cpu.shares"]
    which = Directories([child, v1_group]) if remembered else [child, v1_group]
    (ROOT / "cpu" / child).mkdir(exist_ok=True)
    for _ in range(2):
        assert reader.read(which, shares)["cpu.shares"]["value"].tolist() == [1024, 1024]
    (ROOT / "cpu" / child).rmdir()
    for _ in range(2):
        assert reader.read(which, shares)["cpu.shares"].error.tolist() == [errno.ENOENT, 0]
    # What a removed group left open is closed; the other's stays.
    assert reader.kept == 1
    (ROOT / "cpu" / child).mkdir()
    (ROOT / "cpu" / child / "cpu.shares").write_text("77")
    for _ in range(2):
        assert reader.read(which, shares)["cpu.shares"]["value"].tolist() == [77, 1024]


def test_v2_files_read_as_the_kernel_writes_them(v2_root: Path) -> None:
    for group in make(v2_root):
        tree = Hierarchy(v2_root)
        assert tree.version is Version.V2
        tables = Reader(tree).read([group], ["cpuacct.usage", "cgroup.procs", "cpu.pressure"])
        assert tables["cpuacct.usage"].error.tolist() == [0]
        assert tables["cgroup.procs"].texts == [""]
        pressure = tables["cpu.pressure"]
        if pressure.error[0] == 0:
            assert pressure["some_avg10"].tolist() == [0.0]
