# SPDX-License-Identifier: Apache-2.0
"""The real control plane comes up, takes what tests do to it, and leaves nothing behind."""

from __future__ import annotations

import http.client
import json
import stat
import time
from typing import Any

import pytest
import yaml

from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

pytestmark = pytest.mark.real
WAIT_SECONDS = 60.0


def ask(plane: RealControlPlane, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", plane.port, context=plane.tls(), timeout=10
    )
    try:
        content = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, content)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else text
    finally:
        connection.close()


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_rbac_knows_the_administrator_alone(real_plane: RealControlPlane) -> None:
    assert stat.S_IMODE(real_plane.kubeconfig.stat().st_mode) == 0o600
    assert yaml.safe_load(real_plane.kubeconfig.read_text())["current-context"] == "real"
    assert ask(real_plane, "GET", "/api/v1/secrets")[0] == http.HTTPStatus.OK
    context = real_plane.tls()
    stranger = http.client.HTTPSConnection("127.0.0.1", real_plane.port, context=context)
    stranger.request("GET", "/api/v1/secrets", headers={"Impersonate-User": "somebody"})
    assert stranger.getresponse().status == http.HTTPStatus.FORBIDDEN
    stranger.close()


def test_what_was_written_outlives_a_kill_and_a_pause(own_plane: RealControlPlane) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    assert ask(own_plane, "POST", path, config_map("kept"))[0] == http.HTTPStatus.CREATED
    own_plane.kill()
    with pytest.raises(ConnectionRefusedError):
        ask(own_plane, "GET", path)
    own_plane.restart()
    assert ask(own_plane, "GET", f"{path}/kept")[1]["metadata"]["name"] == "kept"
    own_plane.pause()
    stopped = http.client.HTTPSConnection(
        "127.0.0.1", own_plane.port, context=own_plane.tls(), timeout=0.3
    )
    with pytest.raises(TimeoutError):
        stopped.request("GET", path)
    stopped.close()
    own_plane.resume()
    assert ask(own_plane, "GET", f"{path}/kept")[0] == http.HTTPStatus.OK
    own_plane.stop()
    assert not any(program.running for program in own_plane.programs.values())


def test_a_pod_is_made_scheduled_and_run(own_plane: RealControlPlane) -> None:
    """Every program does its part: Job controller, scheduler, simulated kubelet."""
    need("kube-controller-manager", "kube-scheduler", "kwok")
    own_plane.start_controller_manager()
    own_plane.start_scheduler()
    own_plane.start_kwok()
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1"},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
    assert ask(own_plane, "POST", "/api/v1/nodes", node)[0] == http.HTTPStatus.CREATED
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": template},
    }
    path = "/apis/batch/v1/namespaces/default/jobs"
    assert ask(own_plane, "POST", path, job)[0] == http.HTTPStatus.CREATED
    deadline = time.monotonic() + WAIT_SECONDS
    pods: list[dict[str, Any]] = []
    while not any(pod["status"].get("startTime") for pod in pods):
        own_plane.check()
        assert time.monotonic() < deadline, own_plane.logs()
        time.sleep(0.1)
        pods = ask(own_plane, "GET", "/api/v1/namespaces/default/pods")[1]["items"]
    assert pods[0]["spec"]["nodeName"] == "node-1"
