# SPDX-License-Identifier: Apache-2.0
"""The whole executor of a machine, on trees of plain files; v2 among them."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from koord.agent.executor.claim import Claim, Layer
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.startup import boot_id, open_executor, restore
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.agent.host.machine import Machine
from koord.agent.host.roots import HostRoots
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.kernels.cgroup import Base, Hierarchy, Write, Written
from koord.kernels.cgroup_parse import Version
from tests.agent.machine_tree import Group, MachineTree
from tests.kube.harness import logged

POD = "kubepods/pod1"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    roots = HostRoots().beneath(str(tmp_path))
    for path, text in {
        f"{roots.cgroup}/cpu/{POD}/cpu.shares": "1024\n",
        f"{roots.proc}/sys/vm/min_free_kbytes": "67584\n",
        f"{roots.proc}/sys/kernel/random/boot_id": "boot-1\n",
        f"{roots.sys}/kernel/debug/sched_features": "GENTLE NO_HRTICK WAKEUP\n",
    }.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    hierarchy = Hierarchy(roots.cgroup, Version.V1)
    found: Any = SimpleNamespace(roots=roots, hierarchy=hierarchy, page_bytes=4096)
    return cast("Machine", found)


def texts(machine: Machine) -> list[str]:
    roots = machine.roots
    places = (f"{roots.cgroup}/cpu/{POD}/cpu.shares", f"{roots.proc}/sys/vm/min_free_kbytes")
    return [Path(place).read_text().strip() for place in places]


CLAIMS = [Claim("cpu.shares", POD, 512, "r"), Claim("min_free_kbytes", "", 200000, "r")]


def test_system_files_are_written_and_restored_after_a_kill(machine: Machine) -> None:
    executor = open_executor(machine, VirtualClock())
    executor.state("SystemConfig", "node", CLAIMS)
    executor.settle()
    assert texts(machine) == ["512", "200000"]
    assert restore(machine, VirtualClock()) == []
    assert texts(machine) == ["1024", "67584"]
    assert restore(machine, VirtualClock()) == []


def test_another_boot_makes_the_journal_void(machine: Machine) -> None:
    executor = open_executor(machine, VirtualClock())
    executor.state("SystemConfig", "node", CLAIMS)
    executor.settle()
    Path(machine.roots.proc, "sys/kernel/random/boot_id").write_text("boot-2\n")
    assert restore(machine, VirtualClock()) == []
    assert texts(machine) == ["512", "200000"]
    assert boot_id(machine.roots) == "boot-2"


def test_a_system_file_has_no_directory_and_a_range(machine: Machine) -> None:
    executor = open_executor(machine, VirtualClock())
    bad = [Claim("min_free_kbytes", "x", 200000, "r"), Claim("min_free_kbytes", "", 1, "r"),
           Claim("sched_features", "", "A\nB", "r")]  # fmt: skip
    executor.state("SystemConfig", "node", bad)
    executor.settle()
    assert len(executor.refused()["SystemConfig", "node"]) == 3
    assert texts(machine) == ["1024", "67584"]


class FeatureFiles(NativeCgroupFiles):
    """Where the kernel keeps a list of switches, and writing one changes that one."""

    def write_leveled(
        self, levels: Sequence[Sequence[Write]], now_seconds: float
    ) -> list[list[Written]]:
        before = self.text("sched_features", "")
        answers = super().write_leveled(levels, now_seconds)
        for level in levels:
            for write in level:
                name = str(write.value).removeprefix("NO_")
                before = re.sub(rf"\b(NO_)?{name}\b", str(write.value), before)
        place = self._hierarchy.path + "/kernel/debug/sched_features"
        Path(place).write_text(before)
        return answers


def test_scheduler_features_are_switched_one_by_one(machine: Machine, tmp_path: Path) -> None:
    files = FeatureFiles(Hierarchy(machine.roots.sys, Version.V1))
    kinds = [CgroupFileWriter({Base.SYS: files})]
    journal = Journal(tmp_path / "state", "boot")
    executor = HostExecutor(kinds, journal, VirtualClock(), ExecutorOptions(Version.V1))
    wanted = ["NO_GENTLE", "HRTICK", "WAKEUP", "UNKNOWN"]
    executor.state("S", "node", [Claim("sched_features", "", name, "r") for name in wanted])
    executor.settle()
    assert files.text("sched_features", "").split() == ["NO_GENTLE", "HRTICK", "WAKEUP"]
    assert [failure.target.field for failure in executor.failures()] == ["UNKNOWN"]
    executor.withdraw("S")
    executor.settle()
    assert files.text("sched_features", "").split() == ["GENTLE", "NO_HRTICK", "WAKEUP"]


def test_a_damaged_journal_stops_the_agent_with_one_line(machine: Machine) -> None:
    place = Path(machine.roots.state, "executor.journal")
    place.parent.mkdir(parents=True)
    place.write_text("garbage")
    for opening in (open_executor, restore):
        with pytest.raises(KoordError, match=re.escape(f"remove {place}")):
            opening(machine, VirtualClock())


class V2Files(NativeCgroupFiles):
    """Plain files that keep the period of ``cpu.max``, as the kernel does; bursts are not bound."""

    def write_leveled(
        self, levels: Sequence[Sequence[Write]], now_seconds: float
    ) -> list[list[Written]]:
        answers = super().write_leveled(levels, now_seconds)
        for place in Path(self._hierarchy.path).rglob("cpu.max"):
            if len(place.read_text().split()) == 1:
                place.write_text(f"{place.read_text().strip()} 100000\n")
        return answers


V2 = {
    "cpu.max": "max 100000\n",
    "cpu.max.burst": "0\n",
    "cpu.weight": "39\n",
    "memory.max": "max\n",
    "memory.high": "max\n",
    "cpuset.cpus": "\n",
    "cpuset.cpus.effective": "0-7\n",
}


def test_v2_values_come_and_go_in_v1_units(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    for directory in ("kubepods", POD):
        (root / directory).mkdir(parents=True)
        for name, text in V2.items():
            (root / directory / name).write_text(text)
    kind = CgroupFileWriter({Base.CGROUP: V2Files(Hierarchy(root, Version.V2))})
    clock = VirtualClock()
    executor = HostExecutor(
        [kind], Journal(tmp_path / "s", "boot"), clock, ExecutorOptions(Version.V2)
    )
    assert executor.current("cpu.shares", POD) == "998"
    assert executor.current("cpuset.cpus", POD) == "0-7"
    claims = [
        Claim("cpu.shares", POD, 2000, "r"), Claim("cpu.cfs_quota_us", POD, 200000, "r"),
        Claim("cpu.cfs_burst_us", POD, 300000, "r"), Claim("cpuset.cpus", POD, "2-3", "r"),
        Claim("memory.limit_in_bytes", POD, 1 << 20, "r"),
        Claim("memory.high", POD, 2**63 - 1, "r"),
        Claim("cpu.cfs_quota_us", "kubepods", 100000, "r", Layer.CAP),
    ]  # fmt: skip
    executor.state("o", "s", claims)
    executor.settle()
    assert executor.failures() == []
    said = {name: (root / POD / name).read_text().strip() for name in V2}
    assert said == {
        "cpu.max": "200000 100000", "cpu.max.burst": "300000", "cpu.weight": "77",
        "memory.max": "1048576", "memory.high": "max", "cpuset.cpus": "2-3",
        "cpuset.cpus.effective": "0-7",
    }  # fmt: skip
    executor.withdraw("o")
    executor.settle()
    assert executor.failures() == []
    texts = {name: (root / POD / name).read_text().strip() for name in V2}
    assert texts == {name: text.strip() for name, text in V2.items()}


@pytest.mark.parametrize("weight", [1, 2, 38, 39, 100, 5000, 9999, 10000])
def test_every_weight_is_given_back_exactly(tmp_path: Path, weight: int) -> None:
    (tmp_path / "cgroup" / POD).mkdir(parents=True)
    place = tmp_path / "cgroup" / POD / "cpu.weight"
    place.write_text(f"{weight}\n")
    kind = CgroupFileWriter(
        {Base.CGROUP: NativeCgroupFiles(Hierarchy(tmp_path / "cgroup", Version.V2))}
    )
    journal = Journal(tmp_path / "s", "boot")
    executor = HostExecutor([kind], journal, VirtualClock(), ExecutorOptions(Version.V2))
    executor.state("o", "s", [Claim("cpu.shares", POD, 77777, "r")])
    executor.settle()
    assert place.read_text() != f"{weight}\n"
    executor.withdraw("o")
    executor.settle()
    assert place.read_text().strip() == str(weight)


def test_a_container_that_goes_under_suppression_is_no_failure(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path)
    pod = f"{tree.tier}/pod1"
    tree.group(pod, Group())
    machine = tree.machine()
    executor = open_executor(machine, VirtualClock())
    for cpus in ("0-1", "0-2"):
        claims = [Claim("cpuset.cpus", d, cpus, "r", Layer.CAP) for d in (tree.tier, pod)]
        executor.state("cpusuppress", "cpuset", claims)
        executor.settle()
        assert executor.failures() == []
        assert executor.current("cpuset.cpus", tree.tier) == cpus
        shutil.rmtree(Path(machine.hierarchy.path, "cpuset", pod), ignore_errors=True)
    assert [line.target.directory for line in executor.explain()] == [tree.tier]


def test_what_this_kernel_does_not_have_is_told_of_once(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path)
    tree.group(f"{tree.tier}/pod1", Group())
    executor = open_executor(tree.machine(), VirtualClock())
    for scope, directory in (("a", tree.tier), ("b", f"{tree.tier}/pod1")):
        executor.state("memoryqos", scope, [Claim("memory.min", directory, 4096, "protected")])
    with logged("koord.agent.executor", logging.INFO) as records:
        executor.settle()
        executor.settle()
    assert [record.getMessage() for record in records] == ["not in this kernel"]
    assert executor.failures() == []
    assert executor.unsupported() == ["memory.min"]
    executor.withdraw("memoryqos")
    executor.settle()
    assert executor.unsupported() == []
