# SPDX-License-Identifier: Apache-2.0
"""The controller's decisions and figures.

Rule: docs/reference/reservations.md#life-of-a-reservation.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.base.metrics import registry
from koord.controllers.scheduler.plugins.reservation.explain import metrics
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle
from koord.controllers.scheduler.plugins.reservation.writers import reservation_controller
from tests.controllers.scheduler.plugins.reservation.bench import NOW, available, reservation
from tests.controllers.scheduler.pods import pod

KEY = "scheduling.koordinator.sh/reservation-allocated"


def sits(name: str, where: str = "n", cpu: str = "200m", memory: str = "400Mi", **more: Any) -> Pod:
    note = {KEY: '{"name": "R", "uid": "r-R"}'}
    return pod(name, cpu=cpu, memory=memory, annotations=note, nodeName=where, **more)


def status(value: Any, *pods: Pod, now: float = NOW, node_exists: bool = True) -> Any:
    found = reservation_controller.next_status(value, pods, now, node_exists=node_exists)
    return codec.parse_json(codec.to_json(found), "status") if found is not None else None


DEMO = {"cpu": "500m", "memory": "800Mi"}


def test_the_quick_starts_owner_ends_it() -> None:
    """Release 0.6, with today's default of allocateOnce."""
    value = available("R", "n", requests=DEMO)
    value = structs.replace(value, status=lifecycle.bound(value, "n", NOW))
    found = status(value, sits("pod-demo-0"), now=NOW + 5)
    assert found["phase"] == "Succeeded"
    assert found["currentOwners"] == [
        {"namespace": "default", "name": "pod-demo-0", "uid": "uid-pod-demo-0"}
    ]
    assert found["allocatable"] == {"cpu": "500m", "memory": "800Mi"}
    assert found["allocated"] == {"cpu": "200m", "memory": "400Mi"}
    assert found["conditions"][1] == {
        "type": "Ready",
        "status": "False",
        "reason": "Succeeded",
        "lastProbeTime": "2023-11-14T22:13:25Z",
        "lastTransitionTime": "2023-11-14T22:13:25Z",
    }


def test_the_reusable_one_stays() -> None:
    value = available("R", "n", requests=DEMO, allocateOnce=False)
    found = status(value, sits("b"), sits("a", requests={"example.com/x": "1"}), sits("c", "m"))
    assert found["phase"] == "Available"
    assert [each["name"] for each in found["currentOwners"]] == ["a", "b"]
    assert found["allocated"] == {"cpu": "400m", "memory": "800Mi"}
    same = structs.replace(
        value, status=reservation_controller.next_status(value, [sits("a")], NOW, node_exists=True)
    )
    assert status(same, sits("a")) is None
    left = status(same)
    assert "currentOwners" not in left
    assert "allocated" not in left


def test_pods_that_ended_own_nothing() -> None:
    value = available("R", "n", requests=DEMO)
    assert status(value, sits("a", status={"phase": "Succeeded"})) is None


def test_it_expires() -> None:
    for value in (
        available("R", "n", requests=DEMO, ttl="1h"),
        reservation("R", requests=DEMO, ttl="1h"),  # the original forgets those without a node
        available("R", "n", requests=DEMO, ttl="24h", expires="2023-11-14T23:13:20Z"),
    ):
        assert status(value, now=NOW + 3600) is None
        found = status(value, sits("a"), now=NOW + 3601)
        assert (found["phase"], found["conditions"][-1]["reason"]) == ("Failed", "Expired")
    for_ever = available("R", "n", requests=DEMO, ttl="0s")
    assert status(for_ever, now=NOW * 2) is None


def test_it_goes_with_its_node() -> None:
    value = available("R", "n", requests=DEMO)
    assert status(value, node_exists=False)["phase"] == "Failed"
    ended = structs.replace(value, status=lifecycle.expired(value, NOW))
    assert status(ended, node_exists=False) is None


def test_when_it_is_looked_at_again() -> None:
    def after(ttl: str, now: float) -> float | None:
        return reservation_controller.next_look_seconds(available("R", "n", ttl=ttl), now)

    assert after("1h", NOW) == 15.0
    assert after("1h", NOW + 3592) == 8.0
    assert after("1h", NOW + 3599) == 3.0
    assert after("0s", NOW) is None


def test_what_may_be_deleted() -> None:
    def garbage(value: Any, now: float, *, node_exists: bool = True) -> bool:
        return reservation_controller.is_garbage(value, now, 86_400, node_exists=node_exists)

    value = available("R", "n", requests=DEMO)
    expired = structs.replace(value, status=lifecycle.expired(value, NOW))
    used = structs.replace(value, status=lifecycle.succeeded(value.status, NOW))
    assert not garbage(value, NOW + 90_000)
    for each in (expired, used):
        assert not garbage(each, NOW + 86_400)
        assert garbage(each, NOW + 86_401)
        assert garbage(each, NOW, node_exists=False)
    failed = structs.replace(value, status=structs.replace(value.status, phase="Failed"))
    assert not garbage(failed, NOW + 90_000)


def test_figures() -> None:
    value = available(
        "R", "n", cpu="4", memory="8Gi", requests={"example.com/x": "2"},
        status={"allocated": {"cpu": "1", "memory": "2Gi"}},
    )  # fmt: skip
    found = {(kind, name): (unit, n) for kind, name, unit, n in metrics.resource_figures(value)}
    assert found["allocatable", "cpu"] == ("core", 4.0)
    assert found["utilization", "cpu"] == ("ratio", 0.25)
    assert found["allocated", "memory"] == ("Gi", 2.0)
    assert found["allocatable", "example.com/x"] == ("raw", 2.0)
    assert dict(metrics.phase_figures(value))["Available"] == 1.0
    nameless = structs.replace(value, status=structs.replace(value.status, phase=""))
    assert dict(metrics.phase_figures(nameless))["Pending"] == 1.0


def test_metrics_forget_what_is_gone() -> None:
    into = registry()
    gauges = metrics.ReservationMetrics(into)
    gauges.record([available("R", "n", cpu="4"), available("S", "n", cpu="4")])
    gauges.record([available("S", "n", cpu="4")])
    text = into.expose().decode()
    assert 'scheduler_reservation_status_phase{name="S",phase="Available"} 1.0' in text
    assert (
        'scheduler_reservation_resource{name="S",resource="cpu",type="allocatable",unit="core"} 4.0'
        in text
    )
    assert 'name="R"' not in text
