# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler, kube-controller-manager and kwok do their work on the embedded server.

Its own controllers are off. All three send protobuf.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.documents import deployment, node
from tests.contract.embedded import start_embedded
from tests.real.binaries import find
from tests.real.certificates import new_key
from tests.real.fixtures import need
from tests.real.plane import Program

pytestmark = pytest.mark.real

NODES, PODS = 3, 10
WAIT_SECONDS, POLL_SECONDS = 90.0, 0.2


@pytest.fixture(scope="module")
def components(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The embedded server with the real components at work on it."""
    need("kube-scheduler", "kube-controller-manager", "kwok")
    folder = tmp_path_factory.mktemp("components")
    with start_embedded(folder, controllers=False) as embedded:
        api = Api(embedded.port, embedded.tls(), embedded.headers)
        programs = _programs(folder, f"--kubeconfig={embedded.kubeconfig}")
        try:
            for program in programs:
                program.start()
            yield api
            ended = [program.last_lines() for program in programs if not program.running]
            assert not ended, "\n".join(ended)
        finally:
            for program in reversed(programs):
                program.stop()
            api.close()


def _programs(folder: Path, kubeconfig: str) -> list[Program]:
    key = folder / "service-accounts.key"
    new_key(key)
    common = [kubeconfig, "--leader-elect=true", "--secure-port=0"]
    return [
        Program("kube-scheduler", common, folder),
        Program(
            "kube-controller-manager",
            [*common, f"--service-account-private-key-file={key}"],
            folder,
        ),
        Program(
            "kwok",
            [kubeconfig, f"--config={find('kwok-stages.yaml')}", "--manage-all-nodes=true"],
            folder,
        ),
    ]


def eventually(read: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    """What is read once it is good; fails with the last when it does not become so."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not good(found := read()):
        assert time.monotonic() < deadline, found
        time.sleep(POLL_SECONDS)
    return found


def test_a_deployment_is_scheduled_rolled_out_and_removed(components: Api) -> None:
    api = components
    for number in range(NODES):
        api.post(at("nodes"), node(f"node-{number}", labels={"type": "kwok"})).ok["metadata"]
    # kwok and the node controller take them one by one; spreading needs all of them.
    eventually(lambda: api.get(at("nodes")).ok["items"], lambda nodes: all(map(_usable, nodes)))
    path, pods = at("deployments", "default", "web"), at("pods", "default")
    api.post(at("deployments", "default"), deployment("web", replicas=PODS)).ok["metadata"]
    _rolled_out(api, path)
    found = api.get(pods).ok["items"]
    assert {pod["spec"]["nodeName"] for pod in found} == {f"node-{n}" for n in range(NODES)}
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "new:2"}]
    api.patch(path, image, "application/json-patch+json").ok["metadata"]
    _rolled_out(api, path)
    eventually(lambda: _images(api, pods), lambda images: images == ["new:2"] * PODS)
    events = api.get(at("events.k8s.io/v1/events", "default")).ok["items"]
    assert {"Scheduled", "SuccessfulCreate"} <= {event["reason"] for event in events}
    leases = {
        lease["metadata"]["name"] for lease in api.get(at("leases", "kube-system")).ok["items"]
    }
    assert {"kube-scheduler", "kube-controller-manager"} <= leases
    api.delete(path, {"propagationPolicy": "Foreground"}).ok["metadata"]
    eventually(lambda: api.get(pods).ok["items"], lambda items: not items)
    eventually(lambda: api.get(path).code, lambda code: code == 404)


def _usable(node: Document) -> bool:
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def _images(api: Api, pods: str) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in api.get(pods).ok["items"]]


def _rolled_out(api: Api, path: str) -> None:
    def done(deployed: Document) -> bool:
        status, generation = deployed["status"], deployed["metadata"]["generation"]
        counts = [status.get(f"{kind}Replicas") for kind in ("updated", "ready", "available")]
        return status.get("observedGeneration") == generation and counts == [PODS] * 3

    eventually(lambda: api.get(path).ok, done)
