# SPDX-License-Identifier: Apache-2.0
"""``metrics.k8s.io``: what nodes and pods use, as their NodeMetric objects say.

The API is not stored: every answer is made from the NodeMetrics, nodes and pods there are, so that
``kubectl top`` shows what koord's agents (or simulated nodes) have measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.api.duration import Duration
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.patching.shapes import Shape
from koord.api.timestamps import seconds_text
from koord.controlplane import discovery
from koord.controlplane.api_errors import method_not_allowed, no_such_path, not_found
from koord.controlplane.requests import representations, routes, selectors, tables
from koord.controlplane.resource import Column, Resource, Strategy
from koord.controlplane.storage import conversion
from koord.kernels.quantity import Quantity
from koord.kube.errors import ApiError
from koord.kube.transport.messages import JSON, Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.api.kinds.meta import ObjectMeta, ResourceList
    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.kube.client import Client
    from koord.kube.transport.messages import Request

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
PREFIX = f"/apis/{GROUP}"
# NodeMetrics that name no window of their own.
_WINDOW_SECONDS = 300
_RESOURCES = ("cpu", "memory")


class _UsageStrategy(Strategy):
    """How usage is shown in a table."""

    columns = (
        Column("Name", format="name"),
        Column("cpu", format="quantity"),
        Column("memory", format="quantity"),
        Column("Window", format="duration"),
    )

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """Name, CPU, memory, window."""
        usage = document.get("usage") or _sum(document.get("containers", []))
        amounts = [usage.get(resource, "0") for resource in _RESOURCES]
        return [document["metadata"]["name"], *amounts, document["window"]]


class _NoSchema:
    """Nothing is ever written to this API."""

    shape = Shape("struct", open=True)

    def decode(self, body: bytes, field_validation: str) -> tuple[Document, list[str]]:
        raise method_not_allowed()

    def prune(self, document: Document) -> list[str]:
        return []

    def default(self, document: Document) -> None:
        return

    def validate(self, document: Document, old: Document | None = None) -> list[Any]:
        return []


def _resource(kind: str, plural: str, namespaced: bool) -> Resource:
    return Resource(
        GROUP, VERSION, kind, plural, namespaced, _NoSchema(), _UsageStrategy(),
        verbs=("get", "list"),
        # From the kind's name it would be what Koordinator calls its NodeMetrics.
        singular=plural.removesuffix("s"),
    )  # fmt: skip


NODES = _resource("NodeMetrics", "nodes", False)
PODS = _resource("PodMetrics", "pods", True)


@dataclass(frozen=True)
class _UsageSample:
    """One usage, and when it was measured.

    Attributes:
        containers: usage by container name; empty where only the whole is known.
    """

    usage: ResourceList
    timestamp: str
    window: str
    containers: Mapping[str, ResourceList]


class MetricsApi:
    """Serves the group; to be mounted at :data:`PREFIX`.

    Args:
        client: where NodeMetrics, nodes and pods are read.
        clock: ages in tables.

    Attributes:
        resources: what discovery lists.
    """

    resources: tuple[Resource, ...] = (NODES, PODS)

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def __call__(self, request: Request) -> Response:
        """Answers one request.

        Raises:
            ApiError: 404, 405, 406, or what reading the objects gave.
        """
        if request.method != "GET":
            raise method_not_allowed()
        path = request.path.rstrip("/")
        if path == PREFIX:
            return _answered(conversion.encode(discovery.group(self.resources, GROUP)))
        route = routes.parse(path)
        if (route.group, route.version) != (GROUP, VERSION) or route.subresource:
            raise no_such_path()
        if not route.plural:
            listed = discovery.resource_list(self.resources, GROUP, VERSION)
            return _answered(conversion.encode(listed))
        if route.plural == NODES.plural and not route.namespace:
            return await self._nodes(request, route.name)
        if route.plural == PODS.plural and (route.namespace or not route.name):
            return await self._pods(request, route.namespace, route.name)
        raise no_such_path()

    async def _nodes(self, request: Request, name: str) -> Response:
        measured = {m.metadata.name: _of_node(m) for m in await self._node_metrics()}
        found = [
            _document(NODES, node.metadata, measured[node.metadata.name])
            for node in await self._select(Node, request, "", name)
            if node.metadata.name in measured
        ]
        return self._answer(NODES, request, name, found)

    async def _pods(self, request: Request, namespace: str, name: str) -> Response:
        measured: dict[tuple[str, str], _UsageSample] = {}
        for metric in await self._node_metrics():
            measured.update(_of_pods(metric))
        found = []
        for pod in await self._select(Pod, request, namespace, name):
            usage = measured.get((pod.metadata.namespace, pod.metadata.name))
            if usage is not None and pod.status.phase == "Running":
                found.append(_pod_document(pod, usage))
        return self._answer(PODS, request, name, found)

    async def _node_metrics(self) -> list[NodeMetric]:
        try:
            return (await self._client.list(NodeMetric)).items
        except ApiError as error:
            if error.http_status != 404:
                raise
            # The definition is not installed: nothing is measured.
            return []

    async def _select(
        self, kind: type[Any], request: Request, namespace: str, name: str
    ) -> Sequence[Any]:
        if name:
            try:
                return [await self._client.get(kind, name, namespace)]
            except ApiError as error:
                if error.http_status != 404:
                    raise
                return []
        query = dict(request.query)
        text = query.get("labelSelector", "")
        selectors.labels(text)  # refused in this API's name, not in that of the objects
        listed = await self._client.list(
            kind,
            namespace=namespace,
            label_selector=text,
            field_selector=query.get("fieldSelector", ""),
        )
        return listed.items

    def _answer(
        self, resource: Resource, request: Request, name: str, documents: Sequence[Document]
    ) -> Response:
        asked, query = representations.form(request.accept), dict(request.query)
        now = self._clock.wall_seconds()
        bodies = [conversion.encode(document) for document in documents]
        if name and not documents:
            raise not_found(resource, name)
        if asked.shape == representations.TABLE:
            body = tables.table(resource, bodies, asked.version, query, now, {})
        elif name:
            body = bodies[0]
        else:
            body = conversion.encode({
                "kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": {},
                "items": list(documents),
            })  # fmt: skip
        return _answered(body)


def _of_node(metric: NodeMetric) -> _UsageSample:
    info = metric.status.node_metric
    usage = info.node_usage.resources if info and info.node_usage else {}
    return _UsageSample(usage, *_when(metric), {})


def _of_pods(metric: NodeMetric) -> dict[tuple[str, str], _UsageSample]:
    containers: dict[tuple[str, str], dict[str, ResourceList]] = {}
    for summary in metric.status.pod_metrics:
        if summary.pod_ref is not None:
            key = (summary.pod_ref.namespace, summary.pod_ref.name)
            containers[key] = {c.name: c.usage for c in summary.containers if c.usage}
    return {
        (pod.namespace, pod.name): _UsageSample(
            pod.pod_usage.resources if pod.pod_usage else {},
            *_when(metric),
            containers.get((pod.namespace, pod.name), {}),
        )
        for pod in metric.status.pods_metric
    }


def _when(metric: NodeMetric) -> tuple[str, str]:
    policy = metric.spec.metric_collect_policy
    seconds = (policy and policy.aggregate_duration_seconds) or _WINDOW_SECONDS
    updated = metric.status.update_time
    return seconds_text(updated or 0.0), str(Duration.of_seconds(seconds))


def _pod_document(pod: Pod, measured: _UsageSample) -> Document:
    document = _document(PODS, pod.metadata, measured)
    usage = document.pop("usage")
    names = [container.name for container in pod.spec.containers]
    if measured.containers:
        document["containers"] = [
            {"name": name, "usage": _amounts(amounts)}
            for name, amounts in measured.containers.items()
        ]
    else:
        # The pod's figure stands for all of its containers.
        document["containers"] = [{"name": names[0] if names else "", "usage": usage}]
    return document


def _document(resource: Resource, about: ObjectMeta, measured: _UsageSample) -> Document:
    metadata: Document = {"name": about.name, "creationTimestamp": measured.timestamp}
    if about.namespace:
        metadata["namespace"] = about.namespace
    if about.labels:
        metadata["labels"] = dict(about.labels)
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "timestamp": measured.timestamp,
        "window": measured.window,
        "usage": _amounts(measured.usage),
    }


def _amounts(usage: ResourceList) -> dict[str, str]:
    """CPU and memory, both always there: kubectl adds them up."""
    return {resource: str(usage.get(resource, Quantity())) for resource in _RESOURCES}


def _sum(containers: Sequence[Document]) -> dict[str, str]:
    return {
        resource: str(_total(container["usage"].get(resource, "0") for container in containers))
        for resource in _RESOURCES
    }


def _total(amounts: Iterable[str]) -> Quantity:
    total = Quantity()
    for amount in amounts:
        total = total + Quantity.parse(amount)
    return total


def _answered(body: bytes) -> Response:
    return Response(200, body, JSON)
