# SPDX-License-Identifier: Apache-2.0
"""Bursts above their quotas: the kernel is asked with one write, and its answer is kept."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from koord.agent.executor import write_events
from koord.agent.executor.claim import Layer
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.base.clock import VirtualClock
from koord.kernels.cgroup import Base, Hierarchy
from koord.kernels.cgroup_parse import Version
from tests.agent.executor.rig import BURST, QUOTA, Rig, want
from tests.agent.executor.test_real_kernel import CHILD, POD, groups, opened
from tests.standins.fuse import MissingFuseError, mounted
from tests.standins.vendor import hierarchies

__all__ = ["groups"]
PODS = ["pod", "pod/a", "pod/b", "pod/c"]


def _bursts(rig: Rig) -> list[str | None]:
    return [rig.says(BURST, directory) for directory in PODS]


def _wanting(tmp_path: Path, *, exceeds: bool) -> Rig:
    rig = Rig(tmp_path, PODS)
    rig.kernel.exceeds = exceeds
    for directory, quota in zip(PODS, (600_000, 200_000, 200_000, 200_000), strict=True):
        rig.kernel.put(QUOTA, directory, str(quota))
    claims = [want(BURST, directory, 2_000_000) for directory in PODS[1:]]
    rig.executor.state("cpuburst", "uid", [want(BURST, "pod", 6_000_000), *claims])
    rig.settle()
    return rig


def test_a_kernel_that_refuses_is_asked_once(tmp_path: Path) -> None:
    rig = _wanting(tmp_path, exceeds=False)
    assert _bursts(rig) == ["600000", "200000", "200000", "200000"]
    assert rig.kernel.refused == [(BURST, "pod", "6000000")]
    rig.executor.state("cpuburst", "late", [want(BURST, "pod/c", 3_000_000)])
    for _ in range(5):
        rig.settle(61)
    assert len(rig.kernel.refused) == 1
    assert rig.executor.failures() == []
    assert not [told for told in rig.told if isinstance(told, write_events.WriteFailed)]


def test_a_refused_burst_follows_its_quota(tmp_path: Path) -> None:
    rig = _wanting(tmp_path, exceeds=False)
    rig.executor.state("cpuburst", "more", [want(QUOTA, "pod/a", 240_000, Layer.RAISE)])
    rig.settle()
    assert rig.says(BURST, "pod/a") == "240000"
    rig.executor.state("limit", "pod", [want(QUOTA, "pod/a", 100_000)])
    rig.executor.withdraw("cpuburst", "more")
    rig.settle()
    assert (rig.says(QUOTA, "pod/a"), rig.says(BURST, "pod/a")) == ("100000", "100000")
    assert len(rig.kernel.refused) == 1


def test_a_kernel_that_takes_it_gets_all_at_once(tmp_path: Path) -> None:
    rig = _wanting(tmp_path, exceeds=True)
    assert _bursts(rig) == ["6000000", "2000000", "2000000", "2000000"]
    assert rig.executor.last_values(BURST, ["pod/b", "nowhere"]) == [2_000_000, None]
    assert rig.kernel.refused == []
    rig.executor.withdraw("cpuburst")
    rig.settle()
    assert _bursts(rig) == ["0", "0", "0", "0"]


def test_a_burst_that_is_there_already_refuses_a_lower_quota(tmp_path: Path) -> None:
    """The first question may be answered by the quota beside the burst, and by its parent's."""
    rig = Rig(tmp_path, ["pod", "pod/a"])
    for directory, quota in (("pod", "200000"), ("pod/a", "200000")):
        rig.kernel.put(QUOTA, directory, quota)
    rig.kernel.put(BURST, "pod/a", "150000")
    limits = [want(QUOTA, "pod", 100_000), want(QUOTA, "pod/a", 100_000)]
    rig.executor.state("o", "s", [*limits, want(BURST, "pod/a", 150_000)])
    rig.settle()
    said = [rig.says(QUOTA, "pod"), rig.says(QUOTA, "pod/a"), rig.says(BURST, "pod/a")]
    assert said == ["100000", "100000", "100000"]
    assert rig.executor.failures() == []


def test_a_burst_beside_a_quota_that_was_not_written_answers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above no limit any kernel takes it; the next try, beside the limit, gets the answer."""
    rig = Rig(tmp_path, ["pod"])
    number = rig.kernel.number

    def refuse_quotas(resource: str, directory: str) -> int:
        if resource == QUOTA:
            raise OSError(errno.EIO, "input/output error")
        return number(resource, directory)

    rig.executor.state("o", "s", [want(QUOTA, "pod", 1_000), want(BURST, "pod", 250_000)])

    with monkeypatch.context() as unreadable:
        unreadable.setattr(rig.kernel, "number", refuse_quotas)
        rig.settle()
    assert (rig.says(QUOTA, "pod"), rig.says(BURST, "pod")) == ("-1", "250000")
    for _ in range(3):
        rig.settle(61)
    assert (rig.says(QUOTA, "pod"), rig.says(BURST, "pod")) == ("1000", "1000")
    assert rig.executor.failures() == []


def test_nothing_is_asked_by_a_look_or_a_dry_run(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ["pod"], dry_run=True)
    rig.kernel.put(QUOTA, "pod", "200000")
    rig.executor.state("cpuburst", "uid", [want(BURST, "pod", 2_000_000)])
    assert [line.value for line in rig.executor.explain()] == [200_000]
    rig.settle()
    planned = [told.made.value for told in rig.told if isinstance(told, write_events.WritePlanned)]
    assert planned == [200_000]


def test_this_kernel_keeps_bursts_within_quotas(tmp_path: Path, groups: None) -> None:
    executor = opened(tmp_path)
    if executor.current(BURST, POD) is None:
        pytest.skip("no bursts in this kernel")
    executor.state("limit", "pod", [want(QUOTA, d, 200_000) for d in (POD, CHILD)])
    executor.state("cpuburst", "pod", [want(BURST, d, 2_000_000) for d in (POD, CHILD)])
    executor.settle()
    said = [executor.current(BURST, directory) for directory in (POD, CHILD)]
    assert said in (["200000"] * 2, ["2000000"] * 2)
    assert executor.failures() == []


def test_the_stand_in_of_a_vendors_kernel_takes_the_whole_burst(tmp_path: Path) -> None:
    point = tmp_path / "cgroup"
    point.mkdir()
    try:
        with mounted(hierarchies, point) as root:
            (root / "cpu" / "kubepods.slice").mkdir()
            files = NativeCgroupFiles(Hierarchy(root, Version.V1, "kubepods.slice"))
            kinds = [CgroupFileWriter({Base.CGROUP: files})]
            journal = Journal(tmp_path / "state", "boot")
            executor = HostExecutor(kinds, journal, VirtualClock(), ExecutorOptions(Version.V1))
            claims = [want(QUOTA, "kubepods.slice", 200_000)]
            executor.state("o", "s", [*claims, want(BURST, "kubepods.slice", 2_000_000)])
            executor.settle()
            text = (root / "cpu/kubepods.slice/cpu.cfs_burst_us").read_text()
    except MissingFuseError as error:
        pytest.skip(str(error))
    assert text == "2000000\n"
