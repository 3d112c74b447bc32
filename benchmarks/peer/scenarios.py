# SPDX-License-Identifier: Apache-2.0
"""What is scheduled: after kube-scheduler's own performance scenarios of these names, and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks import diverse_pods
from benchmarks.peer import koordinator
from benchmarks.peer.nodes import HOST, ZONE, pod
from koord.base.documents import Document

# With more pods than nodes some pods of these would never get a node.
A_NODE_EACH = ("anti-affinity", "preemption")


class Scenario(NamedTuple):
    """Pods to be measured, after others that are there before.

    Attributes:
        doc: one line.
        pod: the measured pods.
        before: pods that are bound, or known to be unschedulable, before the measurement.
        before_share: how many of those for each measured pod.
        before_bound: whether they are waited for.
        objects: what the pods are about, for so many nodes and pods; only Koordinator's schedulers
            know these, and have the profile that they ship with.
    """

    doc: str
    pod: Callable[[str], Document]
    before: Callable[[str], Document] | None = None
    before_share: float = 0.0
    before_bound: bool = True
    objects: Callable[[int, int], koordinator.Objects] | None = None


def _plain(name: str) -> Document:
    return pod(name)


def _node_affinity(name: str) -> Document:
    wanted = {"key": ZONE, "operator": "In", "values": ["zone-1", "zone-2"]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    return pod(name, affinity=affinity)


def _term(key: str, labels: dict[str, str]) -> Document:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def _pods_affinity(kind: str, required: bool, key: str, color: str) -> Callable[[str], Document]:
    labels = {"app": "measured", "color": color}
    term = _term(key, {"color": color})
    if required:
        rule: Document = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    else:
        weighted = [{"weight": 1, "podAffinityTerm": term}]
        rule = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}

    def make(name: str) -> Document:
        return pod(name, labels=labels, affinity={kind: rule})

    return make


def _spread(name: str) -> Document:
    labels = {"app": "measured", "color": "blue"}
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return pod(name, labels=labels, topologySpreadConstraints=[constraint])


def _low(name: str) -> Document:
    return pod(name, labels={"app": "low"}, requests={"cpu": "8", "memory": "4Gi"})


def _high(name: str) -> Document:
    requests = {"cpu": "8", "memory": "4Gi"}
    return pod(name, requests=requests, priorityClassName="system-cluster-critical") | {
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"app": "measured"}}
    }


def _huge(name: str) -> Document:
    return pod(name, labels={"app": "huge"}, requests={"cpu": "1000"})


def _number(name: str) -> int:
    """Its own for every pod: those that are there before are numbered on from a million."""
    kind, _, number = name.rpartition("-")
    return int(number) + (1_000_000 if kind == "before" else 0)


def _of_kind(kind: str, name: str) -> Document:
    """A pod of :mod:`benchmarks.diverse_pods`, by the number that its name ends in."""
    labels, spec = diverse_pods.KINDS[kind](_number(name))
    requests = spec.pop("resources")["requests"]
    return pod(name, labels=labels, requests=requests, **spec)


def _different(name: str) -> Document:
    """No two alike: labels, requests or node affinity of its own, in turn."""
    return _of_kind(_DIFFERENT[_number(name) % len(_DIFFERENT)], name)


def _own_selectors(name: str) -> Document:
    return _of_kind("selectors", name)


def _rich(name: str) -> Document:
    """Own selectors as well as own requests, own node affinity, and what else pods may ask for."""
    return _of_kind("rich", name)


_DIFFERENT = ("labels", "requests", "nodeaffinity")

SCENARIOS = {
    "basic": Scenario("plain pods", _plain, _plain, 0.5),
    "different": Scenario(
        "no two pods alike: own labels, requests or node affinity", _different, _different, 0.5
    ),
    "selectors": Scenario(
        "anti-affinity and spread by a label of each pod's own",
        _own_selectors, _own_selectors, 0.5,
    ),
    "rich": Scenario(
        "own selectors, requests and node affinity, preferred pod affinity and a toleration",
        _rich, _rich, 0.5,
    ),
    "node-affinity": Scenario("required node affinity, two of ten zones", _node_affinity),
    "preferred-affinity": Scenario(
        "preferred pod affinity by host", _pods_affinity("podAffinity", False, HOST, "red"),
        _plain, 0.5,
    ),
    "preferred-anti-affinity": Scenario(
        "preferred pod anti-affinity by host",
        _pods_affinity("podAntiAffinity", False, HOST, "yellow"), _plain, 0.5,
    ),
    "affinity": Scenario(
        "required pod affinity by zone", _pods_affinity("podAffinity", True, ZONE, "blue"),
        _pods_affinity("podAffinity", True, ZONE, "blue"), 0.5,
    ),
    "anti-affinity": Scenario(
        "required pod anti-affinity by host",
        _pods_affinity("podAntiAffinity", True, HOST, "green"),
    ),
    "topology-spread": Scenario("DoNotSchedule over ten zones", _spread, _plain, 0.5),
    "preemption": Scenario("high priority onto full nodes", _high, _low, 4.0),
    "unschedulable": Scenario(
        "plain pods among pods that fit nowhere", _plain, _huge, 0.2, before_bound=False
    ),
    "gangs": Scenario(
        "gangs of ten by PodGroup", koordinator.gang_member, objects=koordinator.gangs
    ),
    "quota": Scenario(
        "50 quotas in a tree of two levels", koordinator.charged, objects=koordinator.quotas
    ),
    "cpu-binding": Scenario(
        "LSR pods, a physical core each", koordinator.bound_to_cpus,
        objects=koordinator.topologies,
    ),
}  # fmt: skip
