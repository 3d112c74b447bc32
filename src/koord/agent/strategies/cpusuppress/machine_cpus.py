# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of the machine are whose, as suppression sees it, and the cgroups that it narrows.

Rule: docs/reference/strategies.md#cpu-set-policy. Malformed annotations count as absent. The
cgroups of the best-effort class are found in the hierarchy rather than in the list of pods:
sandboxes and containers that no status names yet are in them too, and on cgroup v1 no parent can
be narrower than any child.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.agent.strategies.cpusuppress.cpu_selection import CPULocation
from koord.api.protocol import annotation, keys
from koord.api.protocol.node_reservation import node_reservation, reserved_cpus
from koord.api.protocol.nodes import SystemQOSResource
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.scheduling import resource_status
from koord.api.protocol.topology import pod_cpu_allocs
from koord.base.errors import KoordError
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.kernels.cgroup import Hierarchy
    from koord.kernels.topology import Topology

ROOT, PODS, CONTAINERS = 0, 1, 2
"""Depths below the directory of the class."""


@dataclass(frozen=True, slots=True, eq=False)
class MachineCPUs:
    """The online CPUs of a machine; another object wherever the pods or the topology are others.

    Attributes:
        count: all of them.
        lsr: those that LSR pods hold.
        shared: those that neither LSE nor LSR pods hold. Both without what is held back, and
            without what the kubelet gave to pods alone.
        best_effort: what BE pods may have without suppression: all but LSE's and these.
    """

    count: int
    lsr: tuple[CPULocation, ...]
    shared: tuple[CPULocation, ...]
    best_effort: CPUSet


def classified(
    topology: Topology, reported: NodeResourceTopology, pods: Sequence[PodState]
) -> MachineCPUs:
    """The machine's CPUs by the pods that hold them; of two that hold one, the last counts."""
    holder: dict[int, QoSClass] = {}
    lse = CPUSet()
    for pod in pods:
        held = pod_cpus(pod)
        holder.update((cpu, pod.qos) for cpu in held)
        if pod.qos is QoSClass.LSE:
            lse = lse | held
    back = held_back(reported) | _kubelets(reported, frozenset(pod.uid for pod in pods))
    places = _places(topology)
    free = [place for place in places if place.cpu not in back]
    return MachineCPUs(
        count=len(places),
        lsr=tuple(each for each in free if holder.get(each.cpu) is QoSClass.LSR),
        shared=tuple(
            each for each in free if holder.get(each.cpu) not in (QoSClass.LSR, QoSClass.LSE)
        ),
        best_effort=CPUSet.from_ids(place.cpu for place in free) - lse,
    )


def held_back(reported: NodeResourceTopology) -> CPUSet:
    """CPUs reserved by number, and those that SYSTEM pods have for themselves."""
    try:
        reserved = CPUSet.parse_wire(reserved_cpus(node_reservation(reported))[0])
    except (KoordError, ValueError):
        reserved = CPUSet()
    try:
        key = keys.SYSTEM_QOS_RESOURCE
        system = annotation.read(reported, key, SystemQOSResource, empty_is_absent=True)
        own = CPUSet.parse_wire(system.cpuset if system and system.exclusive else "")
    except (KoordError, ValueError):
        own = CPUSet()
    return reserved | own


def _kubelets(reported: NodeResourceTopology, uids: frozenset[str]) -> CPUSet:
    """CPUs that the kubelet's static CPU manager gave to pods that are there."""
    try:
        given = [
            CPUSet.parse_wire(each.cpuset)
            for each in pod_cpu_allocs(reported)
            if each.managed_by_kubelet and each.uid in uids
        ]
    except (KoordError, ValueError):
        return CPUSet()
    return CPUSet.from_ids(cpu for cpus in given for cpu in cpus)


def pod_cpus(pod: PodState) -> CPUSet:
    """The CPUs that a pod is bound to."""
    try:
        return CPUSet.parse_wire(resource_status(pod.pod).cpuset)
    except (KoordError, ValueError):
        return CPUSet()


def has_allocation(pod: PodState) -> bool:
    """Whether the scheduler gave a pod CPUs or zones of its own."""
    try:
        status = resource_status(pod.pod)
    except KoordError:
        return False
    return bool(status.cpuset or status.numa_node_resources)


def _places(topology: Topology) -> list[CPULocation]:
    """Where CPUs sit; a CPU whose core the kernel does not tell is a core of its own."""
    return [
        CPULocation(
            each.cpu,
            each.cpu if each.core is None else each.core,
            each.socket or 0,
            each.node or 0,
        )
        for each in topology.cpus
        if each.online
    ]


def cgroups_under(hierarchy: Hierarchy, root: str) -> list[list[str]]:
    """Directories by depth: the class's own, its pods', their containers'; each ascending.

    What is gone, or cannot be listed, is left out.
    """
    place, _, _ = hierarchy.path_of("cpuset.cpus", root).rpartition("/")
    top = f"{hierarchy.path}/{place.removesuffix(root)}"
    levels = [[root]]
    for _ in range(CONTAINERS):
        levels.append([f"{d}/{name}" for d in levels[-1] for name in _folders(f"{top}{d}")])
    return levels


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return []
