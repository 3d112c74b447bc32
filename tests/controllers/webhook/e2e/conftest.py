# SPDX-License-Identifier: Apache-2.0
"""API servers that call admission: embedded and real."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from koord.controlplane.embedded import EmbeddedControlPlane
from koord.kube.client import Client
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.controllers.webhook.e2e.scene import AdmissionScene, Play, Script
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane


async def _embedded(script: Script) -> None:
    async with EmbeddedControlPlane() as plane:
        await script(AdmissionScene(Client(plane.transport(), requests_per_second=None)))


async def _real(script: Script, plane: RealControlPlane) -> None:
    transport = HttpTransport(load_cluster_config(plane.kubeconfig))
    scene = AdmissionScene(Client(transport, requests_per_second=None))
    try:
        await script(scene)
    finally:
        await scene.clear()
        await transport.close()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    """One for all scripts of a file; each finds it without what another made."""
    need("etcd", "kube-apiserver")
    with RealControlPlane(tmp_path_factory.mktemp("admission")) as made:
        yield made
        made.check()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a script against an API server that nobody else uses meanwhile."""
    if request.param == "embedded":
        return lambda script: asyncio.run(_embedded(script))
    plane: RealControlPlane = request.getfixturevalue("plane")
    return lambda script: asyncio.run(_real(script, plane))
