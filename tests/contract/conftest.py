# SPDX-License-Identifier: Apache-2.0
"""The servers that the contract tests run against: the embedded one and a real kube-apiserver.

Every test must pass on the real one: what Kubernetes does is the contract.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context

import pytest

from tests.contract.api import Api, at
from tests.contract.embedded import start_embedded
from tests.controlplane.fixtures import need
from tests.controlplane.plane import RealControlPlane

BOTH = ["embedded", pytest.param("real", marks=pytest.mark.real)]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Server:
    """One running API server.

    Attributes:
        name: ``embedded`` or ``real``.
        kubeconfig: of its administrator.
        stranger: presents no credentials.
    """

    name: str
    api: Api
    kubeconfig: Path
    stranger: Api


def _start(name: str, controllers: bool, folder: Path) -> Iterator[Server]:
    if name == "embedded":
        with start_embedded(folder, controllers=controllers) as embedded:
            api = Api(embedded.port, embedded.tls(), embedded.headers)
            stranger = Api(embedded.port, embedded.tls())
            yield Server(name, api, embedded.kubeconfig, stranger)
            api.close()
            stranger.close()
        return
    need("etcd", "kube-apiserver", *(["kube-controller-manager"] if controllers else []))
    with RealControlPlane(folder) as plane:
        if controllers:
            plane.start_controller_manager()
        api = Api(plane.port, plane.tls())
        stranger = Api(plane.port, create_default_context(cafile=plane.authority.certificate))
        yield Server(name, api, plane.kubeconfig, stranger)
        api.close()
        stranger.close()
        plane.check()


@pytest.fixture(scope="session", params=BOTH)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server on which no controller runs."""
    yield from _start(request.param, False, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="session", params=BOTH)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with the built-in controllers beside it."""
    yield from _start(request.param, True, tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def api(server: Server) -> Api:
    """Requests to the server."""
    return server.api


@pytest.fixture
def namespace(api: Api) -> str:
    """A namespace of the test's own."""
    return make_namespace(api)


def make_namespace(api: Api) -> str:
    """A fresh namespace's name."""
    metadata = {"name": f"contract-{next(_numbers)}"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    name: str = api.post(at("namespaces"), body).ok["metadata"]["name"]
    return name
