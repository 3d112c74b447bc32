# SPDX-License-Identifier: Apache-2.0
"""VolumeBinding: a pod goes where its volumes are, or can be found or made; binds them.

Kubernetes: pkg/scheduler/framework/plugins/volumebinding. Volumes of in-tree drivers are not
translated to CSI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.kubernetes.volumes import queueing_hints
from koord.controllers.scheduler.plugins.kubernetes.volumes.cache import volume_cache_of
from koord.controllers.scheduler.plugins.kubernetes.volumes.objects import claim_class, is_bound
from koord.controllers.scheduler.plugins.kubernetes.volumes.pod_request import (
    claims_of,
    volume_request_of,
)
from koord.controllers.scheduler.plugins.kubernetes.volumes.pod_volume_binder import (
    PodVolumeBinder,
    PodVolumes,
)
from koord.controllers.scheduler.plugins.kubernetes.volumes.volume_matcher import (
    PodVolumeClaims,
    VolumeMatcher,
    VolumeMatches,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.storage import PersistentVolumeClaim
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.queue.events import HintedEvent

NAME = "VolumeBinding"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class _CycleState(NamedTuple):
    """A pod's claims during an attempt.

    Attributes:
        claims: bound and delayed.
        generation: what the answers depend on beside nodes.
    """

    claims: PodVolumeClaims
    generation: Hashable


class VolumeBinding(Plugin):
    """PreFilter, Filter, Reserve and PreBind.

    Args:
        args: ``VolumeBindingArgs``: how long PreBind waits for volumes.
        handle: the cluster's state.
    """

    name = NAME
    reads = PodField.VOLUMES
    depends = Aspect.NODE
    applies_by_shape = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cache = volume_cache_of(handle)
        self._matcher = VolumeMatcher(handle.table, self._cache)
        self._binder = PodVolumeBinder(handle, self._cache, float(args.bind_timeout_seconds))
        self._last: tuple[Hashable, VolumeMatches | KoordError] | None = None

    def events(self) -> Sequence[HintedEvent]:
        """Changes of claims, volumes, classes, capacities and nodes."""
        return queueing_hints.of_binding()

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without claims have nothing to bind."""
        return () if volume_request_of(shape).claims else ("pre_filter", "reserve", "pre_bind")

    def applies(self, cycle: Cycle) -> bool:
        """Pods with claims."""
        return bool(volume_request_of(cycle.shape).claims)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Claims must exist, and be bound unless they wait for their first pod."""
        if not volume_request_of(cycle.shape).claims:
            return None
        bound: list[PersistentVolumeClaim] = []
        delayed: list[tuple[str, PersistentVolumeClaim]] = []
        immediate = False
        for name in claims_of(cycle.pod):
            claim = self._cache.claims.get(name.key)
            why = _claim_problem(cycle.pod, name.name, name.ephemeral, claim)
            if why or claim is None:
                return Rejection(NAME, (why,), unresolvable=True)
            if is_bound(claim):
                bound.append(claim)
            elif self._cache.waits_for_consumer(claim) and not claim.spec.volume_name:
                delayed.append((name.key, claim))
            else:
                immediate = True
        if immediate:
            return Rejection(NAME, (UNBOUND,), unresolvable=True)
        claims = PodVolumeClaims(tuple(bound), tuple(delayed))
        cycle.state[NAME] = _CycleState(claims, self._generation_of(claims))
        return None

    def generation(self, cycle: Cycle) -> Hashable:
        """The pod's claims, their volumes, and for claims to be bound all of their classes."""
        return self._cycle_state(cycle).generation

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where the claims' volumes can be had; see :class:`VolumeMatcher`."""
        volume_matches = self._volume_matches(cycle)
        if isinstance(volume_matches, KoordError):
            return np.zeros(cycle.table.size, np.bool_)[rows]
        return volume_matches.passes()[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Up to four reasons."""
        volume_matches = self._volume_matches(cycle)
        if isinstance(volume_matches, KoordError):
            return [Rejection(NAME, (str(volume_matches),), error=True)] * len(rows)
        return [
            Rejection(NAME, volume_matches.reasons(row), unresolvable=True) for row in rows.tolist()
        ]

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Decides which volume each claim gets, or for which node it is made."""
        if not self.applies(cycle):
            return None
        volume_matches = self._volume_matches(cycle)
        if isinstance(volume_matches, KoordError) or not volume_matches.passes()[row]:
            return Rejection(NAME, ("the pod's volumes changed",))
        pod_volumes = self._decide(self._cycle_state(cycle).claims, volume_matches, row)
        if pod_volumes:
            cycle.pod.allocations[NAME] = pod_volumes
            self._binder.assume(pod_volumes)
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Gives up what is not written yet."""
        pod_volumes = cycle.pod.allocations.pop(NAME, None)
        if pod_volumes is not None:
            self._binder.revert(pod_volumes)

    async def pre_bind(self, cycle: Cycle, row: int, changes: PendingPatch) -> None:
        """Writes what was decided, and waits until the claims are bound.

        Raises:
            BindError: they are not, in time or for good.
        """
        pod_volumes = cycle.pod.allocations.get(NAME)
        if pod_volumes is not None:
            await self._binder.bind_pod_volumes(cycle.pod, pod_volumes)

    def _cycle_state(self, cycle: Cycle) -> _CycleState:
        seen = cycle.state.get(NAME)
        return seen if seen is not None else _CycleState(PodVolumeClaims((), ()), None)

    def _volume_matches(self, cycle: Cycle) -> VolumeMatches | KoordError:
        """Kept until anything changes that it depends on."""
        seen = self._cycle_state(cycle)
        key = (seen.generation, self.handle.table.labels.version, self.handle.table.size)
        if self._last is None or self._last[0] != key:
            volume_matches: VolumeMatches | KoordError
            try:
                volume_matches = self._matcher.volume_matches(seen.claims)
            except KoordError as error:
                volume_matches = error.copy()
            self._last = (key, volume_matches)
        return self._last[1]

    def _generation_of(self, claims: PodVolumeClaims) -> Hashable:
        bound = tuple(
            (claim.metadata.uid, *_version(self._cache.volumes.get(claim.spec.volume_name)))
            for claim in claims.bound
        )
        delayed = tuple(
            (
                key,
                *_version(claim),
                self._cache.selected_node(key, claim),
                self._cache.by_class.get(claim_class(claim), 0),
            )
            for key, claim in claims.delayed
        )
        return bound, delayed, self._cache.version if delayed else 0

    def _decide(
        self, claims: PodVolumeClaims, volume_matches: VolumeMatches, row: int
    ) -> PodVolumes:
        node = self.handle.table.name(row)
        bindings, provisions = [], []
        for key, claim in claims.delayed:
            volumes, chosen = volume_matches.chosen.get(key, ([], np.zeros(0, np.int64)))
            if volumes and chosen[row] >= 0:
                bindings.append((volumes[int(chosen[row])], claim))
            else:
                provisions.append((key, claim))
        return PodVolumes(node, tuple(bindings), tuple(provisions))


def _version(resource: Any) -> tuple[str, str]:
    if resource is None:
        return "", ""
    meta = resource.metadata
    return meta.uid or meta.name, meta.resource_version or str(id(resource))


def _claim_problem(
    pod: PodInfo, name: str, ephemeral: bool, claim: PersistentVolumeClaim | None
) -> str:
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
