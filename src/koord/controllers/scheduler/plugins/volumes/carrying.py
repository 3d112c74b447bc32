# SPDX-License-Identifier: Apache-2.0
"""Carries out what VolumeBinding decided: writes to volumes and claims, waits for their binding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim
from koord.base import faults
from koord.controllers.scheduler.binding import BindError
from koord.controllers.scheduler.plugins.volumes import reach
from koord.controllers.scheduler.plugins.volumes.store import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    is_bound,
    is_for,
)
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.volumes.store import Store
    from koord.kube.client import Client


class Decided(NamedTuple):
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


class Carrier:
    """Writes and waits.

    Args:
        handle: client and node table.
        store: claims and volumes.
        seconds: how long it waits; 0 looks once.
    """

    def __init__(self, handle: Handle, store: Store, seconds: float) -> None:
        self._handle = handle
        self._store = store
        self._seconds = seconds
        self._changed: set[asyncio.Event] = set()
        store.on_claim(self._wake)

    def assume(self, decided: Decided) -> None:
        """Counts decisions before they are written."""
        for volume, claim in decided.bindings:
            self._store.promise(volume.metadata.name, claim)
        for key, _ in decided.provisions:
            self._store.select(key, decided.node)

    def give_up(self, decided: Decided) -> None:
        """Takes decisions back, but for what the API shows already."""
        volumes = [volume.metadata.name for volume, _ in decided.bindings]
        self._store.give_up(volumes, [key for key, _ in decided.provisions])

    async def carry_out(self, pod: PodInfo, decided: Decided) -> None:
        """Writes, then waits until all claims are bound.

        Raises:
            BindError: they are not: the pod is scheduled anew.
            ApiError: a write failed.
        """
        client = self._handle.client
        if client is None:
            return
        faults.point("scheduler.volumes")
        for volume, claim in decided.bindings:
            await self._bind(client, volume, claim)
        for _, claim in decided.provisions:
            await self._select(client, claim, decided.node)
        if client.dry_run is not None:
            return  # Nobody makes or binds what nobody was asked for.
        event = asyncio.Event()
        self._changed.add(event)
        try:
            async with asyncio.timeout(self._seconds):
                while not self._done(decided):
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

    def _done(self, decided: Decided) -> bool:
        for volume, claim in decided.bindings:
            if not self._is_bound(decided.node, volume, claim):
                return False
        return all(self._is_made(decided.node, key, claim) for key, claim in decided.provisions)

    def _is_bound(self, node: str, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        name = volume.metadata.name
        now = self._store.volumes.get(name)
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        ours = self._store.claims.get(key)
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
        ours = self._store.claims.get(key)
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
            volume = self._store.volumes.get(ours.spec.volume_name)
            if volume is None:
                return False
            self._check_reach(node, volume)
        return is_bound(ours)

    def _check_reach(self, node: str, volume: PersistentVolume) -> None:
        table = self._handle.table
        row = table.row(node)
        if row is None:
            raise BindError(f'binding volumes: failed to get node "{node}"')
        if not reach.of_volume(table, volume)[np.intp(row)]:
            name = volume.metadata.name
            why = f'pv "{name}" node affinity doesn\'t match node "{node}"'
            raise BindError(f"binding volumes: {why}")

    def _wake(self, key: str) -> None:
        for event in self._changed:
            event.set()
