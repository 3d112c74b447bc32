# SPDX-License-Identifier: Apache-2.0
"""What one pod holds of one node, and its way from and to the pod's annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod
from koord.api.protocol import annotation, keys
from koord.api.protocol.resources import CPU, DEPRECATED_NAMES
from koord.api.protocol.scheduling import (
    NUMANodeResource,
    ResourceStatus,
    resource_spec,
    resource_status,
)
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import (
    MILLI,
    Amounts,
    ZoneAmounts,
    amounts_of,
    resource_list,
)
from koord.kernels.cpuset import CPUSet
from koord.kernels.topology import ExclusivePolicy

_STATUS_FIELD = annotation.field_of(keys.RESOURCE_STATUS)
_EXCLUSIVE = frozenset(ExclusivePolicy)
_NO_CPUS = CPUSet()
# How many different annotations are remembered, and the characters of the longest: what is made of
# one takes eight times as much, and who owns a pod writes what he likes.
_TEXTS, _LONGEST = 2048, 2048


@dataclass(frozen=True, slots=True)
class NUMAAllocation:
    """The CPUs and the zone amounts of a pod; immutable.

    ``zones`` are amounts by zone id in base units, CPU in milli.
    """

    cpus: CPUSet = _NO_CPUS
    zones: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    exclusive: str = ExclusivePolicy.NONE

    def __bool__(self) -> bool:
        return bool(self.cpus) or bool(self.zones)

    def describe(self) -> dict[str, object]:
        """For explanations: only what is there."""
        found: dict[str, object] = {}
        if self.cpus:
            found["cpuset"] = str(self.cpus)
        if self.zones:
            found["numaNodes"] = {
                str(zone): {
                    name: str(amount) for name, amount in resource_list(self.zones[zone]).items()
                }
                for zone in sorted(self.zones)
            }
        if self.exclusive != ExclusivePolicy.NONE:
            found["exclusivePolicy"] = str(self.exclusive)
        return found

    def status(self) -> ResourceStatus:
        """The value of ``scheduling.koordinator.sh/resource-status``, zones by id."""
        return ResourceStatus(
            cpuset=str(self.cpus),
            numa_node_resources=[
                NUMANodeResource(node=zone, resources=resource_list(self.zones[zone]))
                for zone in sorted(self.zones)
            ],
        )


def text_of(held: NUMAAllocation) -> str:
    """The value of ``resource-status`` for people; ``nothing`` for an empty allocation."""
    return annotation.text(held.status()) if held else "nothing"


def recorded_allocation(pod: Pod) -> NUMAAllocation:
    """What the annotations of a bound pod say that it holds; empty where they say nothing.

    An unknown exclusive policy counts as none: nobody is to be kept off for a misspelling.

    Raises:
        KoordError: an annotation is malformed, an amount or a zone is negative.
    """
    annotations = pod.metadata.annotations
    text = annotations.get(keys.RESOURCE_STATUS)
    if text is None:
        return NUMAAllocation()
    spec = annotations.get(keys.RESOURCE_SPEC)
    short = len(text) + len(spec or "") <= _LONGEST
    known = _recorded(text, spec) if short else None
    return known if known is not None else _read(pod)


@lru_cache(_TEXTS)
def _recorded(status: str, spec: str | None) -> NUMAAllocation | None:
    """What two annotations say; None where they cannot be read."""
    written = {keys.RESOURCE_STATUS: status}
    if spec is not None:
        written[keys.RESOURCE_SPEC] = spec
    try:
        return _read(Pod(metadata=ObjectMeta(annotations=written)))
    except KoordError:
        return None


def _read(pod: Pod) -> NUMAAllocation:
    exclusive = resource_spec(pod).preferred_cpu_exclusive_policy
    return parse_status(
        resource_status(pod), pod.title, exclusive if exclusive in _EXCLUSIVE else ""
    )


def justified(held: NUMAAllocation, requests: Mapping[str, int]) -> NUMAAllocation:
    """What of an allocation counts: no more than a pod's requests; the same object if all of it.

    Rule: docs/reference/numa.md#what-a-bound-pod-holds.

    Args:
        held: what an annotation names.
        requests: what the pod asks for in base units, CPU in milli.
    """
    most = max(0, requests.get(CPU, 0)) // MILLI
    cpus = held.cpus
    if len(cpus) > most:
        cpus = CPUSet.from_ids(list(cpus)[:most])
    zones = _justified_zones(held.zones, requests)
    if cpus is held.cpus and zones is held.zones:
        return held
    return NUMAAllocation(cpus, zones, held.exclusive)


def _justified_zones(
    zones: Mapping[int, Mapping[str, int]], requests: Mapping[str, int]
) -> Mapping[int, Mapping[str, int]]:
    left = dict(requests)
    kept: ZoneAmounts = {}
    cut = False
    for zone in sorted(zones):
        there: Amounts = {}
        for name, amount in zones[zone].items():
            asked = name if name in left else DEPRECATED_NAMES.get(name, name)
            counts = min(amount, max(0, left.get(asked, 0)))
            left[asked] = left.get(asked, 0) - counts
            cut = cut or counts < amount
            if counts:
                there[name] = counts
        if there or not zones[zone]:
            kept[zone] = there
    return kept if cut else zones


def parse_status(status: ResourceStatus, owner: str, exclusive: str = "") -> NUMAAllocation:
    """The allocation that a resource status describes.

    Raises:
        KoordError: the CPU list is malformed, an amount or a zone is negative.
    """
    try:
        cpus = CPUSet.parse_wire(status.cpuset)
    except ValueError as error:
        raise KoordError.wrap(owner, f"{_STATUS_FIELD}.cpuset", error) from None
    zones: ZoneAmounts = {}
    for number, entry in enumerate(status.numa_node_resources):
        where = f"{_STATUS_FIELD}.numaNodeResources[{number}]"
        if entry.node < 0:
            raise KoordError(owner, f"{where}.node", entry.node, "the id of a NUMA node")
        row = _row(entry, owner, where)
        there = zones.setdefault(entry.node, {})
        for name, amount in row.items():
            there[name] = there.get(name, 0) + amount
    return NUMAAllocation(cpus, zones, exclusive or ExclusivePolicy.NONE)


def _row(entry: NUMANodeResource, owner: str, where: str) -> Amounts:
    for name, amount in entry.resources.items():
        if amount < type(amount)():
            raise KoordError(owner, f"{where}.resources.{name}", str(amount), "0 or more")
    try:
        return {name: amount for name, amount in amounts_of(entry.resources).items() if amount}
    except ValueError as error:
        raise KoordError.wrap(owner, f"{where}.resources", error) from None
