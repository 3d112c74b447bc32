# SPDX-License-Identifier: Apache-2.0
"""The machine found: real machines' dumps, a container's mounts, features and their reasons."""

from __future__ import annotations

import re
import resource
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.host import machine
from koord.agent.host.kernel.feature_probes import probe_features
from koord.agent.host.kernel.features import Feature
from koord.agent.host.process_limits import raise_descriptors
from koord.agent.host.procfs.cpuinfo import read_cpu_info
from koord.agent.host.roots import HOST_MODE, IN_CONTAINER, HostRoots, default_roots, require
from koord.agent.status import machine_status
from koord.base.errors import KoordError
from koord.cli.commands.node.status_text import _machine_line
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import Driver
from tests.agent.machine_tree import GIB, Group, MachineTree

DUMPS = [
    ("x86_64-epyc_7451", (96, 8), "AuthenticAMD"),
    ("x86_64-64cpu", (64, 3), "GenuineIntel"),
    ("x86_64-dell_e4310", (4, 1), "GenuineIntel"),
]


@pytest.mark.parametrize(("name", "counts", "vendor"), DUMPS)
def test_real_machines(
    sysfs_dump: Callable[[str], Path], name: str, counts: tuple[int, int], vendor: str
) -> None:
    root = sysfs_dump(name)
    (root / "proc/meminfo").write_text("MemTotal: 1024 kB\nMemAvailable: 512 kB\n")
    (root / "sys/fs/cgroup/cpu/kubepods").mkdir(parents=True)
    found = machine.find(HostRoots().beneath(str(root)), version=Version.V1)
    summary = found.topology.summary()
    assert (summary.cpus, summary.nodes) == counts
    assert found.layout.driver is Driver.CGROUPFS
    assert found.memory_bytes == 1 << 20
    assert read_cpu_info(found.roots).vendor_id == vendor


@pytest.fixture(params=Version, ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> MachineTree:
    return MachineTree(tmp_path, request.param)


def test_mounts_of_a_container(tree: MachineTree) -> None:
    """As the DaemonSet mounts them: /host-sys and the like, and /proc as it is."""
    moved = replace(IN_CONTAINER.beneath(str(tree.root)), proc=tree.roots.proc)
    (tree.root / "sys/fs/cgroup").rename(tree.root / "host-cgroup")
    (tree.root / "sys").rename(tree.root / "host-sys")
    found = machine.find(moved, version=tree.version)
    assert found.topology.summary().cpus == 4
    assert found.layout.driver is Driver.SYSTEMD
    assert found.memory_bytes == 16 * GIB


def test_which_mounts_is_told_by_the_environment() -> None:
    assert default_roots({"agent_mode": HOST_MODE}) == HostRoots()
    assert default_roots({}) == IN_CONTAINER


def test_mounts_that_are_not_there_are_told_with_the_mode(tmp_path: Path) -> None:
    """On a machine where somebody forgot agent_mode, and in a container that has it set."""
    nowhere = IN_CONTAINER.beneath(str(tmp_path))
    with pytest.raises(KoordError) as refused:
        require(nowhere, {})
    assert str(refused.value) == (
        "environment agent_mode: got '', expected a container with the host's cgroup mounted as "
        f"{tmp_path}/host-cgroup, which is not there: on the host itself set agent_mode=hostMode; "
        "elsewhere pass --cgroup-root-dir"
    )
    (tmp_path / "host-cgroup/cpu").mkdir(parents=True)
    (tmp_path / "host-sys").mkdir()
    with pytest.raises(KoordError, match=r"host-sys, which has nothing of it: .*--sys-root-dir$"):
        require(nowhere, {"agent_mode": "host"})
    with pytest.raises(KoordError) as refused:
        require(HostRoots().beneath(str(tmp_path)), {"agent_mode": HOST_MODE})
    assert str(refused.value) == (
        "environment agent_mode: got 'hostMode', expected the host's own "
        f"{tmp_path}/sys/fs/cgroup, which is not there: in a container unset agent_mode, and mount "
        "the host's directories as /host-cgroup and so on; elsewhere pass --cgroup-root-dir"
    )
    assert refused.value.exit_status == 2


def test_mounts_that_are_there_are_told_too(tree: MachineTree) -> None:
    assert require(tree.roots, {"agent_mode": HOST_MODE}) == "on the host itself"
    words = "in a container, the host's directories mounted"
    assert require(tree.roots, {}) == words


def test_features_of_a_plain_machine(tree: MachineTree) -> None:
    """A reason each, one line, that names a file or what the kernel or processor lacks."""
    missing = tree.machine().features.missing
    for feature, reason in missing.items():
        assert reason, feature
        assert "\n" not in reason, feature
    assert "vendor" not in missing[Feature.RESCTRL]
    assert missing[Feature.RESCTRL] == "the processor's flags lack cat_l3 or mba"
    assert missing[Feature.NVML] == f"no {tree.roots.proc}/driver/nvidia/version"
    assert missing[Feature.RDMA] == f"nothing in {tree.roots.sys}/class/infiniband"
    assert "cpu.pressure" in missing[Feature.PSI]


def test_features_are_seen_once_their_files_are_there(tree: MachineTree) -> None:
    tree.group(tree.tier.partition("/")[0], Group(pressure=(0.0, 0.0)))
    tree.write("proc/driver/nvidia/version", "NVRM version: 550\n")
    tree.write("sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
    tree.write("sys/fs/resctrl/schemata", "L3:0=f\n")
    tree.write("proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t: cat_l3 mba\n")
    found = probe_features(tree.roots, tree.machine().hierarchy)
    for feature in (Feature.PSI, Feature.NVML, Feature.RDMA, Feature.RESCTRL):
        assert found.has(feature), found.missing.get(feature)


def test_block_io_of_cgroup_v2_is_there_where_kubepods_has_its_controller(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path, Version.V2)
    pods = tree.tier.partition("/")[0]
    tree.group(pods, Group())
    hierarchy = tree.machine().hierarchy
    missing = probe_features(tree.roots, hierarchy).missing
    root = tree.root / "sys/fs/cgroup"
    assert missing[Feature.BLKIO_THROTTLE] == f"no io.max in {root}/{pods}"
    assert missing[Feature.BLKIO_COST] == f"no io.cost.qos in {root}/{pods}"
    for path in (f"{pods}/io.max", "io.cost.qos"):
        tree.write(f"sys/fs/cgroup/{path}", "")
    found = probe_features(tree.roots, hierarchy)
    assert found.has(Feature.BLKIO_THROTTLE)
    assert found.has(Feature.BLKIO_COST)


def test_what_cannot_be_looked_at_is_missing_with_that_reason(tree: MachineTree) -> None:
    hierarchy = tree.machine().hierarchy
    (tree.root / "proc/cpuinfo").unlink()
    reason = probe_features(tree.roots, hierarchy).missing[Feature.RESCTRL]
    assert f"{tree.roots.proc}/cpuinfo" in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        ("proc/meminfo", "proc/meminfo"),
        ("sys/devices/system/cpu", "sys"),
        ("sys/fs/cgroup", "sys/fs/cgroup"),
    ],
)
def test_a_machine_that_is_none_is_one_line(tree: MachineTree, spoil: str, named: str) -> None:
    target = tree.root / spoil
    target.rename(tree.root / "elsewhere")
    with pytest.raises(KoordError, match=re.escape(named)) as caught:
        tree.machine()
    assert "\n" not in str(caught.value)


def test_the_limit_on_files_is_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: held[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: held.append(both))
    assert raise_descriptors() == 4096
    assert raise_descriptors() == 4096
    assert held == [(1024, 4096), (4096, 4096)]

    def refuse(_: int, both: tuple[int, int]) -> None:
        raise ValueError(f"not allowed to raise to {both}")

    held.append((1024, 1 << 62))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_descriptors() == 1024


def test_the_layout_is_of_the_drivers_directory(tree: MachineTree) -> None:
    assert Hierarchy(tree.roots.cgroup, tree.version).kubepods == tree.machine().layout.kubepods


def test_before_a_kubelet_came_other_cgroups_tell_what_the_kernel_has(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path, Version.V2)
    shutil.rmtree(tree.root / "sys/fs/cgroup" / tree.tier.partition("/")[0])
    tree.write("sys/fs/cgroup/system.slice/cpu.max.burst", "0")
    tree.write("sys/fs/cgroup/system.slice/cpu.idle", "0")
    machine = tree.machine()
    assert machine.features.has(Feature.CPU_BURST)
    assert machine.features.has(Feature.CPU_IDLE)
    root = f"{tree.root}/sys/fs/cgroup"
    assert machine.features.missing[Feature.WMARK] == (
        f"no memory.wmark_ratio in any cgroup of {root}, and no {root}/kubepods.slice: "
        "no kubelet is there"
    )
    assert machine_status(machine)["kubepodsFound"] is False
    text = _machine_line(machine_status(machine))
    assert text.endswith("(kubepods.slice, which is not there: no kubelet has started a pod)")
