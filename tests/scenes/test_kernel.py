# SPDX-License-Identifier: Apache-2.0
"""The scenes' own tools: what they write holds real processes, what they read is true."""

from __future__ import annotations

import pytest

from tests.scenes.place import Place

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
def test_limits_of_a_disk_hold_and_are_given_back(v2: Place) -> None:
    limit = 4 * MIB
    seen = v2.run("disk", limit_bytes=limit)
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
