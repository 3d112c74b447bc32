# SPDX-License-Identifier: Apache-2.0
"""The servers that the contract tests run against: the embedded one and a real kube-apiserver.

Every test must pass on the real one: what Kubernetes does is the contract.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context

import pytest

from tests.contract.api import Api, at
from tests.contract.embedded import start_embedded
from tests.real.certificates import Authority
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

BOTH = ["embedded", pytest.param("real", marks=pytest.mark.real)]
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is marked ``differs`` is known to fail on the embedded server, and must still do so."""
    for item in items:
        marker = item.get_closest_marker("differs")
        if marker is None or not isinstance(item, pytest.Function):
            continue
        if "embedded" in item.callspec.params.values():
            item.add_marker(pytest.mark.xfail(reason=marker.args[0], strict=True))


@dataclass(frozen=True)
class Server:
    """One running API server.

    Attributes:
        name: ``embedded`` or ``real``.
        kubeconfig: of its administrator.
        stranger: presents no credentials.
        forget: lets no list go back to what was before the server.
        port: on loopback.
        authority: PEM, who has signed the server's certificate.
        clients: signs certificates of clients.
    """

    name: str
    api: Api
    kubeconfig: Path
    stranger: Api
    forget: Callable[[], None]
    port: int
    authority: str
    clients: Authority


@contextmanager
def running_server(name: str, controllers: bool, folder: Path) -> Iterator[Server]:
    """Starts a server, ends it on leaving."""
    if name == "embedded":
        with start_embedded(folder, controllers=controllers) as embedded:
            api = Api(embedded.port, embedded.tls(), embedded.headers)
            stranger = Api(embedded.port, embedded.tls())
            clients = Authority.load(folder, "client-ca")
            yield Server(
                name,
                api,
                embedded.kubeconfig,
                stranger,
                lambda: None,
                embedded.port,
                embedded.authority,
                clients,
            )
            api.close()
            stranger.close()
        return
    need("etcd", "kube-apiserver", *(["kube-controller-manager"] if controllers else []))
    with RealControlPlane(folder) as plane:
        if controllers:
            plane.start_controller_manager()
        api = Api(plane.port, plane.tls())
        stranger = Api(plane.port, create_default_context(cafile=plane.authority.certificate))
        yield Server(
            name,
            api,
            plane.kubeconfig,
            stranger,
            plane.forget_past,
            plane.port,
            plane.authority.certificate.read_text(),
            plane.authority,
        )
        api.close()
        stranger.close()
        plane.check()


@pytest.fixture(scope="session", params=BOTH)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server on which no controller runs."""
    with running_server(request.param, False, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session", params=BOTH)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with the built-in controllers beside it."""
    with running_server(request.param, True, tmp_path_factory.mktemp("cluster")) as running:
        yield running


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
