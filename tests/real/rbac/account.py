# SPDX-License-Identifier: Apache-2.0
"""A component's service account on a real API server: its manifest applied, its own token."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import msgspec
import yaml

from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import APPLY_PATCH, Request, Response, Transport
from tests.real.plane import RealControlPlane
from tests.real.rbac.grants import Document, Grant, granted, without

_ADMISSION = "/apis/admissionregistration.k8s.io/v1/"
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "ValidatingAdmissionPolicy": _ADMISSION + "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": _ADMISSION + "validatingadmissionpolicybindings",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
}
_FORBIDDEN, _PATIENCE_SECONDS = 403, 10.0


class Account:
    """The service account of manifests.

    Args:
        plane: an API server with RBAC on.
        manifests: with one ServiceAccount, its roles and bindings, in the order they are applied.
    """

    def __init__(self, plane: RealControlPlane, *manifests: Path) -> None:
        self._config = load_cluster_config(plane.kubeconfig)
        self.admin = HttpTransport(self._config)
        self.documents: list[Document] = [
            each
            for manifest in manifests
            for each in yaml.safe_load_all(manifest.read_text(encoding="utf-8"))
            if each
        ]
        self._token = ""

    @property
    def grants(self) -> list[Grant]:
        return granted(self.documents)

    async def apply(self) -> None:
        """Brings all objects of the manifest onto the server, and gets a token."""
        for document in self.documents:
            await self._put(document)
        account = next(each for each in self.documents if each["kind"] == "ServiceAccount")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"{_path(account)}/token"
        answer = await self.admin.send(Request("POST", path, body=msgspec.json.encode(body)))
        self._token = msgspec.json.decode(answer.body)["status"]["token"]

    def transport(self) -> HttpTransport:
        """The server as the account reaches it."""
        mine = dataclasses.replace(
            self._config, token=self._token, authorization="", client_certificate="", client_key=""
        )
        return HttpTransport(mine)

    async def refused_without(self, grant: Grant, request: Request, as_account: Transport) -> bool:
        """Whether the server comes to refuse a request once this one grant is taken away."""
        role = next(
            each
            for each in self.documents
            if each["kind"] in ("ClusterRole", "Role") and grant in granted([each])
        )
        await self._put(without(role, grant))
        try:
            return await self._comes_to_refuse(request, as_account)
        finally:
            await self._put(role)

    async def _comes_to_refuse(self, request: Request, as_account: Transport) -> bool:
        for _ in range(int(_PATIENCE_SECONDS / 0.05)):
            if (await as_account.send(_harmless(request))).status == _FORBIDDEN:
                return True
            await asyncio.sleep(0.05)
        return False

    async def _put(self, document: Document) -> None:
        answer: Response = await self.admin.send(
            Request(
                "PATCH",
                _path(document),
                query=(("fieldManager", "rbac"), ("force", "true")),
                body=msgspec.json.encode(document),
                content_type=APPLY_PATCH,
            )
        )
        assert answer.status < 300, answer.body

    async def close(self) -> None:
        """Ends the administrator's connections; TLS takes a moment for that."""
        await self.admin.close()
        await asyncio.sleep(0.2)


def _path(document: Document) -> str:
    meta = document["metadata"]
    folder = _PATHS[document["kind"]].format(namespace=meta.get("namespace", ""))
    return f"{folder}/{meta['name']}"


def _harmless(request: Request) -> Request:
    """The same as far as authorization goes: a watch ends at once, a write is a dry run."""
    query = {key: value for key, value in request.query if key != "sendInitialEvents"}
    if request.method != "GET":
        query["dryRun"] = "All"
    elif query.get("watch"):
        query = {"watch": "true", "timeoutSeconds": "1", "resourceVersion": "0"} | {
            key: value for key, value in query.items() if key == "fieldSelector"
        }
    return msgspec.structs.replace(request, query=tuple(query.items()), timeout_seconds=10.0)
