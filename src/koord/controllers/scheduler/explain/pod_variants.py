# SPDX-License-Identifier: Apache-2.0
"""Pods that differ from one in a single wish: what explain tries out.

All are pure functions of a typed pod; the pod itself is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from koord.api.kinds.constraints import Affinity, NodeAffinity, NodeSelector, Toleration
from koord.api.kinds.pod import Container, Pod
from koord.api.requests import CPU, amount
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from koord.api.kinds.constraints import Taint

CORDONED = "node.kubernetes.io/unschedulable"


class Variant(NamedTuple):
    """A pod with another wish.

    Attributes:
        text: the change, as one says what to do.
        pod: the pod with it.
    """

    text: str
    pod: Pod


def looser(pod: Pod) -> Iterator[Variant]:
    """The pod without one of the wishes that bind it to some nodes."""
    spec = pod.spec
    if spec.node_name:
        yield _with(pod, "take spec.nodeName away", node_name="")
    for key, value in sorted(spec.node_selector.items()):
        rest = {k: v for k, v in spec.node_selector.items() if k != key}
        yield _with(pod, f"take {key}={value} out of the node selector", node_selector=rest)
    if spec.affinity is not None:
        yield from _without_requirements(pod, spec.affinity)
        yield from _without_terms(pod, spec.affinity)
    for number, constraint in enumerate(spec.topology_spread_constraints):
        if constraint.when_unsatisfiable != "ScheduleAnyway":
            others = _all_but(spec.topology_spread_constraints, number)
            text = f"take the topology spread over {constraint.topology_key} away"
            yield _with(pod, text, topology_spread_constraints=others)
    if any(port.host_port for container in spec.containers for port in container.ports):
        plain = [_without_host_ports(container) for container in spec.containers]
        yield _with(pod, "ask for no host ports", containers=plain)


def tolerant(pod: Pod, taint: Taint) -> Variant:
    """The pod with a toleration of one taint."""
    mine = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    text = f"tolerate the taint {{{taint.key}: {taint.value}}}"
    return _with(pod, text, tolerations=[*pod.spec.tolerations, mine])


def undaunted(pod: Pod) -> Variant:
    """The pod on nodes that are cordoned: whether one were better uncordoned."""
    mine = Toleration(key=CORDONED, operator="Exists", effect="NoSchedule")
    text = f"uncordon a node, or tolerate {CORDONED}"
    return _with(pod, text, tolerations=[*pod.spec.tolerations, mine])


def smaller(pod: Pod, less: Mapping[str, int]) -> Pod | None:
    """The pod with requests, and limits that equal them, less by so much.

    Args:
        pod: which.
        less: by resource, CPU in milli, all else in units. It is taken from the container that
            asks for most of it.

    Returns:
        None where no container asks for that much.
    """
    containers = list(pod.spec.containers)
    for name, cut in less.items():
        asked = [_requested(container, name) for container in containers]
        most = max(asked, default=0)
        if not 0 < cut <= most:
            return None
        at = asked.index(most)
        containers[at] = _asking(containers[at], name, most - cut)
    return replace(pod, spec=replace(pod.spec, containers=containers))


def _with(pod: Pod, text: str, **changes: Any) -> Variant:
    return Variant(text, replace(pod, spec=replace(pod.spec, **changes)))


def _all_but(items: list[Any], number: int) -> list[Any]:
    return [*items[:number], *items[number + 1 :]]


def _without_requirements(pod: Pod, affinity: Affinity) -> Iterator[Variant]:
    """Each requirement of the node affinity away; with its last one a term goes, and all terms."""
    nodes = affinity.node_affinity
    required = nodes.required_during_scheduling_ignored_during_execution if nodes else None
    if nodes is None or required is None:
        return
    terms = required.node_selector_terms
    for number, term in enumerate(terms):
        for at, wish in enumerate(term.match_expressions):
            rest = _all_but(term.match_expressions, at)
            changed: NodeSelector | None = None
            if rest or term.match_fields:
                fewer = replace(term, match_expressions=rest)
                changed = NodeSelector([*terms[:number], fewer, *terms[number + 1 :]])
            values = f" {','.join(wish.values)}" if wish.values else ""
            text = f"take {wish.key} {wish.operator}{values} out of the node affinity"
            yield _with(pod, text, affinity=_node_affinity(affinity, nodes, changed))
    if len(terms) > 1 or sum(len(t.match_expressions) + len(t.match_fields) for t in terms) > 1:
        text = "take the required node affinity away"
        yield _with(pod, text, affinity=_node_affinity(affinity, nodes, None))


def _node_affinity(
    affinity: Affinity, nodes: NodeAffinity, required: NodeSelector | None
) -> Affinity:
    loose = replace(nodes, required_during_scheduling_ignored_during_execution=required)
    return replace(affinity, node_affinity=loose)


def _without_terms(pod: Pod, affinity: Affinity) -> Iterator[Variant]:
    for field, word in (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity")):
        kept = getattr(affinity, field)
        required = kept.required_during_scheduling_ignored_during_execution if kept else []
        for number, term in enumerate(required):
            rest = _all_but(required, number)
            fewer = replace(kept, required_during_scheduling_ignored_during_execution=rest)
            text = f"take the required pod {word} by {term.topology_key} away"
            yield _with(pod, text, affinity=replace(affinity, **{field: fewer}))


def _without_host_ports(container: Container) -> Container:
    ports = [replace(port, host_port=0) for port in container.ports]
    return replace(container, ports=ports)


def _requested(container: Container, name: str) -> int:
    found = container.resources.requests.get(name)
    return amount(name, found) if found is not None else 0


def _asking(container: Container, name: str, wanted: int) -> Container:
    """The container with another request; its limit follows where it was the same."""
    resources = container.resources
    requests, limits = dict(resources.requests), dict(resources.limits)
    now = Quantity.from_milli(wanted) if name == CPU else Quantity.from_value(wanted)
    follows = name in limits and limits[name] == requests[name]
    for amounts in (requests, limits) if follows else (requests,):
        amounts[name] = now
        if not wanted:
            del amounts[name]
    return replace(container, resources=replace(resources, requests=requests, limits=limits))
