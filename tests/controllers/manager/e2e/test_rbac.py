# SPDX-License-Identifier: Apache-2.0
"""deploy/rbac/koord-manager.yaml grants what koord-manager does, and nothing else.

On a real kube-apiserver, which refuses what is not granted. The scene's requests are kept; without
any one verb the server refuses the request of the scene that needed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controllers.manager.e2e import rbac_scene
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane
from tests.real.rbac.account import Account
from tests.real.rbac.contract import (
    check_is_needed,
    check_nothing_was_refused,
    check_parts,
    documents,
)
from tests.real.rbac.grants import Grant, granted
from tests.real.rbac.recording import Recorder

MANIFEST = Path(__file__).parents[4] / "deploy" / "rbac" / "koord-manager.yaml"
# With the gate ColocationProfileController, as in the scene.
MANIFESTS = (MANIFEST, MANIFEST.with_name("koord-manager-colocationprofile.yaml"))
DOCUMENTS = documents(MANIFEST)
GRANTS = granted(documents(*MANIFESTS))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    need("etcd", "kube-apiserver")
    with RealControlPlane(tmp_path_factory.mktemp("rbac")) as made:
        yield made


@pytest.fixture(scope="module")
def scene(plane: RealControlPlane) -> Recorder:
    async def run() -> Recorder:
        account = Account(plane, *MANIFESTS)
        try:
            return await rbac_scene.play(account)
        finally:
            await account.close()

    return asyncio.run(run())


def test_the_manifest_has_the_parts_it_needs() -> None:
    check_parts(DOCUMENTS, "koord-manager")


def test_without_its_own_manifest_no_pod_is_changed() -> None:
    changes = {"create", "update", "patch", "delete", "deletecollection"}
    own = [each for each in granted(DOCUMENTS) if each.resource.startswith("pods")]
    assert not [str(each) for each in own if each.verb in changes]


@pytest.mark.real
def test_nothing_that_the_manager_does_is_refused(scene: Recorder) -> None:
    check_nothing_was_refused(GRANTS, scene)


@pytest.mark.real
@pytest.mark.parametrize("grant", GRANTS, ids=str)
def test_every_verb_is_needed(grant: Grant, plane: RealControlPlane, scene: Recorder) -> None:
    check_is_needed(grant, MANIFESTS, plane, scene)
