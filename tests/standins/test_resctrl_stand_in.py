# SPDX-License-Identifier: Apache-2.0
"""The stand-in of resctrl refuses, rounds and prints as the kernel does, and koord's plans pass."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels import resctrl as kernel
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from koord.kernels.resctrl import ClassPolicy, Limits, Vendor
from tests.standins.fuse import MissingFuseError, mounted
from tests.standins.resctrl import AMD_UNLIMITED, Group, Hardware, Resctrl, amd, intel


def refusal(tree: Resctrl, text: str, group: Group | None = None) -> str:
    """The line in ``last_cmd_status`` after a refused write."""
    with pytest.raises(OSError, match="Invalid argument"):
        tree.write_schemata(group or tree.root, text)
    return tree.status


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("L3:0=5\n", "The mask 5 has non-consecutive 1-bits"),
        ("L3:0=fff\n", "Mask out of range"),
        ("L3:0=0\n", "Mask out of range"),
        ("L3:0=4\n", "Need at least 2 bits in the mask"),
        ("L3:0=xyz\n", "Non-hex character in the mask xyz"),
        ("L3:2=7\n", "ok"),
        ("L3:0=7;0=7\n", "Duplicate domain 0"),
        ("L3:0\n", "Missing '=' or non-numeric domain"),
        ("L2:0=7\n", "Unknown or unsupported resource name 'L2'"),
        ("L3 0=7\n", "Missing ':'"),
        ("MB:0=5\n", "MB value 5 out of range [10,100]"),
        ("MB:0=101\n", "MB value 101 out of range [10,100]"),
        ("MB:0=half\n", "Non-decimal digit in MB value half"),
        ("L3:0=7", "ok"),
    ],
)
def test_the_stand_in_of_intel_refuses(line: str, status: str) -> None:
    tree = Resctrl(intel(min_cbm_bits=2))
    assert refusal(tree, line) == status


def test_a_refused_line_changes_nothing_of_the_stand_in() -> None:
    tree = Resctrl(intel())
    before = tree.schemata(tree.root)
    refusal(tree, "MB:0=50\nL3:0=5\n")
    assert tree.schemata(tree.root) == before


def test_the_stand_in_prints_what_it_made_of_a_line() -> None:
    tree = Resctrl(intel())
    tree.write_schemata(tree.root, "MB:0=41;\nL3:1=f;\n")
    assert tree.schemata(tree.root) == "    MB:0= 50;1=100\n    L3:0=7ff;1=00f\n"


def test_the_stand_in_of_amd_takes_absolute_values_and_masks_with_holes() -> None:
    tree = Resctrl(amd())
    tree.write_schemata(tree.root, "MB:8=33\nL3:0=a005;8=0\n")
    assert tree.schemata(tree.root) == "    MB:0=2048;8=  33\n    L3:0=a005;8=0000\n"
    assert refusal(tree, f"MB:0={AMD_UNLIMITED + 1}\n") == "MB value 2049 out of range [0,2048]"


def test_the_stand_in_has_room_for_so_many_groups() -> None:
    tree = Resctrl(intel(l3_closids=4, mb_closids=3))
    tree.mkdir("LS")
    tree.mkdir("BE")
    with pytest.raises(OSError, match="No space left") as error:
        tree.mkdir("LSR")
    assert error.value.errno == errno.ENOSPC
    with pytest.raises(FileExistsError):
        tree.mkdir("info")
    tree.rmdir("LS")
    tree.mkdir("LSR")


def test_a_thread_is_in_one_group_of_the_stand_in() -> None:
    tree = Resctrl(intel())
    for name in ("LS", "BE"):
        tree.mkdir(name)
        tree.write_tasks(tree.groups[name], f"{os.getpid()}\n")
        assert tree.group_of(os.getpid()) == name
    assert str(os.getpid()) not in tree.tasks(tree.groups["LS"]).split()
    assert str(os.getpid()) not in tree.tasks(tree.root).split()
    with pytest.raises(ProcessLookupError):
        tree.write_tasks(tree.groups["BE"], "999999999\n")
    tree.rmdir("BE")
    assert str(os.getpid()) in tree.tasks(tree.root).split()


percents = st.integers(0, 100)
hardware = st.one_of(
    st.builds(
        intel,
        ways=st.integers(2, 32),
        min_cbm_bits=st.integers(1, 2),
        bandwidth_gran=st.sampled_from([1, 5, 10]),
        cache_ids=st.sampled_from([(0,), (0, 1), (0, 8)]),
    ),
    st.builds(amd, ways=st.integers(2, 32), cache_ids=st.sampled_from([(0,), (0, 1, 8)])),
)


@given(hardware, percents, percents, percents)
def test_the_stand_in_takes_every_plan(
    machine: Hardware, start: int, end: int, bandwidth: int
) -> None:
    tree = Resctrl(machine)
    tree.mkdir("BE")
    start, end = sorted((start, end)) if start != end else (0, 100)
    vendor = Vendor.AMD if machine.sparse else Vendor.INTEL
    limits = Limits(
        machine.full_mask, max(1, machine.min_cbm_bits), 0, machine.l3_closids,
        machine.bandwidth_gran, machine.min_bandwidth,
    )  # fmt: skip
    policy = ClassPolicy("BE", start, end, bandwidth)
    (plan,) = kernel.plan(vendor, limits, machine.cache_ids, [policy])
    for line in plan.lines:
        tree.write_schemata(tree.groups["BE"], f"{line}\n")
        # Rounded before it was written: what is read back is what was asked for.
        now = kernel.parse_schemata(tree.schemata(tree.groups["BE"]))
        assert kernel.parse_schemata(line).holds_in(now)


@pytest.fixture(params=[intel(), amd()], ids=["intel", "amd"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    try:
        with mounted(lambda: Resctrl(request.param), tmp_path) as point:
            yield point
    except MissingFuseError as error:
        pytest.skip(str(error))


def test_the_mounted_stand_in_answers_as_a_file_system(tree: Path) -> None:
    info = kernel.read_info(tree)
    assert info.has_bandwidth
    assert info.limits.num_closids in (8, 16)
    (tree / "BE").mkdir()
    with pytest.raises(FileExistsError):
        (tree / "BE").mkdir()
    (tree / "BE/schemata").write_text(f"L3:{info.l3_ids[1]}=f\n")
    assert kernel.parse_schemata((tree / "BE/schemata").read_text()).l3 == {
        info.l3_ids[0]: info.limits.cbm_mask, info.l3_ids[1]: 0xF,
    }  # fmt: skip
    with pytest.raises(OSError, match="Invalid argument"):
        (tree / "BE/schemata").write_text("L3:0=fffffff\n")
    assert (tree / "info/last_cmd_status").read_text() == "Mask out of range\n"
    with pytest.raises(PermissionError):
        (tree / "info/L3").rmdir()
    (tree / "BE").rmdir()
    assert not (tree / "BE").exists()


def test_native_code_moves_threads_in_the_mounted_stand_in(tree: Path) -> None:
    (tree / "LS").mkdir()
    added = Hierarchy(tree, Version.V1).add_ids("LS/tasks", [os.getpid(), 999_999_999])
    assert (added.added, added.gone, added.failed) == (1, 1, 0)
    assert (tree / "LS/tasks").read_text().split() == [str(os.getpid())]
