# SPDX-License-Identifier: Apache-2.0
"""Cases of admission: pods, Reservations and bindings among profiles, classes, quotas and gates."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from koord.kernels.quantity import Quantity
from tests.vectors.admission.parts import (
    BATCH_CPU,
    CLASSES,
    GPU_AMOUNTS,
    chance,
    labels_of,
    pod_spec,
    profile,
    quota,
    quota_profile,
    reservation,
)

if TYPE_CHECKING:
    import random

    from koord.base.errors import KoordError
    from tests.vectors.area import Json

_LISTS = ("requests", "limits", "overhead")
_CAUSES = {
    ("qos-class-priority-and-resources", "labels[koordinator.sh/priority]"): "priority fixed",
    ("qos-class-priority-and-resources", "spec.priority"): "class fixed",
    ("quota-membership", "labels[quota.scheduling.koordinator.sh/name]"): "parent",
    ("quota-membership", "labels[quota.scheduling.koordinator.sh/preemptible]"): "preemptible",
    ("reserved-annotations", "annotations[scheduling.koordinator.sh/reserve-pod]"): "reserved",
    ("enhanced-validation", "labels"): "label",
}
_WORDS = (
    ("device-resources", "not both", "both"), ("device-resources", "number of cards", "zero"),
    ("device-resources", "multiple of", "multiple"),
    ("device-resources", "one of", "memory"),
    ("qos-class-priority-and-resources", "it is fixed", "qos fixed"),
    ("qos-class-priority-and-resources", "which pods that ask", "batch"),
    ("qos-class-priority-and-resources", "whole number of CPUs", "cpu"),
    ("qos-class-priority-and-resources", "the priority of", "combination"),
)  # fmt: skip


def cause(rule: str, error: KoordError) -> str:
    """The word of the driver for an error."""
    found = _CAUSES.get((rule, error.field))
    if found is not None:
        return found
    if "1 to 100 percent" in error.expected:
        return "zero" if str(error.value) == "0" else "hundreds"
    return next(word for of, part, word in _WORDS if of == rule and part in error.expected)


def canonical(value: Any, key: str = "") -> Any:
    """A document without what says nothing, quantities as Kubernetes writes them."""
    if isinstance(value, dict):
        if key in _LISTS:
            value = {name: str(Quantity.from_wire(amount)) for name, amount in value.items()}
        found = {name: canonical(inner, name) for name, inner in value.items()}
        return {name: inner for name, inner in found.items() if inner is not None} or None
    if isinstance(value, list):
        return [canonical(inner) for inner in value] or None
    return None if value == "" else value


def inputs(draw: random.Random) -> list[Json]:
    """At least a thousand cases, skewed to the corners."""
    return [
        *(_mutation(draw) for _ in range(560)), *(_reservation(draw) for _ in range(120)),
        *(_validation(draw) for _ in range(480)), *(_binding(draw) for _ in range(120)),
    ]  # fmt: skip


def _case(rule: str, document: Json, **more: Json) -> Json:
    return {
        "rule": rule, "object": document, "old": None, "namespaces": [], "profiles": [],
        "classes": [], "quotas": [], "quotaProfiles": [], "configMap": None, "gates": {},
        "flags": {}, "user": "", "drawn": 0, **more,
    }  # fmt: skip


def _profiles(draw: random.Random, *, of_pods: bool) -> list[Json]:
    names = draw.sample(["a", "b", "B", "c-1"], draw.choice([0, 1, 1, 2, 3]))
    return [profile(draw, name, of_pods=of_pods) for name in names]


def _around(draw: random.Random, *, of_pods: bool) -> dict[str, Json]:
    namespace = {"metadata": {"name": "d", "labels": labels_of(draw)}}
    gone = draw.choice(list(CLASSES)) if chance(draw, 0.08) else ""
    return {
        "profiles": _profiles(draw, of_pods=of_pods),
        "namespaces": [] if chance(draw, 0.08) else [namespace],
        "classes": [each for name, each in CLASSES.items() if name != gone],
        "drawn": draw.choice([0, 10, 70, 98]),
    }


def _mutation(draw: random.Random) -> Json:
    pod = {"metadata": {"name": "p", "namespace": "d"}, "spec": pod_spec(draw)}
    labels = labels_of(draw, with_classes=True)
    gates = [
        "ColocationProfileSkipMutatingResources", "DisableExtendedResourceSpec",
        "DisableDeviceResourceSpec",
    ]  # fmt: skip
    on = {name: True for name in gates if chance(draw, 0.07)}
    more: dict[str, Json] = {}
    if chance(draw, 0.25):
        on["MultiQuotaTree"] = True
        names = sorted(draw.sample(["d", "q1", "q2"], draw.randint(1, 3)))
        more["quotas"] = [quota(draw, name, bound=name == names[0]) for name in names]
        more["quotaProfiles"] = [quota_profile(draw, name) for name in ("x", "y")]
        if chance(draw, 0.6):
            labels["quota.scheduling.koordinator.sh/name"] = draw.choice(["q1", "q2", "none"])
    if labels:
        pod["metadata"]["labels"] = labels
    if chance(draw, 0.2):
        text = draw.choice([
            "{", "{}", '{"containers":{"main":{"limits":{"kubernetes.io/batch-cpu":"1"}}}}',
        ])  # fmt: skip
        pod["metadata"]["annotations"] = {"node.koordinator.sh/extended-resource-spec": text}
    return _case("mutate", pod, gates=on, **_around(draw, of_pods=True), **more)


def _reservation(draw: random.Random) -> Json:
    return _case("reservation", reservation(draw), **_around(draw, of_pods=False))


def _validation(draw: random.Random) -> Json:
    pod: Json = {"metadata": {"name": "p", "namespace": "d"}}
    pod["metadata"]["labels"] = labels_of(draw, with_classes=True)
    if chance(draw, 0.1):
        pod["metadata"]["labels"]["pod.koordinator.sh/skip-enhanced-validation"] = "true"
    if chance(draw, 0.05):
        pod["metadata"]["annotations"] = {"scheduling.koordinator.sh/reserve-pod": "x"}
    pod["spec"] = pod_spec(draw)
    _make_valid(draw, pod)
    old = None
    if chance(draw, 0.4):
        old = deepcopy(pod)
        _change(draw, old)
    names = sorted(draw.sample(["d", "q1", "q2"], draw.randint(0, 3)))
    known = [quota(draw, name, bound=chance(draw, 0.4) and name == names[0]) for name in names]
    if chance(draw, 0.5):
        name = draw.choice(["q1", "q2", "none", "koordinator-default-quota"])
        pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = name
    gates = {
        name: True
        for name, share in (
            ("ColocationProfileSkipValidatingPriority", 0.2), ("ValidatePodDeviceResource", 0.6),
            ("SupportParentQuotaSubmitPod", 0.1), ("DisableDefaultQuota", 0.15),
            ("EnablePodEnhancedValidator", 0.4),
        )
        if chance(draw, share)
    }  # fmt: skip
    return _case("validate", pod, old=old, quotas=known, gates=gates, configMap=_rules(draw))


def _make_valid(draw: random.Random, pod: Json) -> None:
    """Mostly a class that goes with the rest, so that later rules are reached."""
    if chance(draw, 0.35):
        return
    labels = pod["metadata"]["labels"]
    labels["koordinator.sh/qosClass"] = qos = draw.choice(["BE", "LS", "LSR"])
    labels.pop("koordinator.sh/priority-class", None)
    pod["spec"]["priority"] = {"BE": 5500, "LS": 9500, "LSR": 9100}[qos]
    for container in pod["spec"]["containers"]:
        requests = container.setdefault("resources", {}).setdefault("requests", {})
        if qos != "BE":
            for name in [name for name in requests if "batch" in name]:
                del requests[name]
        if qos == "LSR":
            requests["cpu"] = draw.choice(["1", 2, "3000m"])
    for container in pod["spec"].get("initContainers", ()):
        container["resources"] = {}
    pod["spec"].pop("overhead", None)


def _change(draw: random.Random, pod: Json) -> None:
    labels = pod["metadata"]["labels"]
    for key, values in (
        ("koordinator.sh/qosClass", ["BE", "LS", "lower", None]),
        ("koordinator.sh/priority", ["1", "2", None]),
        ("quota.scheduling.koordinator.sh/preemptible", ["false", None]),
    ):
        if chance(draw, 0.25):
            value = draw.choice(values)
            labels.pop(key, None)
            if value is not None:
                labels[key] = value
    if chance(draw, 0.25):
        pod["spec"]["priority"] = draw.choice([5100, 5200, 7100, 9500, 0])


def _rules(draw: random.Random) -> Json:
    if chance(draw, 0.2):
        return None
    rules = [
        {
            "name": name, "requiredLabels": draw.sample(["app", "team", "x"], draw.randint(0, 2)),
            "namespaceWhitelist": draw.choice([[], ["d"], ["e", ""]]),
        }
        for name in ("one", "two")[: draw.randint(0, 2)]
    ]  # fmt: skip
    found = {"rules": draw.choice([json.dumps(rules)] * 5 + ["{", "null"])}
    if chance(draw, 0.9):
        found["enable"] = draw.choice(["true", "true", " True\n", "false", "yes"])
    return found


def _binding(draw: random.Random) -> Json:
    meta: Json = {"name": "p", "namespace": "d"}
    if chance(draw, 0.3):
        meta["labels"] = {draw.choice(["koordinator.sh/binding-admission-bypass", "x"]): ""}
    if chance(draw, 0.3):
        meta["annotations"] = {draw.choice(["a", "b"]): "1"}
    flags = {
        "userName": draw.choice(["", " , ", "koord-scheduler", "other, koord-scheduler ,"]),
        "namespaces": draw.choice(["", "*", "d", "e, d", "e"]),
        "excludeNamespaces": draw.choice(["kube-system", "", "d,kube-system"]),
        "bypassLabels": draw.choice(["koordinator.sh/binding-admission-bypass", "", "x, y"]),
        "bypassAnnotations": draw.choice(["", "a", " b,c"]),
        "dryRun": draw.choice(["false", "false", "true"]),
    }
    user = draw.choice([
        "system:serviceaccount:koordinator-system:koord-scheduler", "system:kube-scheduler", "",
    ])  # fmt: skip
    pod = None if chance(draw, 0.1) else {"metadata": meta}
    on = {"BindingAdmissionWebhook": chance(draw, 0.9)}
    return _case("binding", pod, flags=flags, user=user, gates=on)


__all__ = ["BATCH_CPU", "GPU_AMOUNTS", "canonical", "cause", "inputs"]
