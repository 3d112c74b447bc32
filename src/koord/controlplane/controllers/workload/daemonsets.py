# SPDX-License-Identifier: Apache-2.0
"""DaemonSet: one pod on every node that accepts it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api import codec
from koord.api.kinds.constraints import Toleration
from koord.api.kinds.pod import PodSpec
from koord.api.tolerations import untolerated
from koord.base.documents import Document
from koord.controlplane.controllers.base import constraints, pods
from koord.controlplane.controllers.base.objects import (
    DAEMON_SET,
    POD,
    Owner,
    Revision,
    oldest_first,
    scaled,
    selector_of,
)
from koord.controlplane.controllers.base.plans import Create, ObjectEvent, Plan, delete
from koord.controlplane.controllers.workload import templates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.plans import Action

_TAINT = "node.kubernetes.io/"
# What every daemon puts up with, whatever its template says.
_TOLERATED = (
    ("not-ready", constraints.NO_EXECUTE),
    ("unreachable", constraints.NO_EXECUTE),
    ("disk-pressure", constraints.NO_SCHEDULE),
    ("memory-pressure", constraints.NO_SCHEDULE),
    ("pid-pressure", constraints.NO_SCHEDULE),
    ("unschedulable", constraints.NO_SCHEDULE),
)
_GENERATION = "deprecated.daemonset.template.generation"
_TEMPLATE_GENERATION = "pod-template-generation"
_HOSTED = ("network-unavailable", constraints.NO_SCHEDULE)


@dataclass
class _DaemonSetState:
    """A DaemonSet's pods by node.

    Attributes:
        run: nodes that should have a pod.
        keep: nodes whose pod may stay: a taint that only keeps new pods away.
        hash: label value of pods of the present template.
    """

    owner: Owner
    run: list[str]
    keep: set[str]
    by_node: dict[str, list[Pod]]
    hash: str
    now: float

    def is_available(self, pod: Pod) -> bool:
        return pods.is_available(pod, self.owner.spec.get("minReadySeconds", 0), self.now)

    def is_new(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(templates.REVISION_HASH) == self.hash


def plan(
    owner: Owner,
    candidates: Sequence[Pod],
    known: Sequence[Revision],
    nodes: Sequence[Node],
    now: float,
) -> Plan:
    """What a DaemonSet needs.

    Args:
        owner: the DaemonSet.
        candidates: pods it controls, and pods of its namespace that nobody does.
        known: the revisions it controls.
        nodes: all nodes.
        now: wall seconds.
    """
    selector = selector_of(owner.spec.get("selector"))
    mine, patches = pods.claim(owner, DAEMON_SET, selector, candidates)
    ordered, update, actions = templates.revisions(owner, DAEMON_SET, known)
    run, keep = _eligible_nodes(owner, nodes)
    by_node = defaultdict(list)
    for pod in oldest_first(mine):
        by_node[node_of(pod)].append(pod)
    suffix = update.metadata.labels[templates.REVISION_HASH]
    state = _DaemonSetState(owner, run, keep, dict(by_node), suffix, now)
    result = Plan([*patches])
    if owner.metadata.deletion_timestamp is None:
        steps = _steps(state, {node.metadata.name for node in nodes})
        result.actions += [*actions, *(steps or _updates(state))]
        live = {pod.metadata.labels.get(templates.REVISION_HASH) for pod in mine} | {suffix}
        names = {f"{owner.metadata.name}-{hash_}" for hash_ in live}
        limit = owner.spec.get("revisionHistoryLimit")
        result.actions += templates.outdated(ordered, names, limit)
    result.status = _status(state)
    result.again(pods.soonest_available(mine, owner.spec.get("minReadySeconds", 0), now))
    return result


def node_of(pod: Pod) -> str:
    """The node a daemon pod runs on, or is meant for; empty if it says none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def _eligible_nodes(owner: Owner, nodes: Iterable[Node]) -> tuple[list[str], set[str]]:
    template = owner.spec["template"].get("spec", {})
    spec = codec.convert(template, PodSpec, f"DaemonSet {owner.metadata.name}")
    spec.tolerations = [*spec.tolerations, *_tolerations(spec.host_network)]
    run: list[str] = []
    keep: set[str] = set()
    for node in nodes:
        name = node.metadata.name
        if spec.node_name not in ("", name) or not constraints.selects(spec, node):
            continue
        harsh = (constraints.NO_EXECUTE,)
        if untolerated(node.spec.taints, spec.tolerations, harsh):
            continue
        keep.add(name)
        mild = (constraints.NO_SCHEDULE,)
        if not untolerated(node.spec.taints, spec.tolerations, mild):
            run.append(name)
    return run, keep


def _tolerations(host_network: bool) -> list[Toleration]:
    wanted = (*_TOLERATED, _HOSTED) if host_network else _TOLERATED
    return [
        Toleration(key=_TAINT + name, operator="Exists", effect=effect) for name, effect in wanted
    ]


def _steps(state: _DaemonSetState, nodes: set[str]) -> list[Action]:
    """A pod where one is missing; none where it should not be, has ended, or there are two."""
    missing = [name for name in state.run if not state.by_node.get(name)]
    actions: list[Action] = [Create(POD, _pod(state, name)) for name in missing]
    for name, on_node in state.by_node.items():
        live = [pod for pod in on_node if pod.metadata.deletion_timestamp is None]
        if name not in state.keep:
            bound = name in nodes or any(not pod.spec.node_name for pod in live)
            actions += [delete(POD, pod) for pod in live if bound]
            continue
        for pod in [pod for pod in live if pods.is_finished(pod)]:
            actions += [_ended(pod, name), delete(POD, pod)]
        running = [pod for pod in live if not pods.is_finished(pod)]
        actions += _surplus(state, running)
    return actions


def _ended(pod: Pod, node: str) -> ObjectEvent:
    phase = pod.status.phase.lower()
    title = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if phase == "failed":
        said = f"Found failed daemon pod {title} on node {node}, will try to kill it"
        return ObjectEvent("FailedDaemonPod", said, "Warning")
    said = f"Found succeeded daemon pod {title} on node {node}, will try to delete it"
    return ObjectEvent("SucceededDaemonPod", said)


def _surplus(state: _DaemonSetState, running: Sequence[Pod]) -> list[Action]:
    """All but one pod of a node; while surging an old one stays until a new one is available."""
    if len(running) <= 1:
        return []
    old = [pod for pod in running if not state.is_new(pod)]
    new = [pod for pod in running if state.is_new(pod)]
    if not _surge(state) or not old or not new:
        return [delete(POD, pod) for pod in running[1:]]
    if not state.is_available(new[0]) and state.is_available(old[0]):
        return [delete(POD, pod) for pod in (*old[1:], *new[1:])]
    return [delete(POD, pod) for pod in (*old, *new[1:])]


def _surge(state: _DaemonSetState) -> int:
    rolling = (state.owner.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return scaled(rolling.get("maxSurge"), len(state.run), True)


def _updates(state: _DaemonSetState) -> list[Action]:
    """Replaces outdated pods, those that do not serve first, as far as the strategy allows."""
    strategy = state.owner.spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    running = {
        name: [pod for pod in on_node if pods.is_active(pod)]
        for name, on_node in state.by_node.items()
        if name in state.run
    }
    old = {
        name: on_node[0]
        for name, on_node in sorted(running.items())
        if len(on_node) == 1 and not state.is_new(on_node[0])
    }
    surge = _surge(state)
    if surge:
        surging = sum(len(on_node) > 1 for on_node in running.values())
        broken = [name for name, pod in old.items() if not state.is_available(pod)]
        healthy = [name for name in old if name not in broken]
        names = broken + healthy[: max(0, surge - surging)]
        return [Create(POD, _pod(state, name)) for name in names]
    rolling = strategy.get("rollingUpdate") or {}
    most = scaled(rolling.get("maxUnavailable"), len(state.run), True, 1)
    serving = sum(any(map(state.is_available, on_node)) for on_node in running.values())
    spare = most - (len(state.run) - serving)
    broken = [name for name, pod in old.items() if not state.is_available(pod)]
    healthy = [name for name in old if name not in broken]
    return [delete(POD, old[name]) for name in broken + healthy[: max(0, spare)]]


def _pod(state: _DaemonSetState, node: str) -> Document:
    owner = state.owner
    labels = {templates.REVISION_HASH: state.hash}
    generation = owner.metadata.annotations.get(_GENERATION)
    if generation:
        labels[_TEMPLATE_GENERATION] = generation
    pod = pods.from_template(owner.spec["template"], owner, DAEMON_SET, labels)
    spec = pod["spec"]
    known = spec.get("tolerations", [])
    for toleration in _tolerations(bool(spec.get("hostNetwork"))):
        added = codec.to_document(toleration)
        known = [t for t in known if (t.get("key"), t.get("effect")) != _toleration_key(added)] + [
            added
        ]
    spec["tolerations"] = known
    only = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    # The node matches the template's own terms already: from here on the name alone decides.
    affinity[required] = {"nodeSelectorTerms": only}
    return pod


def _toleration_key(toleration: Document) -> tuple[str | None, str | None]:
    return toleration.get("key"), toleration.get("effect")


def _status(state: _DaemonSetState) -> Document:
    first = {name: state.by_node[name][0] for name in state.run if state.by_node.get(name)}
    available = sum(state.is_available(pod) for pod in first.values())
    status = {
        "currentNumberScheduled": len(first),
        "numberMisscheduled": sum(name not in state.run and bool(name) for name in state.by_node),
        "desiredNumberScheduled": len(state.run),
        "numberReady": sum(pods.is_ready(pod) for pod in first.values()),
        "observedGeneration": state.owner.metadata.generation,
        "updatedNumberScheduled": sum(state.is_new(pod) for pod in first.values()),
        "numberAvailable": available,
        "numberUnavailable": len(state.run) - available,
    }
    for kept in ("collisionCount", "conditions"):
        if state.owner.status.get(kept):
            status[kept] = state.owner.status[kept]
    return status
