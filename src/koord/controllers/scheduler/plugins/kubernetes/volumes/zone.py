# SPDX-License-Identifier: Apache-2.0
"""VolumeZone: a pod goes to nodes in the zone and region of its volumes' labels.

Kubernetes: pkg/scheduler/framework/plugins/volumezone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.kubernetes.volumes import queueing_hints
from koord.controllers.scheduler.plugins.kubernetes.volumes.cache import volume_cache_of
from koord.controllers.scheduler.plugins.kubernetes.volumes.objects import claim_class
from koord.controllers.scheduler.plugins.kubernetes.volumes.pod_request import (
    claims_of,
    volume_request_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.queue.events import HintedEvent

NAME = "VolumeZone"
CONFLICT = "node(s) had no available volume zone"
_BETA = "failure-domain.beta.kubernetes.io/"
_STABLE = "topology.kubernetes.io/"
_KEYS = (f"{_BETA}zone", f"{_BETA}region", f"{_STABLE}zone", f"{_STABLE}region")

TopologyLabels = tuple[tuple[str, frozenset[str]], ...]


class VolumeZone(Plugin):
    """PreFilter and Filter.

    Args:
        args: none.
        handle: the cluster's state.
    """

    name = NAME
    reads = PodField.VOLUMES
    depends = Aspect.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cache = volume_cache_of(handle)

    def events(self) -> Sequence[HintedEvent]:
        """Changes of claims, volumes, classes and nodes."""
        return queueing_hints.of_zone()

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Finds the zones of the pod's volumes."""
        if not volume_request_of(cycle.shape).claims:
            return None
        zones: list[tuple[str, frozenset[str]]] = []
        for name in claims_of(cycle.pod):
            if name.ephemeral:
                continue
            if not name.name:
                return self._refuse("PersistentVolumeClaim had no name")
            claim = self._cache.claims.get(name.key)
            if claim is None:
                return self._refuse(f'persistentvolumeclaim "{name.name}" not found')
            if not claim.spec.volume_name:
                why = self._unbound(claim)
                if why:
                    return self._refuse(why)
                continue
            volume = self._cache.volumes.get(claim.spec.volume_name)
            if volume is None:
                return self._refuse(f'persistentvolume "{claim.spec.volume_name}" not found')
            zones += zones_of(volume)
        cycle.state[NAME] = tuple(zones)
        return None

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without claims have no zones."""
        return () if volume_request_of(shape).claims else ("pre_filter", "filter")

    def applies(self, cycle: Cycle) -> bool:
        """Pods whose volumes have zones."""
        return bool(cycle.state.get(NAME))

    def generation(self, cycle: Cycle) -> Hashable:
        """The zones."""
        zones: Hashable = cycle.state.get(NAME)
        return zones

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """A node without any zone or region takes every pod."""
        table = cycle.table
        unlabelled = np.ones(table.size, np.bool_)
        for key in _KEYS:
            unlabelled &= table.labels.column(key).ids[: table.size] < 0
        found = np.ones(table.size, np.bool_)
        for key, values in cycle.state[NAME]:
            found &= _has(table, key, values)
        passes: NDArray[np.bool_] = (unlabelled | found)[rows]
        return passes

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Always the same."""
        return [Rejection(NAME, (CONFLICT,), unresolvable=True)] * len(rows)

    def _unbound(self, claim: PersistentVolumeClaim) -> str:
        """What is wrong with a claim without a volume; empty if it waits for its first pod."""
        name = claim_class(claim)
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        found = self._cache.classes.get(name)
        if found is None:
            return f'storageclass.storage.k8s.io "{name}" not found'
        if found.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        return "" if self._cache.waits_for_consumer(claim) else "PersistentVolume had no name"

    def _refuse(self, why: str) -> Rejection:
        return Rejection(NAME, (why,), unresolvable=True)


def zones_of(volume: PersistentVolume) -> TopologyLabels:
    """The zone and region labels of a volume; several values are joined by ``__``.

    A label with an empty part is ignored, as kube-scheduler does.
    """
    found = []
    for key in _KEYS:
        text = volume.metadata.labels.get(key)
        if text is None:
            continue
        values = [part.strip() for part in text.split("__")]
        if all(values):
            found.append((key, frozenset(values)))
    return tuple(found)


def _has(table: NodeTable, key: str, values: frozenset[str]) -> NDArray[np.bool_]:
    """By row: whether the node has one of the values; for a beta key the stable one will do."""
    found = _column(table, key, values)
    if key.startswith(_BETA):
        absent = table.labels.column(key).ids[: table.size] < 0
        found |= absent & _column(table, _STABLE + key.removeprefix(_BETA), values)
    return found


def _column(table: NodeTable, key: str, values: frozenset[str]) -> NDArray[np.bool_]:
    column = table.labels.column(key)
    numbers = [number for value in values if (number := column.number(value)) >= 0]
    return np.isin(column.ids[: table.size], numbers)
