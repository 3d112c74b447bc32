# SPDX-License-Identifier: Apache-2.0
"""A real kube-apiserver in the API server's place; koordlet has its account's rights alone."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.contract.api import Api
from tests.real.plane import RealControlPlane
from tests.scenes.apiserver import ApiServer
from tests.scenes.nursery import Nursery
from tests.scenes.runtime import wait_until

_RIGHTS = Path(__file__).resolve().parents[2] / "deploy/rbac/koordlet.yaml"
_RBAC = "rbac.authorization.k8s.io"
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/koordinator-system/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
_SERVED_SECONDS = 60.0


class RealApiServer(ApiServer):
    """etcd and kube-apiserver; who calls here is the administrator.

    Args:
        folder: for their state, certificates and kubeconfigs.
        nursery: unused, they are no Python programs.
    """

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self._plane = RealControlPlane(folder)
        self._token = ""
        super().__init__(folder, nursery)
        self.kubeconfig = folder / "koordlet.kubeconfig"
        for document in yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8")):
            self.call("POST", _PATHS[document["kind"]], document)
        self._token = self._issued("koordinator-system", "koordlet")
        self._tenants: dict[str, str] = {}
        self.kubeconfig.write_text(json.dumps(self._of_koordlet()), encoding="utf-8")
        for kind in ("NodeSLO", "NodeMetric", "NodeResourceTopology"):
            wait_until(f"{kind} is served", _SERVED_SECONDS, lambda kind=kind: self._has(kind))

    @property
    def certificates(self) -> Path:
        """Folder of a certificate for the kubelet, and its key."""
        found = self.folder / "kubelet"
        if not found.is_dir():
            found.mkdir()
            for made, name in zip(
                self._plane.authority.issue("kubelet", server=True),
                ("server.crt", "server.key"),
                strict=True,
            ):
                shutil.copyfile(made, found / name)
        return found

    @property
    def token(self) -> str:
        """What koordlet shows."""
        return self._token

    def start(self) -> None:
        """Starts both, and waits until they serve."""
        self._plane.__enter__()
        self.url = self._plane.url
        handler = urllib.request.HTTPSHandler(context=self._plane.tls())
        self._opener = urllib.request.build_opener(handler)

    def kill(self) -> None:
        """They are gone."""
        self._plane.stop()

    def pause(self) -> None:
        """The API server hangs until `resume`."""
        self._plane.pause()

    def resume(self) -> None:
        """It goes on."""
        self._plane.resume()

    def set_up_tenant(self, name: str) -> None:
        """A namespace, and an account that may do there with pods what it likes."""
        space = f"/api/v1/namespaces/{name}"
        roles = f"/apis/{_RBAC}/v1/namespaces/{name}"
        metadata = {"metadata": {"name": name}}
        self.call("POST", "/api/v1/namespaces", metadata)
        self.call("POST", f"{space}/serviceaccounts", metadata)
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}
        self.call("POST", f"{roles}/roles", {**metadata, "rules": [rule]})
        role = {"apiGroup": _RBAC, "kind": "Role", "name": name}
        who = {"kind": "ServiceAccount", "name": name, "namespace": name}
        body = {**metadata, "roleRef": role, "subjects": [who]}
        self.call("POST", f"{roles}/rolebindings", body)
        self._tenants[name] = self._issued(name, name)

    def connect(self, tenant: str = "") -> Api:
        """A connection of a tenant's, or of the administrator's."""
        if not tenant:
            return Api(self._plane.port, self._plane.tls())
        trust = ssl.create_default_context(cafile=self._plane.authority.certificate)
        token = f"Bearer {self._tenants[tenant]}"
        return Api(self._plane.port, trust, {"Authorization": token})

    def _issued(self, namespace: str, account: str) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        token: str = self.call("POST", path, body)["status"]["token"]
        return token

    def _headers(self) -> dict[str, str]:
        return {}

    def _has(self, kind: str) -> bool:
        try:
            return self.get(kind, "") is None
        except (AssertionError, json.JSONDecodeError):
            return False

    def _of_koordlet(self) -> dict[str, Any]:
        authority = base64.b64encode(self._plane.authority.certificate.read_bytes()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "koordlet", "user": {"token": self._token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "koordlet"}}],
            "current-context": "real",
        }
