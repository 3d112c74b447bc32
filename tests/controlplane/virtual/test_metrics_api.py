# SPDX-License-Identifier: Apache-2.0
"""``metrics.k8s.io`` says what NodeMetrics say, in the forms kubectl asks for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

import pytest
import yaml

from koord.api.kinds.registry import Kind, kind_of
from koord.controlplane.controllers.base.objects import POD
from koord.controlplane.controllers.gc.collector import CRD
from koord.controlplane.virtual.metrics_api import PREFIX, MetricsApi
from koord.kube.errors import ApiError
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request
from tests.controlplane.scene import Scene, play

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
VERSION = f"{PREFIX}/v1beta1"


def metric_kind() -> Kind:
    found = kind_of("slo.koordinator.sh/v1alpha1", "NodeMetric")
    assert found is not None
    return found


def metric(node: str, cpu: str, pods: dict[str, str]) -> dict[str, Any]:
    usage = [
        {"name": name, "namespace": "default", "podUsage": {"resources": {"cpu": cpu_used,
                                                                          "memory": "64Mi"}}}
        for name, cpu_used in pods.items()
    ]  # fmt: skip
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": node},
        "spec": {"metricCollectPolicy": {"aggregateDurationSeconds": 60}},
        "status": {
            "updateTime": "2030-01-02T05:04:05+02:00",
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "2Gi"}}},
            "podsMetric": usage,
        },
    }


async def prepared(scene: Scene, installed: bool = True) -> MetricsApi:
    """Two nodes, n0 measured; pods a and b on it, b not running, c measured but gone."""
    api = MetricsApi(scene.client, scene.clock)
    await scene.add_nodes(2)
    scene.silent |= {"n0", "n1"}  # Nobody starts b meanwhile.
    if not installed:
        return api
    for name, phase in (("a", "Running"), ("b", "Pending")):
        containers = [{"name": "main", "image": "i"}, {"name": "side", "image": "i"}]
        await scene.client.create(
            {"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase},
             "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
             "spec": {"nodeName": "n0", "containers": containers}}
        )  # fmt: skip
        status = {"status": {"phase": phase}}
        await scene.client.patch(POD, name, Patch.merge(status), "default", "status")
    folder = resources.files("koord.api") / "crds"
    text = next(entry.read_text() for entry in folder.iterdir() if "nodemetrics" in entry.name)
    await scene.client.create(yaml.safe_load(text), kind=CRD)
    document = metric("n0", "1500m", {"a": "250m", "b": "1", "c": "1"})
    kind = metric_kind()
    await scene.client.create(document, kind=kind)
    stored = await scene.client.get(kind, "n0")
    stored["status"] = document["status"]
    await scene.client.update_status(stored, kind=kind)
    return api


def told(story: Callable[[Scene], Awaitable[None]]) -> None:
    play(story, which=())


async def ask(api: MetricsApi, path: str, accept: str = "", **query: str) -> dict[str, Any]:
    request = Request("GET", path, tuple(query.items()), accept=accept or "application/json")
    answer: dict[str, Any] = json.loads((await api(request)).body)
    return answer


def test_nodes_and_pods_show_what_was_measured() -> None:
    async def story(scene: Scene) -> None:
        api = await prepared(scene)
        nodes = await ask(api, f"{VERSION}/nodes")
        assert nodes["kind"] == "NodeMetricsList"
        (only,) = nodes["items"]
        assert only["metadata"]["name"] == "n0"
        assert only["usage"] == {"cpu": "1500m", "memory": "2Gi"}
        assert (only["timestamp"], only["window"]) == ("2030-01-02T03:04:05Z", "1m0s")
        pods = await ask(api, f"{VERSION}/namespaces/default/pods")
        (pod,) = pods["items"]
        assert pod["metadata"]["labels"] == {"app": "a"}
        usage = {"cpu": "250m", "memory": "64Mi"}
        assert pod["containers"] == [{"name": "main", "usage": usage}]
        assert "usage" not in pod
        assert await ask(api, f"{VERSION}/namespaces/default/pods/a") == pod
        everywhere = await ask(api, f"{VERSION}/pods", labelSelector="app=b")
        assert everywhere["items"] == []

    told(story)


def test_what_is_not_measured_is_not_found() -> None:
    async def story(scene: Scene) -> None:
        api = await prepared(scene)
        for path in ("nodes/n1", "nodes/none", "namespaces/default/pods/b"):
            with pytest.raises(ApiError) as refused:
                await ask(api, f"{VERSION}/{path}")
            assert (refused.value.http_status, refused.value.reason) == (404, "NotFound")
        with pytest.raises(ApiError) as refused:
            await api(Request("POST", f"{VERSION}/nodes"))
        assert refused.value.http_status == 405

    told(story)


def test_tables_and_discovery_are_as_kubectl_wants_them() -> None:
    async def story(scene: Scene) -> None:
        api = await prepared(scene)
        table = await ask(api, f"{VERSION}/nodes", TABLE)
        assert [c["name"] for c in table["columnDefinitions"]] == [
            "Name", "cpu", "memory", "Window"
        ]  # fmt: skip
        assert table["rows"][0]["cells"] == ["n0", "1500m", "2Gi", "1m0s"]
        listed = await ask(api, VERSION)
        named = {entry["name"]: entry["kind"] for entry in listed["resources"]}
        assert named == {"nodes": "NodeMetrics", "pods": "PodMetrics"}
        group = await ask(api, PREFIX)
        assert group["preferredVersion"]["groupVersion"] == "metrics.k8s.io/v1beta1"

    told(story)


def test_without_the_definition_nothing_is_measured() -> None:
    async def story(scene: Scene) -> None:
        api = await prepared(scene, installed=False)
        assert (await ask(api, f"{VERSION}/nodes"))["items"] == []

    told(story)
