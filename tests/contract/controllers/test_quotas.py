# SPDX-License-Identifier: Apache-2.0
"""ResourceQuotas: what goes beyond them is refused, what is used stands in their status."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.controllers.test_controllers import eventually
from tests.contract.documents import container, document, job, pod

HARD = {
    "pods": "2",
    "requests.cpu": "1",
    "limits.memory": "1Gi",
    "requests.nvidia.com/gpu": "1",
    "services": "1",
    "services.nodeports": "1",
    "secrets": "2",
    "persistentvolumeclaims": "3",
    "requests.storage": "10Gi",
    "fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
    "count/jobs.batch": "1",
}
NOTHING = dict.fromkeys(HARD, "0")


@pytest.fixture
def api(cluster: Server) -> Api:
    """Requests to a server with controllers."""
    return cluster.api


@pytest.fixture
def namespace(api: Api) -> str:
    return make_namespace(api)


def quotas(namespace: str, name: str = "") -> str:
    return "/".join(filter(None, (f"/api/v1/namespaces/{namespace}/resourcequotas", name)))


def limit(api: Api, namespace: str, hard: dict[str, str], **spec: Any) -> None:
    """Makes the quota ``q`` and waits until it counts."""
    body = document("v1", "ResourceQuota", "q", spec={"hard": hard, **spec})
    api.post(quotas(namespace), body).ok  # noqa: B018
    eventually(lambda: status(api, namespace), lambda found: len(found.get("used", {})) > 0)


def status(api: Api, namespace: str) -> Document:
    found: Document = api.get(quotas(namespace, "q")).ok.get("status", {})
    return found


def used(api: Api, namespace: str, wanted: dict[str, str]) -> None:
    """Waits until just so much is used."""
    eventually(lambda: status(api, namespace)["used"], lambda found: found == wanted)


def pod_of(name: str, cpu: str, memory: str, **more: str) -> Document:
    resources = {"requests": {"cpu": cpu}, "limits": {"memory": memory, **more}}
    return pod(name, containers=[container(resources=resources)])


def test_pods_are_counted_and_refused(api: Api, namespace: str) -> None:
    limit(api, namespace, HARD)
    assert status(api, namespace) == {"hard": HARD, "used": NOTHING}
    path = at("pods", namespace)
    assert api.post(path, pod("silent")).refusal == (
        403,
        "Forbidden",
        'pods "silent" is forbidden: failed quota: q: must specify limits.memory for: main; '
        "requests.cpu for: main",
    )
    api.post(path, pod_of("a", "600m", "512Mi")).ok  # noqa: B018
    # Counted at once, not when a controller comes round.
    now = {**NOTHING, "pods": "1", "requests.cpu": "600m", "limits.memory": "512Mi"}
    assert status(api, namespace)["used"] == now
    assert api.post(path, pod_of("b", "600m", "512Mi")).refusal == (
        403,
        "Forbidden",
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=600m, '
        "used: requests.cpu=600m, limited: requests.cpu=1",
    )
    gpu = pod_of("g", "1m", "1Mi", **{"nvidia.com/gpu": "2"})
    assert api.post(path, gpu).refusal[2] == (
        'pods "g" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=2, '
        "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=1"
    )
    api.post(f"{path}?dryRun=All", pod_of("b", "0.4", "0.5Gi")).ok  # noqa: B018
    assert status(api, namespace)["used"] == now
    api.post(path, pod_of("b", "0.4", "0.5Gi")).ok  # noqa: B018
    full = {**NOTHING, "pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}
    assert status(api, namespace)["used"] == full
    assert api.post(path, pod_of("c", "0.4", "0.5Gi")).refusal[2] == (
        'pods "c" is forbidden: exceeded quota: q, requested: limits.memory=512Mi,pods=1,'
        "requests.cpu=400m, used: limits.memory=1Gi,pods=2,requests.cpu=1, "
        "limited: limits.memory=1Gi,pods=2,requests.cpu=1"
    )
    api.delete(f"{path}/a?gracePeriodSeconds=0").ok  # noqa: B018
    left = {**NOTHING, "pods": "1", "requests.cpu": "400m", "limits.memory": "512Mi"}
    used(api, namespace, left)
    # A pod that has ended holds nothing.
    done = {"status": {"phase": "Succeeded"}}
    api.patch(f"{path}/b/status", done).ok  # noqa: B018
    used(api, namespace, NOTHING)


def test_what_starting_takes_counts_where_it_is_more(api: Api, namespace: str) -> None:
    limit(api, namespace, {"requests.cpu": "10", "limits.cpu": "10", "count/pods": "5"})

    def asks(cpu: str, **fields: Any) -> Document:
        name = fields.pop("name", "main")
        amounts = {"cpu": cpu}
        return container(name, resources={"requests": amounts, "limits": amounts}, **fields)

    body = pod(
        "p",
        containers=[asks("1"), asks("500m", name="second")],
        initContainers=[
            asks("2", name="side", restartPolicy="Always"),
            asks("3", name="begin"),
        ],
    )
    api.post(at("pods", namespace), body).ok  # noqa: B018
    # Starting takes 2 + 3, running 2 + 1 + 0.5.
    used(api, namespace, {"requests.cpu": "5", "limits.cpu": "5", "count/pods": "1"})


def test_services_secrets_claims_and_jobs_are_counted(api: Api, namespace: str) -> None:
    limit(api, namespace, HARD)
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    path = at("services", namespace)
    body = document("v1", "Service", "s", spec={"type": "NodePort", "ports": ports})
    words = "requested: services.nodeports=2, used: services.nodeports=0, "
    refusal = f'services "s" is forbidden: exceeded quota: q, {words}limited: services.nodeports=1'
    assert api.post(path, body).refusal[2] == refusal
    made = api.post(path, {**body, "spec": {"ports": ports}}).ok
    made["spec"]["type"] = "NodePort"
    assert api.put(f"{path}/s", made).refusal[2] == refusal
    for name in ("x", "y"):
        api.post(at("secrets", namespace), document("v1", "Secret", name)).ok  # noqa: B018
    again = api.post(at("secrets", namespace), document("v1", "Secret", "z"))
    assert again.refusal[2] == (
        'secrets "z" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=2, '
        "limited: secrets=2"
    )
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    for name, size, code in (("c", "3Gi", 201), ("d", "2049Mi", 403), ("e", "1.5Gi", 201)):
        spec = {**claim, "resources": {"requests": {"storage": size}}}
        asked = document("v1", "PersistentVolumeClaim", name, spec=spec)
        assert api.post(at("persistentvolumeclaims", namespace), asked).code == code
    jobs = at("jobs", namespace)
    api.post(jobs, job("j", suspend=True)).ok  # noqa: B018
    assert api.post(jobs, job("k", suspend=True)).refusal[2] == (
        'jobs.batch "k" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, '
        "used: count/jobs.batch=1, limited: count/jobs.batch=1"
    )
    full = {
        **NOTHING,
        "services": "1",
        "secrets": "2",
        "persistentvolumeclaims": "2",
        "requests.storage": "4608Mi",
        "fast.storageclass.storage.k8s.io/requests.storage": "4608Mi",
        "count/jobs.batch": "1",
    }
    assert status(api, namespace)["used"] == full
    api.delete(f"{at('secrets', namespace)}/x").ok  # noqa: B018
    used(api, namespace, {**full, "secrets": "1"})


def test_a_changed_quota_counts_what_is_there(api: Api, namespace: str) -> None:
    path = at("pods", namespace)
    api.post(path, pod_of("a", "100m", "1Gi")).ok  # noqa: B018
    limit(api, namespace, {"pods": "1"})
    used(api, namespace, {"pods": "1"})
    changed = api.get(quotas(namespace, "q")).ok
    hard = {"requests.memory": "1Gi", "count/nothing.example.com": "3"}
    changed["spec"] = {"hard": hard}
    api.put(quotas(namespace, "q"), changed).ok  # noqa: B018
    # What is not served is not counted.
    wanted = {"hard": hard, "used": {"requests.memory": "1Gi"}}
    eventually(lambda: status(api, namespace), lambda found: found == wanted)


def test_scopes_choose_pods(api: Api, namespace: str) -> None:
    limit(api, namespace, {"pods": "1"}, scopes=["BestEffort", "NotTerminating"])
    path = at("pods", namespace)
    api.post(path, pod_of("burstable", "1m", "1Mi")).ok  # noqa: B018
    api.post(path, pod("ends", activeDeadlineSeconds=60)).ok  # noqa: B018
    api.post(path, pod("a")).ok  # noqa: B018
    assert api.post(path, pod("b")).refusal[2] == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    selector = {"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}
    body = document(
        "v1", "ResourceQuota", "gold",
        spec={"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [selector]}},
    )  # fmt: skip
    api.post(quotas(namespace), body).ok  # noqa: B018
    counts = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    eventually(
        lambda: api.get(quotas(namespace, "gold")).ok.get("status"), lambda found: found == counts
    )
    api.post(path, pod_of("plain", "1m", "1Mi")).ok  # noqa: B018
