# SPDX-License-Identifier: Apache-2.0
"""VolumeBinding: a pod goes where its volumes are, or can be found or made; binds them.

Kubernetes: pkg/scheduler/framework/plugins/volumebinding. Volumes of in-tree drivers are not
translated to CSI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.base.errors import KoordError
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.volumes import hints
from koord.controllers.scheduler.plugins.volumes.carrying import Carrier, Decided
from koord.controllers.scheduler.plugins.volumes.matching import Answer, Claims, Matcher
from koord.controllers.scheduler.plugins.volumes.store import class_of, is_bound, store_of
from koord.controllers.scheduler.plugins.volumes.wants import claims_of, wants_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.storage import PersistentVolumeClaim
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Changes, Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.queue.events import HintedEvent

NAME = "VolumeBinding"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class _Seen(NamedTuple):
    """A pod's claims during an attempt.

    Attributes:
        claims: sorted out.
        stamp: what the answers depend on beside nodes.
    """

    claims: Claims
    stamp: Hashable


class VolumeBinding(Plugin):
    """PreFilter, Filter, Reserve and PreBind.

    Args:
        args: ``VolumeBindingArgs``: how long PreBind waits for volumes.
        handle: the world.
    """

    name = NAME
    depends = Aspect.NODE
    applies_by_shape = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._store = store_of(handle)
        self._matcher = Matcher(handle.table, self._store)
        self._carrier = Carrier(handle, self._store, float(args.bind_timeout_seconds))
        self._last: tuple[Hashable, Answer | KoordError] | None = None

    def events(self) -> Sequence[HintedEvent]:
        """Changes of claims, volumes, classes, capacities and nodes."""
        return hints.of_binding()

    def idle_at(self, shape: PodShape) -> Collection[str]:
        """Pods without claims have nothing to bind."""
        return () if wants_of(shape).claims else ("pre_filter", "reserve", "pre_bind")

    def applies(self, cycle: Cycle) -> bool:
        """Pods with claims."""
        return bool(wants_of(cycle.shape).claims)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Claims must exist, and be bound unless they wait for their first pod."""
        if not wants_of(cycle.shape).claims:
            return None
        bound: list[PersistentVolumeClaim] = []
        delayed: list[tuple[str, PersistentVolumeClaim]] = []
        immediate = False
        for name in claims_of(cycle.pod):
            claim = self._store.claims.get(name.key)
            why = _fault(cycle.pod, name.name, name.ephemeral, claim)
            if why or claim is None:
                return Rejection(NAME, (why,), unresolvable=True)
            if is_bound(claim):
                bound.append(claim)
            elif self._store.waits(claim) and not claim.spec.volume_name:
                delayed.append((name.key, claim))
            else:
                immediate = True
        if immediate:
            return Rejection(NAME, (UNBOUND,), unresolvable=True)
        claims = Claims(tuple(bound), tuple(delayed))
        cycle.state[NAME] = _Seen(claims, self._stamp(claims))
        return None

    def stamp(self, cycle: Cycle) -> Hashable:
        """The pod's claims, their volumes, and for claims to be bound all of their classes."""
        return self._seen(cycle).stamp

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """See :class:`Matcher`."""
        answer = self._answer(cycle)
        if isinstance(answer, KoordError):
            return np.zeros(cycle.table.size, np.bool_)[rows]
        return answer.passes()[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Up to four reasons."""
        answer = self._answer(cycle)
        if isinstance(answer, KoordError):
            return [Rejection(NAME, (str(answer),), error=True)] * len(rows)
        return [Rejection(NAME, answer.reasons(row), unresolvable=True) for row in rows.tolist()]

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Decides which volume each claim gets, or for which node it is made."""
        if not self.applies(cycle):
            return None
        answer = self._answer(cycle)
        if isinstance(answer, KoordError) or not answer.passes()[row]:
            return Rejection(NAME, ("the pod's volumes changed",))
        decided = self._decide(self._seen(cycle).claims, answer, row)
        if decided:
            cycle.pod.allocations[NAME] = decided
            self._carrier.assume(decided)
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Gives up what is not written yet."""
        decided = cycle.pod.allocations.pop(NAME, None)
        if decided is not None:
            self._carrier.give_up(decided)

    async def pre_bind(self, cycle: Cycle, row: int, changes: Changes) -> None:
        """Writes what was decided, and waits until the claims are bound.

        Raises:
            BindError: they are not, in time or for good.
        """
        decided = cycle.pod.allocations.get(NAME)
        if decided is not None:
            await self._carrier.carry_out(cycle.pod, decided)

    def _seen(self, cycle: Cycle) -> _Seen:
        seen = cycle.state.get(NAME)
        return seen if seen is not None else _Seen(Claims((), ()), None)

    def _answer(self, cycle: Cycle) -> Answer | KoordError:
        """Kept until anything changes that it depends on."""
        seen = self._seen(cycle)
        key = (seen.stamp, self.handle.table.labels.version, self.handle.table.size)
        if self._last is None or self._last[0] != key:
            answer: Answer | KoordError
            try:
                answer = self._matcher.answer(seen.claims)
            except KoordError as error:
                answer = error
            self._last = (key, answer)
        return self._last[1]

    def _stamp(self, claims: Claims) -> Hashable:
        bound = tuple(
            (claim.metadata.uid, *_version(self._store.volumes.get(claim.spec.volume_name)))
            for claim in claims.bound
        )
        delayed = tuple(
            (
                key,
                *_version(claim),
                self._store.selected_node(key, claim),
                self._store.by_class.get(class_of(claim), 0),
            )
            for key, claim in claims.delayed
        )
        return bound, delayed, self._store.version if delayed else 0

    def _decide(self, claims: Claims, answer: Answer, row: int) -> Decided:
        node = self.handle.table.name(row)
        bindings, provisions = [], []
        for key, claim in claims.delayed:
            volumes, chosen = answer.chosen.get(key, ([], np.zeros(0, np.int64)))
            if volumes and chosen[row] >= 0:
                bindings.append((volumes[int(chosen[row])], claim))
            else:
                provisions.append((key, claim))
        return Decided(node, tuple(bindings), tuple(provisions))


def _version(found: Any) -> tuple[str, str]:
    if found is None:
        return "", ""
    return found.metadata.uid or found.metadata.name, found.metadata.resource_version or str(
        id(found)
    )


def _fault(pod: PodInfo, name: str, ephemeral: bool, claim: PersistentVolumeClaim | None) -> str:
    """What is wrong with a claim of a pod; empty if nothing is."""
    if claim is None:
        if ephemeral:
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{name}"'
            )
        return f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    owner = next((o.uid for o in claim.metadata.owner_references if o.controller), "")
    if ephemeral and owner != pod.uid:
        key, title = f"{claim.metadata.namespace}/{name}", pod.key
        return f"PVC {key} was not created for pod {title} (pod is not owner)"
    return ""
