# SPDX-License-Identifier: Apache-2.0
"""Which of a node's reservations a pod of devices gets: both plugins' scores, by hand."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.device import Device
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.plugins.deviceshare.plugin import DeviceShare
from tests.controllers.scheduler.plugins.deviceshare.clusters import device, gpus
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available
from tests.controllers.scheduler.pods import node, pod

GPU = "koordinator.sh/gpu"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
FOR_BOTH = [{"labelSelector": {"matchLabels": {"app": "x"}}}]


def cards(*minors: int) -> dict[str, Any]:
    """Whole cards of 16 GiB as a reservation's annotation tells of them."""
    each = (
        '{"minor":%d,"resources":{"koordinator.sh/gpu-core":"100",'
        '"koordinator.sh/gpu-memory-ratio":"100","koordinator.sh/gpu-memory":"16Gi"}}'
    )
    text = ",".join(each % minor for minor in minors)
    return {"annotations": {ALLOCATED: f'{{"gpu":[{text}]}}'}}


def test_what_devices_say_of_reservations_is_scaled_before_it_is_added() -> None:
    """``big`` holds 4 CPUs and 2 of 4 cards, ``small`` 2 CPUs and one."""
    bench = Bench(node("n", allocatable={GPU: "400"}))
    devices = DeviceShare(None, bench.world)
    bench.plugin.join([bench.plugin, bench.room, devices])
    bench.world.accounts.listen(devices)
    bench.views.view(Device).put(device("n", *gpus(4)))
    both = [bench.plugin, devices]
    decider = Decider(
        bench.table,
        bench.world.accounts,
        ProfilePlugins(pre_filter=both, filter=both, score=[(bench.plugin, 1)], reserve=both),
    )
    for name, cpu, amount, minors in (("big", "4", "200", (0, 1)), ("small", "2", "100", (2,))):
        requests = {GPU: amount}
        held = available(name, "n", cpu, requests=requests, owners=FOR_BOTH, **cards(*minors))
        bench.put(held)
        reserve = bench.world.accounts.get(f"r-{name}")
        assert reserve is not None
        bench.world.accounts.drop(reserve)
        devices.restore(reserve)
        bench.world.accounts.add(0, reserve)
    # CPU and cards: (25 + 50) / 2 is 37 of big, (50 + 100) / 2 is 75 of small. With big's cards 200
    # of 400 percent are used and 16 of 64 GiB, 50 and 75: 62; with small's 300 and 32, 37. Scaled
    # 100 and 59: big has 137, small 134. Unscaled it would be 99 and 112.
    wanted = bench.info(pod("p", cpu="1", requests={GPU: "100"}, labels={"app": "x"}))
    decision = decider.decide(wanted)
    assert decider.assume(decision) is None
    assert wanted.allocations["Reservation"].name == "big"
    assert [held.minor for held in wanted.allocations["DeviceShare"]] == [0]
