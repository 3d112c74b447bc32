# SPDX-License-Identifier: Apache-2.0
"""The stand-in of a kernel with bvt and watermarks, and koord's writer on it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.kernels.cgroup import Hierarchy, Outcome, Reader, Write, Writer
from koord.kernels.cgroup_parse import Version
from tests.standins.fuse import MissingFuseError, mounted
from tests.standins.vendor import hierarchies

PODS = "kubepods.slice"
BVT, RATIO, ADJUST, HIGH = (
    "cpu.bvt_warp_ns", "memory.wmark_ratio", "memory.wmark_min_adj", "memory.high",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    try:
        with mounted(hierarchies, tmp_path) as point:
            for name in ("cpu", "cpuset", "cpuacct", "memory"):
                (point / name / PODS).mkdir()
            yield point
    except MissingFuseError as error:
        pytest.skip(str(error))


def test_bvt_and_watermarks_of_the_stand_in_are_written_and_read(root: Path) -> None:
    tree = Hierarchy(root, Version.V1)
    values = {BVT: -1, RATIO: 95, ADJUST: 50, HIGH: 2**30}
    writer = Writer(tree)
    results = writer.write([Write(name, PODS, value) for name, value in values.items()], 0)
    assert [result.message for result in results] == [""] * 4
    tables = Reader(tree).read([PODS], list(values))
    assert {name: int(table["value"][0]) for name, table in tables.items()} == values


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (f"cpu/{PODS}/{BVT}", "3"),
        (f"cpu/{PODS}/{BVT}", "-2"),
        (f"memory/{PODS}/{RATIO}", "101"),
        (f"memory/{PODS}/{ADJUST}", "-26"),
        (f"memory/{PODS}/memory.wmark_scale_factor", "0"),
        (f"memory/{PODS}/memory.priority", "13"),
        (f"memory/{PODS}/memory.oom.group", "yes"),
    ],
)
def test_the_stand_in_refuses_what_is_out_of_range(root: Path, file: str, text: str) -> None:
    before = (root / file).read_text()
    with pytest.raises(OSError, match="Invalid argument") as error:
        (root / file).write_text(text)
    assert error.value.errno == errno.EINVAL
    assert (root / file).read_text() == before


def test_the_stand_in_keeps_sizes_in_whole_pages(root: Path) -> None:
    file = root / "memory" / PODS / HIGH
    assert file.read_text() == "max\n"
    file.write_text("10000")
    assert file.read_text() == "8192\n"
    file.write_text("max")
    assert file.read_text() == "max\n"


def test_a_directory_of_the_stand_in_that_is_gone_is_missing(root: Path) -> None:
    writer = Writer(Hierarchy(root, Version.V1))
    (result,) = writer.write([Write(RATIO, f"{PODS}/gone", 1)], 0)
    assert result.outcome is Outcome.MISSING
