# SPDX-License-Identifier: Apache-2.0
"""Whoever asks a real API server, as an account of its own: koord's programs, and tenants.

The administrator of a test is of ``system:masters``, whose requests no priority level holds back.
Rules: docs/security.md, the chapter on the API server's share.
"""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from tests.contract.api import Api, Document, at

DEPLOY = Path(__file__).parents[2] / "deploy"
SYSTEM = "koordinator-system"
_FLOWS = "flowcontrol.apiserver.k8s.io/v1"
_PLURALS = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "FlowSchema": f"{_FLOWS}/flowschemas",
    "PriorityLevelConfiguration": f"{_FLOWS}/prioritylevelconfigurations",
}
_RBAC = "rbac.authorization.k8s.io"
# What the tenants of these tests may do in their namespace. That a neighbour binds pods is the
# test's, which so tells what is koord's of a wait.
_RULES = [
    {"apiGroups": [""], "resources": ["pods", "pods/binding", "configmaps"], "verbs": ["*"]},
    {"apiGroups": ["scheduling.sigs.k8s.io"], "resources": ["*"], "verbs": ["*"]},
]


def apply(api: Api, *manifests: Path) -> None:
    """Creates all objects of manifests, in their order; those that are there stay."""
    for path in manifests:
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            create(api, each)


def create(api: Api, document: Document) -> None:
    """One object of the kinds above."""
    path = at(_PLURALS[document["kind"]], document["metadata"].get("namespace", ""))
    answer = api.post(path, document)
    assert answer.code in (201, 409), answer.text


def tenant(api: Api, namespace: str) -> None:
    """A namespace with an account that has all of it."""
    create(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    metadata = {"name": "tenant", "namespace": namespace}
    create(api, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    version = f"{_RBAC}/v1"
    create(api, {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": _RULES})
    binding = {
        "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
    }  # fmt: skip
    create(api, binding)


def token(api: Api, namespace: str, name: str) -> str:
    """One of a service account."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = api.post(at("serviceaccounts", namespace, name, "token"), body).ok
    return str(made["status"]["token"])


def kubeconfig(api: Api, admin: Path, namespace: str, name: str) -> Path:
    """Writes one with a token of a service account, beside the administrator's."""
    document = copy.deepcopy(yaml.safe_load(admin.read_text(encoding="utf-8")))
    document["users"][0]["user"] = {"token": token(api, namespace, name)}
    path = admin.with_name(f"{namespace}-{name}.kubeconfig")
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path
