# SPDX-License-Identifier: Apache-2.0
"""One job with its pod and its reservation, in any state of its course."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.vectors.migration.clusters import NOW, _moment

if TYPE_CHECKING:
    import random

    from tests.vectors.area import Json

_ORDER = "scheduling.koordinator.sh/reservation-order"


def reservation(draw: random.Random) -> Json:
    """A job without a reservation, and the pod that it is made from."""
    job = _job(draw, made=False)
    if draw.random() < 0.4:
        job["spec"]["reservationOptions"] = {"template": _template(draw)}
    return {"ask": "reservation", "args": {}, "jobs": [job], "pods": [_pod(draw)]}


def course(draw: random.Random) -> Json:
    """A job somewhere on its way."""
    made = draw.random() < 0.75
    job = _job(draw, made)
    held = _reservation(draw) if made and draw.random() < 0.95 else None
    pods = [_pod(draw)] if draw.random() < 0.85 else []
    if held and held["status"].get("currentOwners") and draw.random() < 0.85:
        bound = _pod(draw)
        bound["metadata"].update(name="fresh", uid="uid-fresh")
        bound["spec"]["nodeName"] = "n2"
        pods.append(bound)
    if pods and held and "object" in held["spec"]["owners"][0] and draw.random() < 0.7:
        unplaced = {"type": "PodScheduled", "status": draw.choice(["False", "False", "True"])}
        pods[0]["status"] = {"phase": "Pending", "conditions": [unplaced]}
    args = {"defaultJobMode": "EvictDirectly"} if draw.random() < 0.1 else {}
    return {
        "ask": "course",
        "args": args,
        "jobs": [job],
        "pods": pods,
        "reservation": held,
        "now": NOW,
        "refused": draw.random() < 0.15,
        "passed": [],
        "deployments": [],
        "replicaSets": [],
        "statefulSets": [],
    }


def _job(draw: random.Random, made: bool) -> Json:
    ref: dict[str, Any] = {"namespace": "default", "name": "web"}
    phase = draw.choice(["", "Pending", "Running", "Running", "Running", "Failed", "Succeeded"])
    if phase == "Running" or draw.random() < 0.5:
        ref["uid"] = "uid-web" if draw.random() < 0.93 else "uid-other"
    if draw.random() < 0.04:
        ref["name"] = ""
    spec: dict[str, Any] = {"podRef": ref, "paused": draw.random() < 0.04}
    if draw.random() < 0.7:
        spec["ttl"] = draw.choice(["5m", "1m", "0s", "1h"])
    if draw.random() < 0.8:
        spec["mode"] = draw.choice(["ReservationFirst"] * 4 + ["EvictDirectly"])
    if made:
        named = {"kind": "Reservation", "name": "held", "uid": "uid-held"}
        spec["reservationOptions"] = {"reservationRef": named}
    notes = {}
    if draw.random() < 0.5:
        notes["koordinator.sh/evict-reason"] = draw.choice(["hot", ""])
        notes["koordinator.sh/evict-trigger"] = "LowNodeLoad"
    meta = {
        "name": "job",
        "uid": "uid-job",
        "annotations": notes,
        "creationTimestamp": _moment(NOW - draw.choice([1, 30, 100, 400])),
    }
    return {"metadata": meta, "spec": spec, "status": _status(draw, phase, made)}


def _status(draw: random.Random, phase: str, made: bool) -> Json:
    status: dict[str, Any] = {"phase": phase}
    if phase != "Running":
        return status
    chain = [
        ("ReservationCreated", "True", "", ""),
        ("ReservationScheduled", "True", "", ""),
        ("Eviction", "False", "Evicting", "gone"),
        ("Eviction", "True", "EvictComplete", ""),
        ("ReservationBound", "True", "", ""),
    ]
    reached = draw.randint(0, len(chain)) if made else draw.choice([0, 0, 3, 4])
    conditions: dict[str, Json] = {}
    for kind, value, reason, message in chain[:reached]:
        if not made and kind.startswith("Reservation"):
            continue
        conditions[kind] = {"type": kind, "status": value, "reason": reason, "message": message}
        if kind != "ReservationBound":
            status.update(status=kind, reason=reason, message=message)
    if "ReservationScheduled" in conditions:
        status["nodeName"] = "n2"
    if "ReservationBound" in conditions:
        status["podRef"] = {"namespace": "default", "name": "fresh"}
    status["conditions"] = list(conditions.values())
    return status


def _reservation(draw: random.Random) -> Json:
    phase = draw.choice(
        ["", "Pending", "Available", "Available", "Available", "Succeeded", "Succeeded", "Failed"]
    )
    status: dict[str, Any] = {"phase": phase, "conditions": []}
    if phase in ("Available", "Succeeded"):
        status["nodeName"] = draw.choice(["n2", "n2", "n2", "n1"])
        status["conditions"].append({"type": "Scheduled", "status": "True", "reason": "Scheduled"})
    elif draw.random() < 0.5:
        status["conditions"].append(
            {
                "type": "Scheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no room",
            }
        )
    if phase == "Failed":
        status["conditions"].append(
            {
                "type": "Ready",
                "status": "False",
                "reason": draw.choice(["Expired", "Expired", "Other"]),
            }
        )
    if phase == "Succeeded" or (phase == "Available" and draw.random() < 0.2):
        status["currentOwners"] = [{"namespace": "default", "name": "fresh", "uid": "uid-fresh"}]
    owner = {
        "controller": {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": "uid-rs",
            "controller": True,
            "namespace": "default",
        }
    }
    if draw.random() < 0.25:
        owner = {"object": {"kind": "Pod", "namespace": "default", "name": "web", "uid": "uid-web"}}
    labels = {_ORDER: "1"} if draw.random() < 0.9 else {}
    template = {"spec": {"containers": [{"name": "c"}]}}
    return {
        "metadata": {"name": "held", "uid": "uid-held", "labels": labels},
        "spec": {"owners": [owner], "template": template},
        "status": status,
    }


def _pod(draw: random.Random) -> Json:
    owners = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": "uid-rs",
            "controller": draw.random() < 0.9,
        }
    ]
    meta: dict[str, Any] = {
        "name": "web",
        "namespace": "default",
        "uid": "uid-web",
        "labels": {"app": "web"},
        "annotations": {"a": "b"},
    }
    if draw.random() < 0.85:
        meta["ownerReferences"] = owners
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i"}],
        "schedulerName": "koord-scheduler",
    }
    status: dict[str, Any] = {"phase": "Running"}
    conditions = [{"type": "Ready", "status": draw.choice(["True", "True", "False"])}]
    if draw.random() < 0.15:
        status["phase"] = "Pending"
        conditions.append(
            {"type": "PodScheduled", "status": draw.choice(["False", "True"]), "message": "no room"}
        )
    if draw.random() < 0.9:
        spec["nodeName"] = "n1"
    if draw.random() < 0.3:
        spec["affinity"] = _affinity(draw)
    if draw.random() < 0.3:
        spec["volumes"] = [{"name": "v", "emptyDir": {}}]
    status["conditions"] = conditions
    return {"metadata": meta, "spec": spec, "status": status}


def _affinity(draw: random.Random) -> Json:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in "ab"]
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    required = {"nodeSelectorTerms": terms[: draw.randint(1, 2)]}
    return draw.choice(
        [{}, {"nodeAffinity": {}}, {"nodeAffinity": {key: required}}, {"podAffinity": {}}]
    )


def _template(draw: random.Random) -> Json:
    spec: dict[str, Any] = {}
    if draw.random() < 0.5:
        spec["owners"] = [{"labelSelector": {"matchLabels": {"own": "yes"}}}]
    if draw.random() < 0.5:
        spec["template"] = {
            "metadata": {"labels": {"x": "y"}},
            "spec": {"containers": [{"name": "z"}], "nodeName": "n9"},
        }
    if draw.random() < 0.4:
        spec["ttl"] = "10m"
    meta = {"name": "named", "labels": {"mine": "yes"}} if draw.random() < 0.5 else {}
    return {"metadata": meta, "spec": spec}
