# SPDX-License-Identifier: Apache-2.0
"""The controller of volumes and claims; what it decides stands in :mod:`volumes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import (
    CLAIM,
    NODE,
    POD,
    STORAGE_CLASS,
    VOLUME,
    key_of,
)
from koord.controlplane.controllers.volume import claim_binding
from koord.kube.controller import Controller
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.api.kinds.meta import ObjectReference
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
    from koord.controlplane.controllers.base.plans import Plan
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView

_CONFLICT = 409
_AGAIN_SECONDS = 0.5


class VolumeBinder:
    """Binds claims, makes their volumes, and claims for ephemeral volumes.

    Keys are ``claim/NAMESPACE/NAME``, ``volume/NAME`` and ``pod/NAMESPACE/NAME``.

    Args:
        runtime: views and writes.
        provisioners: whose volumes it makes; None for everybody's.
    """

    def __init__(self, runtime: Runtime, provisioners: Collection[str] | None = None) -> None:
        self._runtime = runtime
        self._provisioners = provisioners
        self._claims: KindView[PersistentVolumeClaim] = runtime.view(CLAIM)
        self._volumes: KindView[PersistentVolume] = runtime.view(VOLUME)
        self._classes: KindView[StorageClass] = runtime.view(STORAGE_CLASS)
        self._nodes: KindView[Node] = runtime.view(NODE)
        self._pods: KindView[Pod] = runtime.view(POD)
        self.controller: Controller[str] = Controller("volumes", self.reconcile, workers=4)
        self._claims.on_change(self._claim_changed)
        self._volumes.on_change(self._volume_changed)
        self._classes.on_change(lambda before, after: self._all_claims())
        self._pods.on_change(self._pod_changed)

    async def reconcile(self, key: str) -> float | None:
        """Looks at one object; see :class:`koord.kube.controller.Controller`."""
        kind, _, name = key.partition("/")
        try:
            if kind == "claim":
                await self._claim(name)
            elif kind == "volume":
                await self._volume(name)
            else:
                await self._pod(name)
        except ApiError as error:
            if error.http_status != _CONFLICT:
                raise
            return _AGAIN_SECONDS
        return None

    async def _claim(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        known = sorted(self._volumes.all(), key=lambda volume: volume.metadata.name)
        classes = {found.metadata.name: found for found in self._classes.all()}
        plan = claim_binding.claim_plan(claim, known, classes, self._nodes.get, self._provisioners)
        await self._runtime.carry_out(plan.actions, CLAIM, claim)

    async def _volume(self, name: str) -> None:
        volume = self._volumes.get(name)
        if volume is None:
            return
        reference = volume.spec.claim_ref
        claim = self._claims.get(_key(reference)) if reference is not None else None
        made_by = volume.metadata.annotations.get(claim_binding.PROVISIONED_BY)
        ours = made_by is not None and (self._provisioners is None or made_by in self._provisioners)
        plan: Plan = claim_binding.volume_plan(volume, claim, ours)
        await self._runtime.carry_out(plan.actions, VOLUME, volume)

    async def _pod(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or not pods.is_active(pod):
            return
        missing = [
            create
            for create in claim_binding.ephemeral_claims(pod)
            if self._claims.get(f"{create.namespace}/{create.document['metadata']['name']}") is None
        ]
        await self._runtime.carry_out(missing, POD, pod)

    def _claim_changed(
        self, before: PersistentVolumeClaim | None, after: PersistentVolumeClaim | None
    ) -> None:
        claim = after or before
        assert claim is not None, "a change of nothing"
        self.controller.queue.add(f"claim/{key_of(claim.metadata)}")
        if claim.spec.volume_name:
            self.controller.queue.add(f"volume/{claim.spec.volume_name}")

    def _volume_changed(
        self, before: PersistentVolume | None, after: PersistentVolume | None
    ) -> None:
        volume = after or before
        assert volume is not None, "a change of nothing"
        self.controller.queue.add(f"volume/{volume.metadata.name}")
        if volume.spec.claim_ref is not None:
            self.controller.queue.add(f"claim/{_key(volume.spec.claim_ref)}")
        elif volume.status.phase == "Available" and after is not None:
            self._all_claims()

    def _all_claims(self) -> None:
        """A class or a free volume may be what a claim waits for."""
        for claim in self._claims.all():
            if not claim.spec.volume_name:
                self.controller.queue.add(f"claim/{key_of(claim.metadata)}")

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is None and after is not None and claim_binding.ephemeral_claims(after):
            self.controller.queue.add(f"pod/{key_of(after.metadata)}")


def _key(reference: ObjectReference) -> str:
    return f"{reference.namespace}/{reference.name}"
