# SPDX-License-Identifier: Apache-2.0
"""Joint alignment: providers say which zones would serve them, one affinity is chosen for all.

CPUs, memory and hugepages have one provider (NodeNUMAResource, which also says which policy holds
on a node), devices another. Each gives hints by resource; they are merged under the policy, and
every provider is asked whether it can allocate under what came out. The rule is that of the
kubelet's topology manager.

A provider joins at every attempt, in PreFilter, if the pod wants anything of it::

    def pre_filter(self, cycle):
        Alignment.of(cycle).join(self)

and asks in Score and Reserve for the zones it has to keep to::

    decided = Alignment.of(cycle).decide(row)
    if isinstance(decided, Rejection):
        ...
    affinity = decided.zones  # ids; None: anywhere

Hints are merged in the order in which providers joined, the profile's. Nothing here changes
anything, and what is kept is thrown away with the attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.kernels import numa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.kernels.numa import Exclusive, TopologyPolicy, Zones, ZoneStatus

STATE = "TopologyManager"


@dataclass(frozen=True, slots=True)
class AlignmentRequest:
    """How a pod is to be aligned on one node.

    Args:
        policy: that holds there; not ``NONE``.
        zones: of the machine. Masks in hints are by position in it.
        exclusive: whether pods of one zone and of several keep off each other.
        statuses: what kind of pods zones have now, by id.
    """

    policy: TopologyPolicy
    zones: Zones
    exclusive: Exclusive
    statuses: Mapping[int, ZoneStatus] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ZoneAffinity:
    """What was agreed on: zone ids, ascending; None means that any zone will do."""

    zones: tuple[int, ...] | None = None


#: Nothing is to be aligned.
FREE = ZoneAffinity()


class HintProvider(Protocol):
    """A plugin with resources that lie in zones."""

    name: ClassVar[str]

    def hints(self, cycle: Cycle, row: int, zones: Zones) -> numa.Provider:
        """Hints by resource, or why there can be none."""
        ...

    def allocate(
        self, cycle: Cycle, row: int, affinity: tuple[int, ...] | None
    ) -> Rejection | None:
        """Whether the provider could allocate under an affinity: a trial, nothing is changed."""
        ...


class PolicySource(Protocol):
    """Who knows which policy holds where."""

    def question(self, cycle: Cycle, row: int) -> AlignmentRequest | Rejection | None:
        """None where nothing is to be aligned."""
        ...


class Alignment:
    """Brings the providers of one attempt together."""

    __slots__ = ("_cycle", "_kept", "_providers", "_source", "_version")

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._providers: list[HintProvider] = []
        self._source: PolicySource | None = None
        self._kept: dict[int, ZoneAffinity | Rejection] = {}
        self._version = -1

    @classmethod
    def of(cls, cycle: Cycle) -> Alignment:
        """The one of an attempt."""
        found: Alignment | None = cycle.state.get(STATE)
        if found is None:
            found = cycle.state[STATE] = cls(cycle)
        return found

    def join(self, provider: HintProvider) -> None:
        """Adds a provider; one that has joined already stays where it is."""
        if provider not in self._providers:
            self._providers.append(provider)
            self._kept.clear()

    def lead(self, source: PolicySource) -> None:
        """Sets who is asked for policies; without one nothing is aligned."""
        self._source = source

    @property
    def alone(self) -> bool:
        """Whether there is one provider at the most, so that its own answer is everybody's."""
        return len(self._providers) <= 1

    def decide(self, row: int) -> ZoneAffinity | Rejection:
        """The zones that the pod's resources must come from on a node, or why none will do.

        Kept as long as nothing changes: Filter, Score and all plugins' Reserve see the same.
        """
        version = self._cycle.table.version
        if version != self._version:
            self._kept.clear()
            self._version = version
        decided = self._kept.get(row)
        if decided is None:
            decided = self._kept[row] = self._decide(row)
        return decided

    def _decide(self, row: int) -> ZoneAffinity | Rejection:
        question = self._source.question(self._cycle, row) if self._source is not None else None
        if question is None:
            return FREE
        return question if isinstance(question, Rejection) else self.admit(row, question)

    def admit(self, row: int, question: AlignmentRequest) -> ZoneAffinity | Rejection:
        """Merges hints under a policy and tries the result; nothing is kept."""
        cycle, providers = self._cycle, self._providers
        said = [provider.hints(cycle, row, question.zones) for provider in providers]
        for provider, hints in zip(providers, said, strict=True):
            if hints.failure:
                return Rejection(provider.name, (hints.failure,))
        decision = numa.admit(
            question.policy,
            question.zones,
            said,
            exclusive=question.exclusive,
            statuses=question.statuses,
        )
        if not decision.admitted:
            return Rejection(providers[0].name if providers else STATE, tuple(decision.reasons))
        mask = decision.hint.affinity
        affinity = None if mask is None else question.zones.ids_of(mask)
        for provider in providers:
            refused = provider.allocate(cycle, row, affinity)
            if refused is not None:
                return refused
        return ZoneAffinity(affinity)
