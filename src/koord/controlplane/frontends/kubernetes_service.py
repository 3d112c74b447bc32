# SPDX-License-Identifier: Apache-2.0
"""The Service ``default/kubernetes``, which names the API server, and its Endpoints."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base import log
from koord.controlplane.kinds.networking.services import CLUSTER_NETWORK
from koord.kube.transport.messages import Request

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.storage.collection import Change
    from koord.controlplane.storage.store import Store
    from koord.kube.transport.messages import Transport

NAMESPACE, NAME = "default", "kubernetes"
_KEY = f"{NAMESPACE}/{NAME}"
_PORT_NAME, _PORT = "https", 443
_PATHS = {
    "services": f"/api/v1/namespaces/{NAMESPACE}/services",
    "endpoints": f"/api/v1/namespaces/{NAMESPACE}/endpoints",
    "endpointslices.discovery.k8s.io":
        f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
}  # fmt: skip
_log = log.get("controlplane")


class KubernetesService:
    """Makes the Service, its Endpoints and its EndpointSlice, and makes them anew if they go.

    Args:
        transport: to the server.
        host: the address that the server listens on.
        port: the port there.
    """

    def __init__(self, store: Store, transport: Transport, host: str, port: int) -> None:
        self._store = store
        self._transport = transport
        self._documents = _documents(host, port)
        self._works: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Makes what is not there and corrects what tells of another port."""
        for storage in _PATHS:
            await self._ensure(storage)
        self._store.listen_to_deletions(self._deleted)

    async def stop(self) -> None:
        """Makes nothing any more."""
        for work in list(self._works):
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)

    def _deleted(self, storage: str, change: Change) -> None:
        if change.entry.key != _KEY or storage not in _PATHS:
            return
        work = asyncio.get_running_loop().create_task(self._ensure(storage))
        self._works.add(work)
        work.add_done_callback(self._works.discard)

    async def _ensure(self, storage: str) -> None:
        path, wanted = _PATHS[storage], self._documents[storage]
        answer = await self._transport.send(Request("POST", path, body=_encode(wanted)))
        if answer.status == 409:
            present = await self._transport.send(Request("GET", f"{path}/{NAME}"))
            held = msgspec.json.decode(present.body)
            if present.status == 200 and not _says(held, wanted):
                merged = {
                    **held,
                    **wanted,
                    "metadata": {**held["metadata"], **wanted["metadata"]},
                }
                request = Request("PUT", f"{path}/{NAME}", body=_encode(merged))
                answer = await self._transport.send(request)
            else:
                answer = present
        if answer.status >= 400:
            why = msgspec.json.decode(answer.body).get("message", "")
            _log.warning("cannot keep default/kubernetes", extra=log.fields(kind=storage, why=why))


_encode = msgspec.json.Encoder().encode


def _says(held: Any, wanted: Any) -> bool:
    """Whether a document has all that another has."""
    if isinstance(wanted, dict):
        return isinstance(held, dict) and all(
            _says(held.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(held, list) and len(held) == len(wanted) and all(map(_says, held, wanted))
    return bool(held == wanted)


def _documents(host: str, port: int) -> dict[str, Document]:
    """By storage, what stands there."""
    address = str(CLUSTER_NETWORK[1])  # The first is the API server's everywhere.
    backend = {"name": _PORT_NAME, "port": port, "protocol": "TCP"}
    service: Document = {
        "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": _PORT_NAME, "port": _PORT, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
        },
    }
    endpoints: Document = {
        "metadata": {"name": NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": host}], "ports": [backend]}],
    }
    endpoint_slice: Document = {
        "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [backend],
    }
    kinds = (("v1", "Service"), ("v1", "Endpoints"), ("discovery.k8s.io/v1", "EndpointSlice"))
    return {
        storage: {"apiVersion": version, "kind": kind, **document}
        for storage, (version, kind), document in zip(
            _PATHS, kinds, (service, endpoints, endpoint_slice), strict=True
        )
    }
