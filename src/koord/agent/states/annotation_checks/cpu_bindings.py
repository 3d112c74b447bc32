# SPDX-License-Identifier: Apache-2.0
"""Which pods are bound to the CPUs that their annotation names.

Whoever may edit a pod may write the annotation, after the scheduler too. So it is followed only
where the scheduler could have written it, and never takes a CPU from a pod that has it.

Rule: docs/reference/hooks.md#bindings-that-are-followed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.agent.states.annotation_checks.pod_memo import PodMemo
from koord.api import requests
from koord.api.protocol import annotation, keys, nodes, topology
from koord.api.protocol.node_reservation import node_reservation, reserved_cpus
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.resources import CPU
from koord.api.protocol.scheduling import resource_status
from koord.base.errors import KoordError
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.meta import Object
    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology

_MILLI = 1000
_BINDING = (QoSClass.LSE, QoSClass.LSR)
FIELD = f"{annotation.field_of(keys.RESOURCE_STATUS)}.cpuset"


@dataclass(frozen=True)
class NodeCPUs:
    """What of the node decides about bindings.

    Attributes:
        online: the machine's CPUs.
        known: whether the node's topology is known, and with it the kubelet's policy.
        binds: whether the node binds pods of every class that ask for whole CPUs.
        reserved: CPUs held back by number, or SYSTEM pods' alone.
        by_kubelet: what the kubelet gave out, by UID of the pod.
    """

    online: CPUSet
    known: bool = False
    binds: bool = False
    reserved: CPUSet = field(default_factory=CPUSet)
    by_kubelet: Mapping[str, CPUSet] = field(default_factory=dict)


def node_cpus(online: CPUSet, node: Node | None, reported: NodeResourceTopology | None) -> NodeCPUs:
    """What node and topology say; what of them is malformed counts as absent."""
    if node is None:
        return NodeCPUs(online)
    sources: list[Object] = [node] if reported is None else [node, reported]
    reserved = CPUSet()
    for each in sources:
        reserved = reserved | _reserved(each)
    if reported is None:
        return NodeCPUs(online, False, nodes.cpu_bind_policy(node, "", {}) != nodes.NONE, reserved)
    try:
        kubelet = topology.kubelet_cpu_manager_policy(reported)
    except KoordError:
        kubelet = topology.KubeletCPUManagerPolicy()
    policy = nodes.cpu_bind_policy(node, kubelet.policy, kubelet.options)
    return NodeCPUs(online, True, policy != nodes.NONE, reserved, _kubelets(reported))


def _reserved(source: Object) -> CPUSet:
    try:
        found = CPUSet.parse_wire(reserved_cpus(node_reservation(source))[0])
    except (KoordError, ValueError):
        found = CPUSet()
    key = keys.SYSTEM_QOS_RESOURCE
    try:
        system = annotation.read(source, key, nodes.SystemQOSResource, empty_is_absent=True)
        return found | CPUSet.parse_wire(system.cpuset if system and system.exclusive else "")
    except (KoordError, ValueError):
        return found


def _kubelets(reported: NodeResourceTopology) -> dict[str, CPUSet]:
    try:
        return {
            each.uid: CPUSet.parse_wire(each.cpuset) for each in topology.pod_cpu_allocs(reported)
        }
    except (KoordError, ValueError):
        return {}


class CPUBindings:
    """Which pods hold which CPUs; who held them first keeps them, and nobody comes to hold others.

    A scheduler that remembers its decision goes on giving a pod's CPUs to nobody, one that was
    restarted believes the annotation: a pod that names other CPUs than before gets neither.

    Args:
        runs_on: the CPUs that a container's directory says now; empty where it says none. Asked
            until the node is known, when nobody remembers who held what.
    """

    def __init__(self, runs_on: Callable[[str], str]) -> None:
        self._runs_on = runs_on
        self._wanted: PodMemo[CPUSet | KoordError | None] = PodMemo(_wanted)
        self._held: dict[str, CPUSet] = {}
        self._followed: dict[str, CPUSet] = {}
        self._first = True

    def refused(self, pods: Sequence[PodState], node: NodeCPUs) -> dict[str, KoordError]:
        """The pods whose binding is not followed, by UID, and why not.

        Args:
            pods: of the node, by creation.
            node: what of it decides.
        """
        there = {pod.uid: pod for pod in pods if not pod.terminated}
        asking = {
            uid: pod
            for uid, pod in there.items()
            if keys.RESOURCE_STATUS in pod.pod.metadata.annotations
        }
        self._followed = {uid: cpus for uid, cpus in self._followed.items() if uid in there}
        before, self._held = self._held, {}
        refused: dict[str, KoordError] = {}
        wanted: dict[str, CPUSet] = {}
        for uid, pod in asking.items():
            cpus = self._wanted.of(pod)
            if isinstance(cpus, KoordError):
                refused[uid] = cpus
            elif cpus:
                wanted[uid] = cpus
            elif cpus is None and uid in before:
                self._held[uid] = before[uid]
        kept = {uid for uid, cpus in wanted.items() if before.get(uid) == cpus}
        if self._first:
            kept |= {uid for uid, cpus in wanted.items() if self._runs(asking[uid], cpus)}
        given = [cpus for uid, cpus in node.by_kubelet.items() if uid not in asking]
        taken = CPUSet()
        for cpus in (*self._held.values(), *given):
            taken = taken | cpus
        for uid in sorted(wanted, key=lambda uid: uid not in kept):
            pod, cpus, was = asking[uid], wanted[uid], uid in kept
            problem = _not_for(pod, cpus, node, was and not self._first, was)
            first = self._followed.get(uid, cpus)
            if problem is None and not cpus <= first:
                expected = f"{first}, to which the pod was bound before"
                problem = KoordError(pod.pod.title, FIELD, str(cpus), expected)
            if problem is None and cpus & taken:
                expected = f"CPUs that no other pod holds, so none of {cpus & taken}"
                problem = KoordError(pod.pod.title, FIELD, str(cpus), expected)
            if problem is not None:
                refused[uid] = problem
                continue
            self._held[uid] = cpus
            if node.known:
                self._followed[uid] = first
            taken = taken | cpus
        self._first = self._first and not (pods and node.known)
        self._wanted.keep(asking.keys())
        return refused

    def _runs(self, pod: PodState, cpus: CPUSet) -> bool:
        """Whether some container of the pod is on just these CPUs."""
        for each in pod.containers:
            try:
                if each.directory and CPUSet.parse_wire(self._runs_on(each.directory)) == cpus:
                    return True
            except ValueError:
                continue
        return False


def _wanted(pod: PodState) -> CPUSet | KoordError | None:
    """The CPUs that the annotation names; None where it is malformed, which hooks tell.

    An error where it is no list of CPUs, or one that names none.
    """
    try:
        text = resource_status(pod.pod).cpuset
    except KoordError:
        return None
    if not text:
        return CPUSet()
    try:
        cpus = CPUSet.parse_wire(text)
    except ValueError as error:
        return KoordError.wrap(pod.pod.title, FIELD, error)
    if not cpus:
        return KoordError(pod.pod.title, FIELD, text, "a list of CPUs that names some")
    return cpus


def _not_for(
    pod: PodState, cpus: CPUSet, node: NodeCPUs, was_bound: bool, was_placed: bool
) -> KoordError | None:
    """Why the scheduler cannot have given a pod these CPUs; None if it can.

    Args:
        pod: whose binding.
        cpus: of the binding.
        node: what of it decides.
        was_bound: whether this binding was followed before, whatever changed on the node since.
        was_placed: whether the pod runs on these CPUs already.
    """
    title = pod.pod.title
    if not was_bound and pod.qos not in _BINDING and (pod.qos is QoSClass.BE or not node.binds):
        expected = "none: the pod is neither LSE nor LSR, and the node's policy binds no others"
        return KoordError(title, FIELD, str(cpus), expected)
    most = requests.effective(pod.pod, held=True).get(CPU, 0) // _MILLI
    if len(cpus) > most:
        return KoordError(title, FIELD, str(cpus), f"at most {most} CPUs, as the pod requests")
    if not cpus <= node.online:
        return KoordError(title, FIELD, str(cpus), f"CPUs of this node, {node.online}")
    reserved = cpus & node.reserved
    if reserved and not was_placed:
        return KoordError(title, FIELD, str(cpus), f"CPUs without {reserved}, which are reserved")
    return None
