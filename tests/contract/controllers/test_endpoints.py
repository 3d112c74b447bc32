# SPDX-License-Identifier: Apache-2.0
"""EndpointSlices and Endpoints: the pods that stand behind a Service."""

from __future__ import annotations

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.controllers.test_controllers import eventually
from tests.contract.documents import container, document, node, pod

SLICES = "discovery.k8s.io/v1/endpointslices"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
PORTS = [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "metrics", "port": 9}]


@pytest.fixture
def api(cluster: Server) -> Api:
    """Requests to a server with controllers."""
    return cluster.api


@pytest.fixture
def namespace(api: Api) -> str:
    return make_namespace(api)


def serve(api: Api, namespace: str, name: str = "web", **spec: object) -> Document:
    whole = {"selector": {"app": "web"}, "ports": PORTS, **spec}
    body = document("v1", "Service", name, spec=whole, labels={"team": "x"})
    found: Document = api.post(at("services", namespace), body).ok
    return found


def run(api: Api, namespace: str, where: str, name: str, ip: str, ready: bool) -> Document:
    main = container(ports=[{"name": "web", "containerPort": 8080}])
    body = pod(name, labels={"app": "web"}, containers=[main], nodeName=where)
    body["spec"]["terminationGracePeriodSeconds"] = 0
    made: Document = api.post(at("pods", namespace), body).ok
    tell(api, namespace, name, ready=ready, podIP=ip, podIPs=[{"ip": ip}])
    return made


def tell(api: Api, namespace: str, name: str, *, ready: bool, **status: object) -> None:
    condition = {"type": "Ready", "status": str(ready)}
    body = {"status": {"phase": "Running", "conditions": [condition], **status}}
    api.patch(f"{at('pods', namespace)}/{name}/status", body).ok  # noqa: B018


def slices(api: Api, namespace: str, name: str = "web") -> list[Document]:
    selector = f"labelSelector=kubernetes.io/service-name%3D{name}"
    items: list[Document] = api.get(f"{at(SLICES, namespace)}?{selector}").ok["items"]
    return items


def endpoints(api: Api, namespace: str, name: str = "web") -> Document:
    found: Document = api.get(f"{at('endpoints', namespace)}/{name}").ok
    return found


def ready_names(found: list[Document]) -> list[str]:
    return sorted(
        endpoint["targetRef"]["name"]
        for each in found
        for endpoint in each["endpoints"] or ()
        if endpoint["conditions"]["ready"]
    )


def by_name(ports: list[Document]) -> list[Document]:
    return sorted(ports, key=lambda port: str(port["name"]))


def test_pods_of_a_service_stand_in_slices_and_endpoints(api: Api, namespace: str) -> None:
    where = f"{namespace}-node"
    body = node(where)
    body["metadata"]["labels"] = {"topology.kubernetes.io/zone": "z1"}
    api.post(at("nodes"), body).ok  # noqa: B018
    service = serve(api, namespace)
    (found,) = eventually(lambda: slices(api, namespace), lambda now: len(now) == 1)
    assert (found["addressType"], found["endpoints"], found["ports"]) == ("IPv4", None, None)
    assert found["metadata"]["generateName"] == "web-"
    assert found["metadata"]["labels"] == {
        "team": "x",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Service", service["metadata"]["uid"])
    a = run(api, namespace, where, "a", "10.1.0.1", True)
    b = run(api, namespace, where, "b", "10.1.0.2", False)

    def both(now: list[Document]) -> bool:
        return [len(each["endpoints"] or ()) for each in now] == [2]

    (found,) = eventually(lambda: slices(api, namespace), both)
    targets = [
        {"kind": "Pod", "namespace": namespace, "name": each["metadata"]["name"],
         "uid": each["metadata"]["uid"]}
        for each in (a, b)
    ]  # fmt: skip
    shared = {"nodeName": where, "zone": "z1"}
    assert sorted(found["endpoints"], key=lambda each: str(each["addresses"])) == [
        {
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "targetRef": targets[0],
            **shared,
        },
        {
            "addresses": ["10.1.0.2"],
            "conditions": {"ready": False, "serving": False, "terminating": False},
            "targetRef": targets[1],
            **shared,
        },
    ]
    http = {"name": "http", "port": 8080, "protocol": "TCP"}
    metrics = {"name": "metrics", "port": 9, "protocol": "TCP"}
    assert by_name(found["ports"]) == [http, metrics]
    older = eventually(
        lambda: endpoints(api, namespace),
        lambda now: "notReadyAddresses" in (now.get("subsets") or [{}])[0],
    )
    assert older["metadata"]["labels"] == {
        "team": "x",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    }
    (subset,) = older["subsets"]
    assert subset["addresses"] == [{"ip": "10.1.0.1", "nodeName": where, "targetRef": targets[0]}]
    assert subset["notReadyAddresses"] == [
        {"ip": "10.1.0.2", "nodeName": where, "targetRef": targets[1]}
    ]
    assert by_name(subset["ports"]) == [http, metrics]


def test_endpoints_follow_their_pods(api: Api, namespace: str) -> None:
    where = f"{namespace}-node"
    api.post(at("nodes"), node(where)).ok  # noqa: B018
    serve(api, namespace)
    run(api, namespace, where, "a", "10.1.0.1", True)
    run(api, namespace, where, "b", "10.1.0.2", False)

    def names(wanted: list[str]) -> None:
        eventually(lambda: ready_names(slices(api, namespace)), lambda now: now == wanted)

    names(["a"])
    tell(api, namespace, "b", ready=True)
    names(["a", "b"])
    unlabelled = {"metadata": {"labels": {"app": None}}}
    api.patch(f"{at('pods', namespace)}/a", unlabelled).ok  # noqa: B018
    names(["b"])
    api.delete(f"{at('pods', namespace)}/b?gracePeriodSeconds=0").ok  # noqa: B018
    names([])
    api.delete(f"{at('services', namespace)}/web").ok  # noqa: B018
    path = f"{at('endpoints', namespace)}/web"
    eventually(lambda: api.get(path).code, lambda code: code == 404)
    eventually(lambda: slices(api, namespace), lambda now: not now)


def test_a_headless_service_and_one_without_selector(api: Api, namespace: str) -> None:
    serve(api, namespace, "plain", clusterIP="None", ports=[])
    body = document("v1", "Service", "free", spec={"ports": PORTS})
    api.post(at("services", namespace), body).ok  # noqa: B018
    (found,) = eventually(lambda: slices(api, namespace, "plain"), lambda now: len(now) == 1)
    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    labels = eventually(lambda: endpoints(api, namespace, "plain"), bool)["metadata"]["labels"]
    assert labels["service.kubernetes.io/headless"] == ""
    assert slices(api, namespace, "free") == []
    assert api.get(f"{at('endpoints', namespace)}/free").code == 404
