# SPDX-License-Identifier: Apache-2.0
"""Carries out what VolumeBinding decided: writes to volumes and claims, waits for their binding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim
from koord.base import faults
from koord.controllers.scheduler.cycles.binder import BindError
from koord.controllers.scheduler.plugins.kubernetes.volumes import node_affinity
from koord.controllers.scheduler.plugins.kubernetes.volumes.objects import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    is_bound,
    is_for,
)
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.kubernetes.volumes.cache import VolumeCache
    from koord.kube.client import Client


class PodVolumes(NamedTuple):
    """What becomes of a pod's unbound claims.

    Attributes:
        node: where the pod goes.
        bindings: volumes, each with its claim.
        provisions: claims, with their keys, whose volumes are to be made for the node.
    """

    node: str
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...]
    provisions: tuple[tuple[str, PersistentVolumeClaim], ...]

    def __bool__(self) -> bool:
        return bool(self.bindings or self.provisions)

    def describe(self) -> dict[str, object]:
        """For explanations: claims with the volumes they get, and those to be made."""
        bound = {claim.metadata.name: volume.metadata.name for volume, claim in self.bindings}
        made = [key for key, _ in self.provisions]
        found = {"volumesByClaim": bound, "volumesToMake": made}
        return {name: value for name, value in found.items() if value}


class PodVolumeBinder:
    """Writes and waits.

    Args:
        handle: client and node table.
        store: claims and volumes.
        seconds: how long it waits; 0 looks once.
    """

    def __init__(self, handle: Handle, store: VolumeCache, seconds: float) -> None:
        self._handle = handle
        self._cache = store
        self._seconds = seconds
        self._changed: set[asyncio.Event] = set()
        store.on_claim_change(self._wake)

    def assume(self, pod_volumes: PodVolumes) -> None:
        """Counts decisions before they are written."""
        for volume, claim in pod_volumes.bindings:
            self._cache.assume_volume(volume.metadata.name, claim)
        for key, _ in pod_volumes.provisions:
            self._cache.assume_node(key, pod_volumes.node)

    def revert(self, pod_volumes: PodVolumes) -> None:
        """Takes decisions back, but for what the API shows already."""
        volumes = [volume.metadata.name for volume, _ in pod_volumes.bindings]
        self._cache.revert(volumes, [key for key, _ in pod_volumes.provisions])

    async def bind_pod_volumes(self, pod: PodInfo, pod_volumes: PodVolumes) -> None:
        """Writes, then waits until all claims are bound.

        Raises:
            BindError: they are not: the pod is scheduled anew.
            ApiError: a write failed.
        """
        client = self._handle.client
        if client is None:
            return
        faults.point("scheduler.volumes")
        for volume, claim in pod_volumes.bindings:
            await self._bind(client, volume, claim)
        for _, claim in pod_volumes.provisions:
            await self._select(client, claim, pod_volumes.node)
        if client.dry_run is not None:
            return  # Nobody makes or binds what nobody was asked for.
        event = asyncio.Event()
        self._changed.add(event)
        try:
            async with asyncio.timeout(self._seconds):
                while not self._done(pod_volumes):
                    event.clear()
                    await event.wait()
        except TimeoutError:
            raise BindError("binding volumes: context deadline exceeded") from None
        finally:
            self._changed.discard(event)

    async def _bind(
        self, client: Client, volume: PersistentVolume, claim: PersistentVolumeClaim
    ) -> None:
        """Names the claim in the volume; the volume controller does the rest."""
        meta = claim.metadata
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        }
        before = volume.spec.claim_ref
        body: dict[str, Any] = {
            "metadata": {
                "uid": volume.metadata.uid,
                "resourceVersion": volume.metadata.resource_version,
            },
            "spec": {"claimRef": reference},
        }
        if before is None or not is_for(before, claim):
            body["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        await client.patch(PersistentVolume, volume.metadata.name, Patch.merge(body))

    async def _select(self, client: Client, claim: PersistentVolumeClaim, node: str) -> None:
        """Tells the provisioner for which node."""
        meta = claim.metadata
        if meta.annotations.get(SELECTED_NODE) == node:
            return
        body = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "annotations": {SELECTED_NODE: node},
            }
        }
        await client.patch(PersistentVolumeClaim, meta.name, Patch.merge(body), meta.namespace)

    def _done(self, pod_volumes: PodVolumes) -> bool:
        for volume, claim in pod_volumes.bindings:
            if not self._is_bound(pod_volumes.node, volume, claim):
                return False
        return all(
            self._is_made(pod_volumes.node, key, claim) for key, claim in pod_volumes.provisions
        )

    def _is_bound(self, node: str, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        name = volume.metadata.name
        now = self._cache.volumes.get(name)
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        ours = self._cache.claims.get(key)
        if now is None or ours is None:
            gone = f'persistentvolume "{name}"' if now is None else f'persistentvolumeclaim "{key}"'
            raise BindError(f"binding volumes: failed to check binding: {gone} not found")
        written = now.metadata.resource_version != volume.metadata.resource_version
        reference = now.spec.claim_ref
        if not written and (reference is None or reference.uid != claim.metadata.uid):
            return False
        self._check_reach(node, now)
        if reference is None or not reference.uid:
            raise BindError(f'binding volumes: ClaimRef got reset for pv "{name}"')
        return is_bound(ours)

    def _is_made(self, node: str, key: str, claim: PersistentVolumeClaim) -> bool:
        ours = self._cache.claims.get(key)
        if ours is None:
            why = f'failed to check provisioning pvc: persistentvolumeclaim "{key}" not found'
            raise BindError(f"binding volumes: {why}")
        if ours.metadata.annotations.get(SELECTED_NODE) != node:
            if ours.metadata.resource_version == claim.metadata.resource_version:
                return False
            # A provisioner that fails takes the annotation away.
            name = ours.metadata.name
            raise BindError(f'binding volumes: provisioning failed for PVC "{name}"')
        if ours.spec.volume_name:
            volume = self._cache.volumes.get(ours.spec.volume_name)
            if volume is None:
                return False
            self._check_reach(node, volume)
        return is_bound(ours)

    def _check_reach(self, node: str, volume: PersistentVolume) -> None:
        table = self._handle.table
        row = table.row(node)
        if row is None:
            raise BindError(f'binding volumes: failed to get node "{node}"')
        if not node_affinity.rows_of_volume(table, volume)[np.intp(row)]:
            name = volume.metadata.name
            why = f'pv "{name}" node affinity doesn\'t match node "{node}"'
            raise BindError(f"binding volumes: {why}")

    def _wake(self, key: str) -> None:
        for event in self._changed:
            event.set()
