# SPDX-License-Identifier: Apache-2.0
"""deploy/rbac/koordlet.yaml grants what koordlet does, and nothing else: on a kube-apiserver."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from koord.kube.transport.messages import Request
from tests.agent.e2e import rbac_scene
from tests.agent.e2e.rbac_scene import BY_KUBELET
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane
from tests.real.rbac.account import Account
from tests.real.rbac.contract import check_is_needed, check_nothing_was_refused, documents
from tests.real.rbac.grants import Grant, granted, without
from tests.real.rbac.recording import Recorder

MANIFEST = Path(__file__).parents[3] / "deploy" / "rbac" / "koordlet.yaml"
# With --only-evict-by-api, as in the scene.
MANIFESTS = (MANIFEST, MANIFEST.with_name("koordlet-evictions.yaml"))
GRANTS = granted(documents(*MANIFESTS))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    need("etcd", "kube-apiserver")
    with RealControlPlane(tmp_path_factory.mktemp("rbac")) as made:
        yield made


@pytest.fixture(scope="module")
def scene(plane: RealControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    async def run() -> Recorder:
        account = Account(plane, *MANIFESTS)
        try:
            return await rbac_scene.play(account, tmp_path_factory.mktemp("scene"))
        finally:
            await account.close()

    return asyncio.run(run())


@pytest.mark.real
def test_nothing_that_the_agent_does_is_refused(scene: Recorder) -> None:
    check_nothing_was_refused(GRANTS, scene)


@pytest.mark.real
@pytest.mark.parametrize("grant", [each for each in GRANTS if each not in BY_KUBELET], ids=str)
def test_every_verb_is_needed(grant: Grant, plane: RealControlPlane, scene: Recorder) -> None:
    check_is_needed(grant, MANIFESTS, plane, scene)


def test_it_runs_no_commands_and_evicts_nobody_unless_that_is_chosen() -> None:
    own = {(each.resource, each.verb) for each in granted(documents(MANIFEST))}
    assert ("nodes/proxy", "get") not in own
    assert ("pods/eviction", "create") not in own
    choice = MANIFEST.with_name("koordlet-nodes-proxy.yaml")
    assert [str(each) for each in granted(documents(choice))] == ["get nodes/proxy"]
    assert "a stolen token of koordlet runs\n# commands in every pod" in choice.read_text("utf-8")


@pytest.mark.real
@pytest.mark.parametrize("grant", BY_KUBELET, ids=str)
def test_the_kubelet_lets_the_agent_in_for_as_long_as_it_may(
    grant: Grant, plane: RealControlPlane
) -> None:
    """The kubelet's own question to the API server: may this account read my pods?"""

    async def may(account: Account) -> bool:
        user = "system:serviceaccount:koordinator-system:koordlet"
        attributes = {
            "verb": "get",
            "resource": "nodes",
            "subresource": grant.resource.partition("/")[2],
            "name": "n1",
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        answer = await account.admin.send(Request("POST", path, body=msgspec.json.encode(body)))
        allowed: bool = msgspec.json.decode(answer.body)["status"]["allowed"]
        return allowed

    async def run() -> tuple[bool, bool]:
        account = Account(plane, MANIFEST)
        try:
            await account.apply()
            with_it = await _becomes(lambda: may(account), True)
            role = next(each for each in account.documents if each["kind"] == "ClusterRole")
            await account._put(without(role, grant))
            without_it = await _becomes(lambda: may(account), False)
            await account._put(role)
            return with_it, without_it
        finally:
            await account.close()

    assert asyncio.run(run()) == (True, False)


async def _becomes(look, wanted: bool) -> bool:  # type: ignore[no-untyped-def]
    """The authorizer hears of roles a moment later."""
    for _ in range(200):
        found: bool = await look()
        if found == wanted:
            return found
        await asyncio.sleep(0.05)
    return not wanted
