# SPDX-License-Identifier: Apache-2.0
"""Reserve pods and the steps of a Reservation's status.

Rule: docs/reference/reservations.md#reserve-pods.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from koord.api import codec
from koord.api.kinds.reservation import Reservation
from koord.api.objects import load_manifests
from koord.base.errors import KoordError
from koord.controllers.cluster.pods import Shapes
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    reserve_pod,
    stands_for_reservation,
)
from koord.controllers.scheduler.plugins.reservation.writers import reservation_writer
from tests.controllers.scheduler.plugins.reservation.bench import NOW, available, reservation
from tests.controllers.scheduler.pods import pod

PREFIX = "scheduling.koordinator.sh/"


def document(value: Any) -> Any:
    return codec.parse_json(codec.to_json(value), "value")


def test_the_template_becomes_a_pod() -> None:
    template = {
        "metadata": {
            "labels": {"a": "t", "b": "t"},
            "namespace": "team",
            "annotations": {"x": "t"},
        },
        "spec": {
            "nodeName": "n7",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
        },
    }
    made = reserve_pod(
        reservation(
            "R",
            template=template,
            labels={"a": "own"},
            annotations={"x": "own"},
            preAllocation=True,
        )
    )
    meta = made.metadata
    assert (meta.name, meta.uid, meta.namespace) == ("r-R", "r-R", "team")
    assert meta.labels == {"a": "own", "b": "t"}
    assert meta.annotations == {
        "x": "own",
        f"{PREFIX}reserve-pod": "true",
        f"{PREFIX}reservation-name": "R",
        f"{PREFIX}reservation-node": "n7",
        f"{PREFIX}is-pre-allocation": "true",
    }
    assert made.spec.node_name == ""
    assert made.spec.scheduler_name == "default-scheduler"
    assert made.spec.priority == 2**31 - 1
    assert stands_for_reservation(made)
    assert not stands_for_reservation(pod("p", annotations={f"{PREFIX}reserve-pod": "true"}))


def test_priority() -> None:
    labelled = reservation("R", cpu="1", labels={"koordinator.sh/priority": "7000"})
    assert reserve_pod(labelled).spec.priority == 7000
    template = {"spec": {"priority": 5, "containers": []}}
    both = reservation("R", template=template, labels={"koordinator.sh/priority": "7000"})
    assert reserve_pod(both).spec.priority == 5
    with pytest.raises(KoordError, match=r"labels\[koordinator.sh/priority\]: got '4294967296'"):
        reserve_pod(reservation("R", cpu="1", labels={"koordinator.sh/priority": "4294967296"}))


def test_equal_reservations_share_a_shape() -> None:
    shapes = Shapes()
    one, two = (shapes.info(reserve_pod(reservation(n, cpu="8", owners=[{}]))) for n in ("a", "b"))
    assert one.shape is two.shape
    assert one.uid != two.uid


def test_what_is_held_replaces_what_the_template_says() -> None:
    held = available("R", "n", cpu="4", memory="8Gi", status={"allocatable": {"cpu": "6"}})
    made = reserve_pod(held)
    assert made.spec.node_name == "n"
    names = [container.name for container in made.spec.containers]
    assert names == ["main", "__internal_fake_container__"]
    assert not made.spec.containers[0].resources.requests
    assert document(made.spec.containers[1].resources) == {
        "requests": {"cpu": "6", "memory": "8Gi"}, "limits": {"cpu": "6", "memory": "8Gi"},
    }  # fmt: skip
    same = reserve_pod(available("R", "n", cpu="4"))
    assert [container.name for container in same.spec.containers] == ["main"]


def test_ended_reservations_give_ended_pods() -> None:
    ended = reservation("R", cpu="1", status={"phase": "Succeeded", "nodeName": "n"})
    assert reserve_pod(ended).status.phase == "Succeeded"
    assert reserve_pod(available("R", "n", cpu="1")).status.phase == ""


def test_binding() -> None:
    resized = {f"{PREFIX}reservation-resize-allocatable": '{"resources": {"cpu": "6"}}'}
    pending = reservation("R", cpu="4", memory="8Gi", annotations=resized)
    assert document(lifecycle.bound(pending, "n1", NOW)) == {
        "phase": "Available",
        "nodeName": "n1",
        "allocatable": {"cpu": "6", "memory": "8Gi"},
        "conditions": [
            condition("Scheduled", "True", "Scheduled"),
            condition("Ready", "True", "Available"),
        ],
    }
    with pytest.raises(KoordError, match="reservation is not active"):
        lifecycle.bound(reservation("R", status={"phase": "Failed"}), "n1", NOW)
    bad = {f"{PREFIX}reservation-resize-allocatable": '{"resources": {"cpu": "-1"}}'}
    with pytest.raises(KoordError, match="an amount of 0 or more"):
        lifecycle.bound(reservation("R", cpu="4", annotations=bad), "n1", NOW)


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    moment = "2023-11-14T22:13:20Z"
    made = {"type": kind, "status": status, "reason": reason}
    made.update({"message": message} if message else {})
    return {**made, "lastProbeTime": moment, "lastTransitionTime": moment}


def test_failing_to_fit() -> None:
    first = lifecycle.refused(reservation("R", cpu="4"), "0/1 nodes are available: ...", NOW)
    assert document(first)["conditions"] == [
        condition("Scheduled", "False", "Unschedulable", "0/1 nodes are available: ...")
    ]
    assert first.phase == "Pending"
    waiting = structs.replace(reservation("R", cpu="4"), status=first)
    again = document(lifecycle.refused(waiting, "no", NOW + 60))["conditions"][0]
    assert again["message"] == "no"
    assert again["lastProbeTime"] == "2023-11-14T22:14:20Z"
    assert again["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert (
        reservation_writer.unschedulable_patch(waiting, "0/1 nodes are available: ...", NOW) is None
    )
    scheduled = structs.replace(waiting, status=lifecycle.bound(waiting, "n", NOW))
    kept = lifecycle.refused(scheduled, "no", NOW + 60)
    assert kept.conditions[0].status == "True"
    assert document(kept)["conditions"][0]["lastProbeTime"] == "2023-11-14T22:14:20Z"


def test_expiry() -> None:
    def due(**spec: Any) -> float | None:
        return lifecycle.due_seconds(reservation("R", cpu="1", **spec))

    assert due(ttl="1h") == NOW + 3600
    assert due(ttl="0s") is None
    assert due(ttl="0s", expires="2023-11-14T22:14:20Z") is None
    assert due(ttl="1h", expires="2023-11-14T22:14:20Z") == NOW + 60
    assert due(ttl="10s", expires="2023-11-14T22:14:20Z") == NOW + 10
    held = available("R", "n", cpu="1", ttl="1h")
    assert not lifecycle.needs_expiry(held, NOW + 3600)
    assert lifecycle.needs_expiry(held, NOW + 3601)
    ended = structs.replace(held, status=lifecycle.expired(held, NOW))
    assert lifecycle.is_expired(ended)
    assert document(ended.status)["conditions"] == [condition("Ready", "False", "Expired")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"template": None}, "spec.template: got None, expected the template spec"),
        ({"owners": []}, "spec.owners: got [], expected at least one owner spec"),
        ({"ttl": None}, "spec.ttl: got None, expected an expiration spec: ttl or expires"),
    ],
)
def test_what_cannot_be_scheduled(change: dict[str, Any], why: str) -> None:
    good = reservation("R", cpu="1")
    lifecycle.check(good)
    bad = structs.replace(good, spec=structs.replace(good.spec, **change))
    with pytest.raises(KoordError) as caught:
        lifecycle.check(bad)
    assert str(caught.value) == f"Reservation R: {why}"


def test_negative_amounts_are_refused() -> None:
    with pytest.raises(KoordError) as caught:
        lifecycle.check(reservation("R", cpu="-4"))
    assert str(caught.value) == (
        "Reservation R: spec.template.spec.containers[0].resources.requests[cpu]: got '-4', "
        "expected an amount of 0 or more"
    )
    held = available("R", "n", cpu="4", status={"allocatable": {"cpu": "-4"}})
    assert not reserve_pod(held).spec.containers[-1].resources.requests


def test_patches_say_only_what_changed() -> None:
    held = available("R", "n", cpu="4", status={"allocated": {"cpu": "1", "memory": "1Gi"}})
    after = structs.replace(held.status, allocated={"cpu": held.status.allocatable["cpu"]})
    body = codec.parse_json(reservation_writer.status_patch(held, after).body, "patch")
    assert body == {
        "metadata": {"uid": "r-R", "resourceVersion": "1"},
        "status": {"allocated": {"cpu": "4", "memory": None}},
    }


def test_quick_start(reference_data: Path) -> None:
    """Release 0.6: what the first Reservation asks for is what it holds."""
    text = (reference_data / "examples/releases/reservation-demo.yaml").read_text()
    first, second = load_manifests(text)
    for each in (first, second):
        assert isinstance(each, Reservation)
        lifecycle.check(each)
        status = document(lifecycle.bound(each, "node", NOW))
        assert status["allocatable"] == {"cpu": "500m", "memory": "800Mi"}
    assert reserve_pod(first).spec.scheduler_name == "koord-scheduler"
    assert (first.spec.allocate_once, second.spec.allocate_once) == (True, False)
