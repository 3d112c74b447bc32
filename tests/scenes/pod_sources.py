# SPDX-License-Identifier: Apache-2.0
"""Who tells koordlet of pods: the kubelet, or the API server, where a tenant makes them itself."""

from __future__ import annotations

import http
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tests.contract.api import Api, Document, at
from tests.hostile.node_mistakes import mistakes
from tests.scenes.real_apiserver import RealApiServer
from tests.scenes.runtime import Pod
from tests.scenes.world import NODE, World

TENANT = "mallory"
_OWNER = "default"
_THREADS = 3
# What a kubelet writes of a tenant's pods; more of them than it admits have no status at all.
_STATUSES = 250
_NAME = re.compile("[a-z0-9-]+")
_GONE_AT_ONCE = {"gracePeriodSeconds": 0}
_OBJECTS = {
    "NodeSLO": "slo.koordinator.sh/v1alpha1/nodeslos",
    "NodeMetric": "slo.koordinator.sh/v1alpha1/nodemetrics",
    "NodeResourceTopology": "topology.node.k8s.io/v1alpha1/noderesourcetopologies",
    "Device": "scheduling.koordinator.sh/v1alpha1/devices",
}


class KubeletPods:
    """The kubelet tells of all pods, whatever anybody thinks of them."""

    flags: tuple[str, ...] = ()
    asked: tuple[str, ...] = ("/configz", "/pods/")

    def __init__(self, world: World) -> None:
        self._world = world
        self._told: list[Document] = []
        world.others = lambda: self._told

    def start(self, pod: Pod) -> Pod:
        """A pod with processes and cgroups."""
        return self._world.runtime.start(pod)

    def stop(self, pod: Pod) -> None:
        """It ends."""
        self._world.runtime.stop(pod)

    def tell(self, documents: list[Document]) -> None:
        """The tenant's pods are these from now on."""
        self._told = documents

    def refusals(self) -> dict[str, int]:
        """What a tenant may not write, with what it was told."""
        return {}

    def mistakes(self, check: Callable[[], object]) -> None:
        """What those write who may, one after the other, with a look after each."""


class ServerPods:
    """A real API server tells of them, and a tenant has an account and a namespace there.

    A good pod is made by the administrator, with the status that its kubelet would write.
    """

    flags: tuple[str, ...] = ("--pods-from", "apiserver")
    asked: tuple[str, ...] = ("/configz",)

    def __init__(self, world: World) -> None:
        self._world = world
        assert isinstance(world.api, RealApiServer)
        self._server = world.api
        self._server.set_up_tenant(TENANT)
        # Good pods and the tenant's come from threads of their own.
        self._admin, self._kubelet = self._server.connect(), self._server.connect()

    def start(self, pod: Pod) -> Pod:
        """A pod with processes and cgroups, under the UID that the server gave it."""
        document = pod.document(NODE)
        del document["metadata"]["uid"]
        made = self._admin.post(at("pods", _OWNER), document).ok
        started = self._world.runtime.start(replace(pod, uid=made["metadata"]["uid"]))
        status = {"status": started.document(NODE)["status"]}
        assert self._admin.patch(at("pods", _OWNER, pod.name, "status"), status).ok
        return started

    def stop(self, pod: Pod) -> None:
        """It ends, and the kubelet has it deleted."""
        self._world.runtime.stop(pod)
        assert self._admin.delete(at("pods", _OWNER, pod.name), _GONE_AT_ONCE).ok

    def tell(self, documents: list[Document]) -> None:
        """The tenant's pods are these from now on, as far as the server takes them."""
        apis = [self._server.connect(TENANT) for _ in range(_THREADS)]
        # Whatever else the server refuses: what has such a name is no path either.
        documents = [each for each in documents if _NAME.fullmatch(each["metadata"]["name"])]
        try:
            assert apis[0].delete(at("pods", TENANT), _GONE_AT_ONCE).ok
            with ThreadPoolExecutor(_THREADS) as threads:
                parts = [documents[n::_THREADS] for n in range(_THREADS)]
                list(threads.map(_make, apis, parts))
            self._write_statuses(documents)
            _rewrite(apis[0], documents)
        finally:
            for api in apis:
                api.close()

    def refusals(self) -> dict[str, int]:
        """What a tenant may not write, with what it was told."""
        api = self._server.connect(TENANT)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound"},
                   "target": {"kind": "Node", "name": NODE}}  # fmt: skip
        empty: Document = {"metadata": {"annotations": {"a": "b"}}}
        tried = {
            "Node": api.patch(at("nodes", "", NODE), empty),
            "Node status": api.patch(at("nodes", "", NODE, "status"), {"status": {}}),
            "pod of another": api.patch(at("pods", _OWNER, "bound"), empty),
            "binding of another": api.post(at("pods", _OWNER, "bound", "binding"), binding),
            "status of a pod": api.patch(at("pods", TENANT, "any", "status"), {"status": {}}),
        }
        for kind, plural in _OBJECTS.items():
            body = _object(kind, plural)
            tried[f"{kind} patched"] = api.patch(at(plural, "", NODE), empty)
            tried[f"{kind} created"] = api.post(at(plural), body)
            tried[f"{kind} status"] = api.patch(at(plural, "", NODE, "status"), {"status": {}})
            tried[f"{kind} deleted"] = api.delete(at(plural, "", NODE))
        api.close()
        return {what: answer.code for what, answer in tried.items()}

    def mistakes(self, check: Callable[[], object]) -> None:
        """What those write who may, one after the other, with a look after each.

        They may order what they like, and the node's are theirs; but a value that cannot be ends
        nothing.
        """
        for kind, body in mistakes():
            plural = _OBJECTS.get(kind, "nodes")
            if self._admin.patch(at(plural, "", NODE), body).code == http.HTTPStatus.NOT_FOUND:
                self._admin.post(at(plural), {**_object(kind, plural), **body})
            check()

    def _write_statuses(self, documents: list[Document]) -> None:
        for each in documents[:_STATUSES]:
            path = at("pods", TENANT, each["metadata"]["name"], "status")
            self._kubelet.patch(path, {"status": each["status"]})


def _make(api: Api, documents: Iterable[Document]) -> None:
    for each in documents:
        # Whatever UID it asks for, the server gives it one.
        api.post(
            at("pods", TENANT), {**each, "metadata": {**each["metadata"], "namespace": TENANT}}
        )


def _rewrite(api: Api, documents: list[Document]) -> None:
    """Annotations that come when the pod is on its node already."""
    for one, other in zip(documents[:20], documents[-20:], strict=False):
        body = {"metadata": {"annotations": other["metadata"].get("annotations")}}
        api.patch(at("pods", TENANT, one["metadata"]["name"]), body)


def _object(kind: str, plural: str) -> Document:
    version = plural.rpartition("/")[0]
    found: Document = {"apiVersion": version, "kind": kind, "metadata": {"name": NODE}}
    if kind == "NodeResourceTopology":
        found["topologyPolicies"] = ["None"]
    return found
