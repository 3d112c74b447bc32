# SPDX-License-Identifier: Apache-2.0
"""The scenes' own tools: what they write holds real processes, what they read is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenes.place import GuestPlace, MissingPlaceError, Place, find_unified

MIB = 2**20


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_a_quota_a_cpuset_and_memory_hold_real_processes(place: Place, driver: str) -> None:
    seen = place.run("kernel", driver=driver)
    assert seen["free"] > 2 * seen["throttled"]
    assert seen["throttled"] < 0.3
    assert seen["throttles"] > 5
    if place.version == 2:
        assert seen["pressure"] > 0
    assert seen["allowed"] == seen["cpus"] == seen["last"]
    assert 64 * MIB <= seen["memory"] < 80 * MIB
    assert seen["running"] == ["busy"]
    assert seen["left"] == 0


@pytest.mark.vm
def test_a_directory_of_cgroup_v2_is_as_good_as_its_root(v2: Place) -> None:
    """What a machine's own cgroup v2 is used by."""
    assert isinstance(v2, GuestPlace)
    seen = GuestPlace(v2.guest, "/sys/fs/cgroup/koord-own").run("kernel")
    assert seen["free"] > 2 * seen["throttled"]
    assert seen["allowed"] == seen["cpus"] == seen["last"]
    assert 64 * MIB <= seen["memory"] < 80 * MIB


MOUNT = "35 24 0:30 / {} rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("controllers", "handed_down", "told"),
    [
        ("hugetlb", "", "cgroup.controllers has no cpu, cpuset, memory, io: v1 hierarchies have"),
        ("cpuset cpu io memory pids", "cpu memory", "has no cpuset, io: KOORD_CGROUP2 may name"),
        (None, "", "no cgroup v2 in "),
    ],
)
def test_a_machine_without_cgroup_v2_to_use_says_why(
    tmp_path: Path, controllers: str | None, handed_down: str, told: str
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text(MOUNT.format(tmp_path))
    if controllers is not None:
        (tmp_path / "cgroup.controllers").write_text(controllers)
        (tmp_path / "cgroup.subtree_control").write_text(handed_down)
    with pytest.raises(MissingPlaceError, match=told):
        find_unified({}, str(tmp_path))
    with pytest.raises(MissingPlaceError, match=told):
        find_unified({"KOORD_CGROUP2": str(tmp_path)}, "/nowhere")


@pytest.mark.vm
def test_batch_weight_keeps_a_service_from_waiting_where_nothing_is_free(v2: Place) -> None:
    conditions = ["usual weight, paced", "batch weight, paced"]
    seen = v2.run("contention", free_percent=[40, -50], conditions=conditions, windows=3)
    roomy, full, _, batch = seen
    # What is withheld from the guest itself looks like work of whoever runs: figures tell something
    # only beside those of the same run.
    assert full["free_cpu_share"] < 0.5 * roomy["free_cpu_share"]
    assert full["run_delay_share"] > 1.3 * roomy["run_delay_share"]
    assert batch["run_delay_share"] < 0.8 * full["run_delay_share"]
    assert batch["granted_cpu"] >= 0.9 * batch["wanted_cpu"]


@pytest.mark.vm
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "through the page cache"])
def test_limits_of_a_disk_hold_and_are_given_back(v2: Place, direct: bool) -> None:
    check_disk(v2, direct)


def test_limits_of_this_machines_disk_hold_and_are_given_back(unified: Place) -> None:
    check_disk(unified, True)


def check_disk(place: Place, direct: bool) -> None:
    limit = 4 * MIB
    seen = place.run("disk", limit_bytes=limit, direct=direct)
    device, said, after = seen["device"], seen["said"], seen["afterwards"]
    assert seen["unsupported"] == seen["failures"] == seen["left"] == []
    assert said["limits"] == f"{device} rbps={limit} wbps=max riops=max wiops=100\n"
    assert said["weights"] == f"default 100\n{device} 50\n"
    assert said["quality"].startswith(
        f"{device} enable=1 ctrl=user rpct=95.00 rlat=3000 wpct=95.00 wlat=3000 "
    )
    assert said["model"].startswith(f"{device} ctrl=auto model=linear rbps=")
    assert seen["limited"] < 1.2 * limit < 0.5 * min(seen["free"], seen["again"])
    assert (after["limits"], after["weights"]) == ("", "default 100\n")
    assert after["quality"].startswith(f"{device} enable=0 ctrl=auto ")
    assert after["model"].startswith(f"{device} ctrl=auto ")
