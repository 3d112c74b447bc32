# SPDX-License-Identifier: Apache-2.0
"""Roles that every cluster has; a controller adds up those that are made of others."""

from __future__ import annotations

import time

import pytest

from tests.contract.api import at
from tests.contract.conftest import Server, make_namespace
from tests.contract.documents import document

RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
WAIT_SECONDS = 60.0
GROUPS = {"deployments": "apps", "roles": RBAC, "rolebindings": RBAC}


@pytest.mark.parametrize(
    ("role", "allowed", "refused"),
    [
        ("view", [("list", "pods"), ("get", "configmaps")],
         [("get", "secrets"), ("create", "pods"), ("list", "roles")]),
        ("edit", [("create", "pods"), ("get", "secrets"), ("update", "deployments")],
         [("create", "roles"), ("create", "resourcequotas")]),
        ("admin", [("create", "roles"), ("create", "rolebindings"), ("delete", "pods")],
         [("create", "resourcequotas"), ("update", "namespaces")]),
        ("cluster-admin", [("create", "resourcequotas"), ("anything", "anywhere")], []),
    ],
)  # fmt: skip
def test_default_roles(
    cluster: Server, role: str, allowed: list[tuple[str, str]], refused: list[tuple[str, str]]
) -> None:
    api, user = cluster.api, f"has-{role}"
    namespace = make_namespace(api)
    who = {"kind": "User", "name": user, "apiGroup": RBAC}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    body = document(f"{RBAC}/v1", "RoleBinding", "b", roleRef=reference, subjects=[who])
    api.post(at(f"{RBAC}/v1/rolebindings", namespace), body).ok["metadata"]

    def may(verb: str, resource: str) -> bool:
        asked = {"verb": verb, "resource": resource, "namespace": namespace}
        asked["group"] = GROUPS.get(resource, "")
        spec = {"user": user, "resourceAttributes": asked}
        body = document("authorization.k8s.io/v1", "SubjectAccessReview", "", spec=spec)
        return bool(api.post(REVIEWS, body).ok["status"]["allowed"])

    deadline = time.monotonic() + WAIT_SECONDS
    while not all(may(*each) for each in allowed):
        assert time.monotonic() < deadline, [each for each in allowed if not may(*each)]
        time.sleep(0.05)
    assert [each for each in refused if may(*each)] == []
