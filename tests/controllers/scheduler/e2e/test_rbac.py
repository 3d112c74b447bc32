# SPDX-License-Identifier: Apache-2.0
"""deploy/rbac/koord-scheduler.yaml grants what koord-scheduler does, and nothing else.

On a real kube-apiserver, which refuses what is not granted. The scene's requests are kept; without
any one verb the server refuses the request of the scene that needed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.kube.transport.messages import Request
from tests.controllers.scheduler.e2e import rbac_scene
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane
from tests.real.rbac.account import Account
from tests.real.rbac.contract import (
    check_is_needed,
    check_nothing_was_refused,
    check_parts,
    documents,
)
from tests.real.rbac.grants import Grant, asked, granted, without
from tests.real.rbac.recording import Recorder

MANIFEST = Path(__file__).parents[4] / "deploy" / "rbac" / "koord-scheduler.yaml"
DOCUMENTS = documents(MANIFEST)
GRANTS = granted(DOCUMENTS)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    need("etcd", "kube-apiserver")
    with RealControlPlane(tmp_path_factory.mktemp("rbac")) as made:
        yield made


@pytest.fixture(scope="module")
def scene(plane: RealControlPlane) -> Recorder:
    async def run() -> Recorder:
        account = Account(plane, MANIFEST)
        try:
            return await rbac_scene.play(account)
        finally:
            await account.close()

    return asyncio.run(run())


def test_the_manifest_has_the_parts_it_needs() -> None:
    check_parts(DOCUMENTS, "koord-scheduler")


def test_requests_are_read_as_the_authorizer_reads_them() -> None:
    for method, path, query, wanted in (
        ("GET", "/api/v1/pods", {"watch": "true"}, Grant("", "", "pods", "watch")),
        ("POST", "/api/v1/namespaces/d/pods/p/binding", {},
         Grant("d", "", "pods/binding", "create", "p")),
        ("PATCH", "/apis/a.b/v1/reservations/r/status", {},
         Grant("", "a.b", "reservations/status", "patch", "r")),
        ("GET", "/api/v1/namespaces/d/configmaps", {"fieldSelector": "metadata.name=c"},
         Grant("d", "", "configmaps", "list", "c")),
        ("DELETE", "/api/v1/namespaces/d", {}, Grant("", "", "namespaces", "delete", "d")),
    ):  # fmt: skip
        assert asked(Request(method, path, tuple(query.items()))) == wanted
    assert asked(Request("GET", "/apis/a.b/v1")) is None
    role = {"kind": "Role", "metadata": {"namespace": "d"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]}  # fmt: skip
    assert granted([without(role, Grant("d", "", "pods", "get"))]) == [
        Grant("d", "", "pods", "list")
    ]


@pytest.mark.real
def test_nothing_that_the_scheduler_does_is_refused(scene: Recorder) -> None:
    check_nothing_was_refused(GRANTS, scene)


@pytest.mark.real
@pytest.mark.parametrize("grant", GRANTS, ids=str)
def test_every_verb_is_needed(grant: Grant, plane: RealControlPlane, scene: Recorder) -> None:
    check_is_needed(grant, [MANIFEST], plane, scene)
