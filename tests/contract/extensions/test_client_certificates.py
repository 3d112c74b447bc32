# SPDX-License-Identifier: Apache-2.0
"""Users by client certificate: who one is, and what one may."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.contract.api import Api, at
from tests.contract.conftest import Server
from tests.contract.documents import config_map, document
from tests.contract.extensions.test_rbac import RBAC, eventually, rule

REVIEW = document("authentication.k8s.io/v1", "SelfSubjectReview", "")
_numbers = itertools.count(1)


@contextmanager
def user(server: Server, name: str, organization: str = "", token: str = "") -> Iterator[Api]:
    """Requests of who has a certificate."""
    certificate, key = server.clients.issue(name, organization)
    tls = ssl.create_default_context(cadata=server.authority)
    tls.load_cert_chain(certificate, key)
    api = Api(server.port, tls, {"Authorization": f"Bearer {token}"} if token else {})
    try:
        yield api
    finally:
        api.close()


def who(api: Api) -> tuple[str, set[str]]:
    info = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", REVIEW).ok["status"]
    return info["userInfo"]["username"], set(info["userInfo"]["groups"])


def test_the_common_name_is_the_user_and_organisations_are_groups(server: Server) -> None:
    with user(server, "jane", "developers") as api:
        assert who(api) == ("jane", {"developers", "system:authenticated"})
    with user(server, "jane") as api:
        assert who(api) == ("jane", {"system:authenticated"})


def test_a_certificate_counts_before_a_token(server: Server) -> None:
    with user(server, "jane", token="nobody's") as api:
        assert who(api)[0] == "jane"


def test_masters_may_do_everything(server: Server, namespace: str) -> None:
    with user(server, "root", "system:masters") as api:
        api.post(at("configmaps", namespace), config_map("by-root")).ok["metadata"]


@pytest.mark.parametrize("by_group", [False, True])
def test_roles_say_what_they_may(server: Server, namespace: str, by_group: bool) -> None:
    number = next(_numbers)
    name, group = f"certified-{number}", f"certified-group-{number}"
    maps = at("configmaps", namespace)
    with user(server, name, group) as api:
        code, reason, message = api.get(maps).refusal
        assert (code, reason) == (403, "Forbidden")
        assert message == (
            f'configmaps is forbidden: User "{name}" cannot list resource "configmaps" in API '
            f'group "" in the namespace "{namespace}"'
        )
        subject = {"kind": "Group" if by_group else "User", "apiGroup": RBAC}
        subject["name"] = group if by_group else name
        body = document(f"{RBAC}/v1", "Role", name, rules=[rule("configmaps", "list")])
        server.api.post(at("roles", namespace), body).ok["metadata"]
        reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
        bound = document(f"{RBAC}/v1", "RoleBinding", name, roleRef=reference, subjects=[subject])
        server.api.post(at("rolebindings", namespace), bound).ok["metadata"]
        eventually(lambda: api.get(maps), 200)
        assert api.post(maps, config_map("beyond")).code == 403
