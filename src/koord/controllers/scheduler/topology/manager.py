# SPDX-License-Identifier: Apache-2.0
"""Joint alignment: providers say which zones would serve them, one affinity is chosen for all.

CPUs, memory and hugepages have one provider (NodeNUMAResource, which also says which policy holds
on a node), devices another. Each gives hints by resource; they are merged under the policy, and
every provider is asked whether it can allocate under what came out. The rule is that of the
kubelet's topology manager.

A provider registers in its plugin's ``__init__``::

    self._topology = manager_of(handle)
    self._topology.register(self)

and asks in Score and Reserve for the zones it has to keep to::

    decided = self._topology.decide(cycle, row)
    if isinstance(decided, Rejection): ...
    affinity = decided.zones  # ids; None: anywhere
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.kernels import numa

if TYPE_CHECKING:
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.kernels.numa import Exclusive, TopologyPolicy, Zones, ZoneStatus

STATE = "TopologyManager"


@dataclass(frozen=True, slots=True)
class Question:
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
    statuses: Mapping[int, ZoneStatus]


@dataclass(frozen=True, slots=True)
class Affinity:
    """What was agreed on: zone ids, ascending; None means that any zone will do."""

    zones: tuple[int, ...] | None = None


#: Nothing is to be aligned.
FREE = Affinity()


class HintProvider(Protocol):
    """A plugin with resources that lie in zones."""

    name: str

    def aligns(self, cycle: Cycle) -> bool:
        """Whether pods of this shape want anything of the provider. Cheap; asked often."""
        ...

    def hints(self, cycle: Cycle, row: int, zones: Zones) -> numa.Provider:
        """Hints by resource, or why there can be none. Nothing is changed."""
        ...

    def allocate(self, cycle: Cycle, row: int, affinity: tuple[int, ...] | None) -> Rejection | None:
        """Whether the provider could allocate under an affinity. A trial: nothing is changed."""
        ...


class PolicySource(Protocol):
    """Who knows which policy holds where."""

    def question(self, cycle: Cycle, row: int) -> Question | Rejection | None:
        """None where nothing is to be aligned."""
        ...


class TopologyManager:
    """Brings the providers of one scheduler profile together."""

    def __init__(self) -> None:
        self._providers: list[HintProvider] = []
        self._source: PolicySource | None = None

    def register(self, provider: HintProvider) -> None:
        """Adds a provider; hints are merged in the order of registration."""
        self._providers.append(provider)

    def set_source(self, source: PolicySource) -> None:
        """Sets who is asked for policies; without one nothing is ever aligned."""
        self._source = source

    def sole(self, cycle: Cycle, provider: HintProvider) -> bool:
        """Whether no other provider has a say for the pod."""
        return not any(
            other.aligns(cycle) for other in self._providers if other is not provider
        )

    def decide(self, cycle: Cycle, row: int) -> Affinity | Rejection:
        """The zones that the pod's resources must come from on a node, or why none will do.

        Kept for the attempt, as long as nothing changes: Filter, Score and all plugins' Reserve
        see the same.
        """
        kept: dict[int, tuple[int, Affinity | Rejection]] = cycle.state.setdefault(STATE, {})
        version = cycle.table.version
        known = kept.get(row)
        if known is not None and known[0] == version:
            return known[1]
        decided = self._decide(cycle, row)
        kept[row] = (version, decided)
        return decided

    def _decide(self, cycle: Cycle, row: int) -> Affinity | Rejection:
        question = self._source.question(cycle, row) if self._source is not None else None
        if question is None:
            return FREE
        if isinstance(question, Rejection):
            return question
        return self.admit(cycle, row, question)

    def admit(self, cycle: Cycle, row: int, question: Question) -> Affinity | Rejection:
        """Merges hints under a policy and tries the result; nothing is kept."""
        providers = [provider for provider in self._providers if provider.aligns(cycle)]
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
            name = providers[0].name if providers else STATE
            return Rejection(name, tuple(decision.reasons))
        mask = decision.hint.affinity
        affinity = None if mask is None else question.zones.ids_of(mask)
        for provider in providers:
            refused = provider.allocate(cycle, row, affinity)
            if refused is not None:
                return refused
        return Affinity(affinity)


_MANAGERS: WeakKeyDictionary[Handle, TopologyManager] = WeakKeyDictionary()


def manager_of(handle: Handle) -> TopologyManager:
    """The manager that all plugins with this handle share."""
    manager = _MANAGERS.get(handle)
    if manager is None:
        manager = _MANAGERS[handle] = TopologyManager()
    return manager
