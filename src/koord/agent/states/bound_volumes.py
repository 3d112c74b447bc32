# SPDX-License-Identifier: Apache-2.0
"""Which PersistentVolume a claim is bound to, for limits on the I/O of a pod's volume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from koord.api.kinds.meta import Object
from koord.api.kinds.storage import PersistentVolumeClaim
from koord.api.wirestruct import WireStruct
from koord.base.supervision import Supervisor
from koord.kube.informers.informer import Informer

if TYPE_CHECKING:
    from koord.kube.client import Client


class BoundSpec(WireStruct):
    """The volume, empty as long as there is none."""

    volume_name: str = ""


class BoundClaim(Object):
    """All that is kept of a claim: there may be many, and none of them is this node's."""

    spec: BoundSpec = field(default_factory=BoundSpec)


class BoundVolumes:
    """Watches the claims of all namespaces; only where somebody needs them.

    Args:
        client: the way to the API server.
        supervisor: keeps the watch going.
    """

    def __init__(self, client: Client, supervisor: Supervisor | None = None) -> None:
        self._claims: Informer[Any] = Informer(
            client, PersistentVolumeClaim, project=BoundClaim, supervisor=supervisor
        )

    async def run(self) -> None:
        """Watches until cancelled."""
        await self._claims.run()

    def volume_of(self, namespace: str, claim: str) -> str:
        """The volume of a claim; empty for one that is not bound, or not known yet."""
        found = self._claims.get(f"{namespace}/{claim}")
        return str(found.spec.volume_name) if found else ""
