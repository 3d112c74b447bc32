# SPDX-License-Identifier: Apache-2.0
"""resctrl is mounted where the processor can and nobody has; a refusal is one line."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from koord.agent.host.kernel import resctrl_mount
from koord.agent.host.kernel.resctrl_mount import MS_RELATIME, mount_quietly, mount_resctrl
from koord.base import faults
from koord.base.errors import KoordError
from tests.agent.machine_tree import MachineTree
from tests.kube.harness import logged

ABLE = "vendor_id\t: GenuineIntel\nflags\t\t: fpu cat_l3 mba\n"


class Kernel:
    """Mounts as it is told to."""

    def __init__(self, tree: MachineTree, lines: str = "L3:0=7ff\nMB:0=100\n") -> None:
        self._tree, self._lines = tree, lines
        self.asked: list[tuple[str, str, int]] = []

    def __call__(self, kind: str, target: str, flags: int) -> None:
        self.asked.append((kind, target, flags))
        if not self._lines:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), target)
        self._tree.write("sys/fs/resctrl/info/L3/cbm_mask", "7ff\n")
        self._tree.write("sys/fs/resctrl/schemata", self._lines)


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    tree = MachineTree(tmp_path)
    tree.write("proc/cpuinfo", ABLE)
    return tree


def test_it_is_mounted_once(tree: MachineTree) -> None:
    kernel = Kernel(tree)
    assert mount_resctrl(tree.roots, kernel)
    assert not mount_resctrl(tree.roots, kernel)
    assert kernel.asked == [("resctrl", tree.roots.resctrl, MS_RELATIME)]


def test_not_where_the_processor_cannot(tree: MachineTree) -> None:
    kernel = Kernel(tree)
    tree.write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t: fpu cat_l3\n")
    assert not mount_resctrl(tree.roots, kernel)
    assert kernel.asked == []


def test_a_root_group_that_makes_sense_is_a_mount(tree: MachineTree) -> None:
    kernel = Kernel(tree)
    tree.write("sys/fs/resctrl/schemata", "L3:0=7ff;1=7ff\nMB:0=100;1=100\n")
    assert not mount_resctrl(tree.roots, kernel)
    tree.write("sys/fs/resctrl/schemata", "MB:0=100;1=100\n")
    assert mount_resctrl(tree.roots, kernel)


@pytest.mark.parametrize(
    ("lines", "message"),
    [("", "Device or resource busy"), ("MB:0=100\n", "schemata once it is mounted")],
)
def test_what_fails_is_one_line_and_no_more(lines: str, message: str, tree: MachineTree) -> None:
    with pytest.raises(KoordError, match=message):
        mount_resctrl(tree.roots, Kernel(tree, lines))
    (tree.root / "sys/fs/resctrl/info/L3/cbm_mask").unlink(missing_ok=True)
    with logged("koord.agent.resctrl", logging.WARNING) as records:
        mount_quietly(tree.roots, Kernel(tree, lines))
    assert [record.getMessage() for record in records] == ["resctrl not mounted"]


def test_a_fault_on_the_way(tree: MachineTree) -> None:
    kernel = Kernel(tree)
    rule = faults.FaultRule(1.0, PermissionError(errno.EPERM, "Operation not permitted"))
    with (
        faults.inject(faults.FaultPlan(1, {"host.mount": rule})),
        pytest.raises(KoordError, match="Operation not permitted"),
    ):
        mount_resctrl(tree.roots, kernel)
    assert kernel.asked == []


def test_the_kernels_refusal_has_its_number(tmp_path: Path) -> None:
    """mount(2) itself: a type that no kernel has, on a directory that is not there."""
    with pytest.raises(OSError, match="none") as refused:
        resctrl_mount.mount("koord-no-such-type", str(tmp_path / "none"), MS_RELATIME)
    assert refused.value.errno in (errno.EPERM, errno.ENOENT, errno.ENODEV)
