# SPDX-License-Identifier: Apache-2.0
"""Who may do what: roles and bindings, impersonation, tokens of service accounts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.api import Answer, Api, Document, at
from tests.contract.conftest import Server
from tests.contract.documents import config_map, document, pod

RBAC = "rbac.authorization.k8s.io"
WAIT_SECONDS = 30.0
_numbers = itertools.count(1)
Grant = Callable[..., None]


def rule(resources: str, verbs: str, groups: str = "", **more: Any) -> Document:
    return {
        "apiGroups": groups.split(","), "resources": resources.split(","),
        "verbs": verbs.split(","), **more,
    }  # fmt: skip


@pytest.fixture
def user() -> str:
    return f"rbac-user-{next(_numbers)}"


@pytest.fixture
def grant(api: Api, namespace: str, user: str) -> Iterator[Grant]:
    """Gives the test's user rights: in its namespace, or everywhere."""
    made: list[str] = []

    def make(*rules: Document, everywhere: bool = False, subject: Any = None) -> None:
        name = f"contract-rbac-{next(_numbers)}"
        scope = "" if everywhere else namespace
        kind = "ClusterRole" if everywhere else "Role"
        prefix = "cluster" if everywhere else ""
        body = document(f"{RBAC}/v1", kind, name, rules=list(rules))
        path = at(f"{RBAC}/v1/{prefix}roles", scope)
        api.post(path, body).ok["metadata"]
        made.append(f"{path}/{name}")
        who = subject or {"kind": "User", "name": user, "apiGroup": RBAC}
        reference = {"apiGroup": RBAC, "kind": kind, "name": name}
        binding = f"{'Cluster' if everywhere else ''}RoleBinding"
        body = document(f"{RBAC}/v1", binding, name, roleRef=reference, subjects=[who])
        path = at(f"{RBAC}/v1/{prefix}rolebindings", scope)
        api.post(path, body).ok["metadata"]
        made.append(f"{path}/{name}")

    yield make
    for path in reversed(made):
        api.delete(path)


def eventually(ask: Callable[[], Answer], *codes: int) -> Answer:
    """The answer once it has a code: a real server's authorizer follows roles by a watch."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (answer := ask()).code not in codes:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.02)
    return answer


def acting(api: Api, user: str) -> Callable[..., Answer]:
    """Requests as somebody else."""

    def call(method: str, path: str, body: object = None, **options: Any) -> Answer:
        headers = {"Impersonate-User": user, **options.pop("headers", {})}
        return api.call(method, path, body, headers=headers, **options)

    return call


def test_nobody_may_what_no_role_says(api: Api, namespace: str, user: str) -> None:
    ask = acting(api, user)
    path = at("configmaps", namespace)
    told = f'User "{user}" cannot {{}} resource "configmaps" in API group ""'
    where = f'in the namespace "{namespace}"'
    assert ask("GET", path).refusal == (
        403, "Forbidden", f"configmaps is forbidden: {told.format('list')} {where}",
    )  # fmt: skip
    answer = ask("GET", f"{path}/a")
    assert answer.refusal[2] == f'configmaps "a" is forbidden: {told.format("get")} {where}'
    details = answer.document["details"]
    assert details == {"name": "a", "kind": "configmaps"}
    answer = ask("GET", at("configmaps"))
    told = f"configmaps is forbidden: {told.format('list')} at the cluster scope"
    assert answer.refusal[2] == told
    answer = ask("GET", "/metrics")
    assert answer.refusal[2] == f'forbidden: User "{user}" cannot get path "/metrics"'
    answer = ask("PATCH", at("deployments", namespace, "d", "scale"), {})
    assert 'cannot patch resource "deployments/scale" in API group "apps"' in answer.refusal[2]


@pytest.mark.parametrize("path", ["/version", "/api", "/apis", "/api/v1", "/apis/apps/v1"])
def test_everybody_may_look_what_there_is(api: Api, user: str, path: str) -> None:
    assert acting(api, user)("GET", path).code == 200


def test_a_role_in_a_namespace(api: Api, namespace: str, user: str, grant: Grant) -> None:
    grant(rule("configmaps", "get,list,create"), rule("secrets", "get", resourceNames=["one"]))
    ask, path = acting(api, user), at("configmaps", namespace)
    eventually(lambda: ask("GET", path), 200)
    assert ask("POST", path, config_map("a")).code == 201
    assert ask("DELETE", f"{path}/a").code == 403
    assert ask("GET", at("configmaps")).code == 403
    assert ask("GET", at("configmaps", "default")).code == 403
    secrets = at("secrets", namespace)
    assert [ask("GET", f"{secrets}/{name}").code for name in ("one", "two")] == [404, 403]
    assert ask("GET", secrets).code == 403


def test_stars_and_subresources(api: Api, namespace: str, user: str, grant: Grant) -> None:
    grant(rule("pods/*,*/status", "get"), rule("*", "list", "apps"))
    ask = acting(api, user)
    eventually(lambda: ask("GET", at("deployments", namespace)), 200)
    assert ask("GET", at("pods", namespace, "p")).code == 403
    assert ask("GET", at("pods", namespace, "p", "status")).code == 404
    assert ask("GET", at("nodes", name="n", subresource="status")).code == 403
    assert ask("GET", at("pods", namespace)).code == 403


def test_a_cluster_role_everywhere_and_paths(api: Api, user: str, grant: Grant) -> None:
    grant(
        rule("nodes", "list"), {"nonResourceURLs": ["/metrics", "/deb/*"], "verbs": ["get"]},
        everywhere=True,
    )  # fmt: skip
    ask = acting(api, user)
    eventually(lambda: ask("GET", at("nodes")), 200)
    assert ask("GET", "/metrics").code == 200
    assert ask("GET", "/deb/x").code == 404
    assert ask("GET", "/debug").code == 403
    assert ask("DELETE", at("nodes")).code == 403


def test_reviews_say_why(api: Api, namespace: str, user: str, grant: Grant) -> None:
    grant(rule("pods", "list"))
    ask = acting(api, user)
    eventually(lambda: ask("GET", at("pods", namespace)), 200)
    asked = {"verb": "list", "resource": "pods", "namespace": namespace}
    body = document(
        "authorization.k8s.io/v1", "SelfSubjectAccessReview", "", spec={"resourceAttributes": asked}
    )
    status = ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).ok[
        "status"
    ]
    assert status["allowed"]
    assert status["reason"].startswith('RBAC: allowed by RoleBinding "contract-rbac-')
    assert status["reason"].endswith(f'to User "{user}"')
    body["spec"]["resourceAttributes"]["verb"] = "delete"
    status = ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).ok[
        "status"
    ]
    assert status == {"allowed": False}
    body = document("authentication.k8s.io/v1", "SelfSubjectReview", "")
    status = ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body).ok["status"]
    assert status["userInfo"]["username"] == user
    assert status["userInfo"]["groups"] == ["system:authenticated"]


def test_who_may_act_as_whom(api: Api, namespace: str, user: str, grant: Grant) -> None:
    ask, path = acting(api, user), at("configmaps", namespace)
    group = f"group-{user}"
    grant(rule("configmaps", "list"), subject={"kind": "Group", "name": group, "apiGroup": RBAC})
    eventually(lambda: ask("GET", path, headers={"Impersonate-Group": group}), 200)
    assert ask("GET", path).code == 403
    answer = api.get(path, headers={"Impersonate-Group": group})
    assert answer.code == 500 or answer.code == 400
    assert "without impersonating a user" in answer.text


def test_nobody_grants_more_than_they_have(
    api: Api, namespace: str, user: str, grant: Grant
) -> None:
    grant(
        rule("configmaps", "get,list"), rule("roles,rolebindings", "create,update,get", RBAC),
        rule("pods", "*"),
    )  # fmt: skip
    ask, roles = acting(api, user), at(f"{RBAC}/v1/roles", namespace)

    def make(name: str, *rules: Document) -> Answer:
        return ask("POST", roles, document(f"{RBAC}/v1", "Role", name, rules=list(rules)))

    eventually(lambda: make("mine", rule("configmaps", "get")), 201)
    for more in (rule("secrets", "get"), rule("configmaps", "get,delete"), rule("*", "get"),
                 rule("configmaps", "*"), rule("configmaps", "get", "apps")):  # fmt: skip
        answer = make("more", more)
        assert answer.code == 403, more
        assert "is attempting to grant RBAC permissions not currently held" in answer.text
    assert make("pods", rule("pods", "delete,anything")).code == 201
    bindings = at(f"{RBAC}/v1/rolebindings", namespace)

    def bind(kind: str, role: str) -> int:
        reference = {"apiGroup": RBAC, "kind": kind, "name": role}
        who = {"kind": "User", "name": "other", "apiGroup": RBAC}
        name = f"bind-{role}"
        body = document(f"{RBAC}/v1", "RoleBinding", name, roleRef=reference, subjects=[who])
        return ask("POST", bindings, body).code

    assert eventually(lambda: ask("GET", f"{roles}/mine"), 200)
    assert bind("Role", "mine") == 201
    assert bind("ClusterRole", "cluster-admin") == 403


def test_tokens_of_service_accounts(server: Server, api: Api, namespace: str, grant: Grant) -> None:
    accounts = at("serviceaccounts", namespace)
    uid = api.post(accounts, document("v1", "ServiceAccount", "bot")).ok["metadata"]["uid"]
    node = f"rbac-node-{next(_numbers)}"
    api.post(at("nodes"), document("v1", "Node", node)).ok["metadata"]
    body = pod("holder", serviceAccountName="bot", nodeName=node)
    holder = api.post(at("pods", namespace), body).ok["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "holder", "uid": holder}
    body = document("authentication.k8s.io/v1", "TokenRequest", "", spec={"boundObjectRef": bound})
    token = api.post(f"{accounts}/bot/token", body).ok["status"]["token"]
    as_bot = {"Authorization": f"Bearer {token}"}

    def ask(method: str, path: str, body: object = None) -> Answer:
        return server.stranger.call(method, path, body, headers=as_bot)

    assert ask("GET", at("configmaps", namespace)).code == 403
    grant(
        rule("configmaps", "list"),
        subject={"kind": "ServiceAccount", "name": "bot", "namespace": namespace},
    )
    eventually(lambda: ask("GET", at("configmaps", namespace)), 200)
    review = document("authentication.k8s.io/v1", "SelfSubjectReview", "")
    info = ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review).ok
    who = info["status"]["userInfo"]
    assert (who["username"], who["uid"]) == (f"system:serviceaccount:{namespace}:bot", uid)
    assert sorted(who["groups"]) == [
        "system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}",
    ]  # fmt: skip
    extra = {key.rpartition("/")[2]: values for key, values in who["extra"].items()}
    assert (extra["pod-name"], extra["pod-uid"]) == (["holder"], [holder])
    assert extra["node-name"] == [node]
    spec = {"token": token}
    body = document("authentication.k8s.io/v1", "TokenReview", "", spec=spec)
    status = api.post("/apis/authentication.k8s.io/v1/tokenreviews", body).ok["status"]
    assert status["authenticated"]
    assert status["user"]["username"] == who["username"]
    altered = {"Authorization": f"Bearer {token[:-3]}abc"}
    assert server.stranger.get(at("configmaps", namespace), headers=altered).code == 401
    # A token ends with the pod that it was made for.
    api.delete(at("pods", namespace, "holder"), gracePeriodSeconds=0)
    eventually(lambda: ask("GET", at("configmaps", namespace)), 401)
    api.delete(at("nodes", name=node))
