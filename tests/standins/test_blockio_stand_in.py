# SPDX-License-Identifier: Apache-2.0
"""The stand-in of the io controller, and koord's writer on it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.kernels.cgroup import Hierarchy, Outcome, Write, Writer
from koord.kernels.cgroup_parse import Version
from tests.standins.blockio import Disks, IoGroup
from tests.standins.fuse import MissingFuseError, mounted

POD = "kubepods.slice/pod"
READ_BPS, WRITE_IOPS = "blkio.throttle.read_bps_device", "blkio.throttle.write_iops_device"
WEIGHT, QOS, MODEL = "blkio.cost.weight", "blkio.cost.qos", "blkio.cost.model"


def made() -> IoGroup:
    return IoGroup(Disks({"8:0": None, "8:16": None}))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    try:
        with mounted(made, tmp_path) as point:
            (point / POD).parent.mkdir()
            (point / POD).mkdir()
            yield point
    except MissingFuseError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("file", "text", "number"),
    [
        (f"{POD}/io.max", "8:0 rbps=0", errno.ERANGE),
        (f"{POD}/io.max", "8:0 5", errno.EINVAL),
        (f"{POD}/io.max", "8:0 rbps=5 bps=5", errno.EINVAL),
        (f"{POD}/io.max", "9:0 rbps=5", errno.ENODEV),
        (f"{POD}/io.weight", "8:16 50", errno.EOPNOTSUPP),
        (f"{POD}/io.weight", "default 10001", errno.EINVAL),
        ("io.cost.qos", "8:0 enable=1 ctrl=some", errno.EINVAL),
        ("io.cost.model", "8:0 model=square", errno.EINVAL),
    ],
)
def test_the_stand_in_refuses_what_the_kernel_refuses(
    root: Path, file: str, text: str, number: int
) -> None:
    # A device has a cost model from the first write on, be that refused or not.
    (root / "io.cost.qos").write_text("8:0 enable=0")
    before = (root / file).read_text()
    with pytest.raises(OSError, match=r"\[Errno") as error:
        (root / file).write_text(text)
    assert error.value.errno == number
    assert (root / file).read_text() == before


def test_the_stand_in_prints_only_devices_with_limits(root: Path) -> None:
    file = root / POD / "io.max"
    file.write_text("8:0 rbps=5 wiops=4294967295")
    file.write_text("8:0 riops=7")
    assert file.read_text() == "8:0 rbps=5 wbps=max riops=7 wiops=max\n"
    file.write_text("8:0 rbps=max riops=max")
    assert file.read_text() == ""


def test_a_number_makes_the_quality_of_the_stand_in_the_users(root: Path) -> None:
    file = root / "io.cost.qos"
    file.write_text("8:0 enable=1 ctrl=auto rpct=95.5")
    assert file.read_text().startswith("8:0 enable=1 ctrl=user rpct=95.50 rlat=250000 ")
    file.write_text("8:0 ctrl=auto")
    assert file.read_text().startswith("8:0 enable=1 ctrl=auto rpct=0.00 ")


def test_limits_of_one_line_of_the_stand_in_are_written_one_by_one(root: Path) -> None:
    writer = Writer(Hierarchy(root, Version.V2), force_after_seconds=-1)
    wanted = [Write(READ_BPS, POD, "8:0 1048576"), Write(WRITE_IOPS, POD, "8:0 0"),
              Write(WRITE_IOPS, POD, "8:16 9")]  # fmt: skip
    outcomes = [Outcome.WRITTEN, Outcome.UNCHANGED, Outcome.WRITTEN]
    assert [result.outcome for result in writer.write(wanted, 0)] == outcomes
    assert (root / POD / "io.max").read_text() == (
        "8:0 rbps=1048576 wbps=max riops=max wiops=max\n8:16 rbps=max wbps=max riops=max wiops=9\n"
    )
    assert {result.outcome for result in writer.write(wanted, 1)} == {Outcome.UNCHANGED}


def test_a_weight_of_the_stand_in_waits_for_a_cost_model(root: Path) -> None:
    writer = Writer(Hierarchy(root, Version.V2), force_after_seconds=-1)
    weight = [Write(WEIGHT, POD, "8:0 60")]
    (result,) = writer.write(weight, 0)
    assert (result.outcome, result.errno) == (Outcome.UNSUPPORTED, errno.EOPNOTSUPP)
    quality = Write(QOS, "", "8:0 enable=1 ctrl=user rpct=95 rlat=9 wpct=95 wlat=9")
    model = Write(MODEL, "", "8:0 ctrl=auto")
    results = writer.write([quality, model, *weight], 1)
    assert [result.message for result in results] == [""] * 3
    assert (root / POD / "io.weight").read_text() == "default 100\n8:0 60\n"
    results = writer.write([quality, model, *weight], 2)
    assert {result.outcome for result in results} == {Outcome.UNCHANGED}


def test_a_group_without_the_io_controller_is_told_as_unsupported(tmp_path: Path) -> None:
    (tmp_path / POD).mkdir(parents=True)
    wanted = [Write(READ_BPS, POD, "8:0 5"), Write(WEIGHT, POD, "8:0 5"),
              Write(QOS, "", "8:0 enable=0 ctrl=auto")]  # fmt: skip
    results = Writer(Hierarchy(tmp_path, Version.V2)).write(wanted, 0)
    assert {result.outcome for result in results} == {Outcome.UNSUPPORTED}
