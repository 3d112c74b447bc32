# SPDX-License-Identifier: Apache-2.0
"""deploy/policies: what koord decided only koord changes, and a koordlet writes of its own node."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.api import definitions
from koord.api.protocol import keys
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import APPLY_PATCH, MERGE_PATCH, Request, Response, Transport
from tests.contract import api as plain
from tests.controlplane.plane import Api, with_api
from tests.hostile import accounts
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane
from tests.real.rbac.account import Account
from tests.real.rbac.contract import documents

DEPLOY = Path(__file__).parents[2] / "deploy"
BOUND, OWN = (
    DEPLOY / "policies" / f"{name}.yaml" for name in ("bound-pod-annotations", "koordlet-own-node")
)
LEVELS = [DEPLOY / "policies" / f"api-priority-{name}.yaml" for name in ("koord", "tenants")]
FLOW_SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
DECIDED = (
    keys.EXTENDED_RESOURCE_SPEC,
    keys.DEVICE_ALLOCATED,
    keys.RESERVATION_ALLOCATED,
    keys.RESOURCE_STATUS,
)
SYSTEM, NODE = "koordinator-system", "n1"
PODS = "/api/v1/namespaces/default/pods"
Document = dict[str, Any]


def test_the_policy_names_the_annotations_of_the_protocol() -> None:
    policy, binding = documents(BOUND)
    (changed,) = (
        each["expression"] for each in policy["spec"]["variables"] if each["name"] == "changed"
    )
    assert all(f'"{key}"' in changed for key in DECIDED)
    assert changed.count(".koordinator.sh/") == len(DECIDED)
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]


@pytest.mark.parametrize("manifest", [BOUND, OWN], ids=lambda path: path.stem)
def test_accounts_of_a_policy_are_those_that_are_deployed(manifest: Path) -> None:
    deployed = {
        f"system:serviceaccount:{SYSTEM}:{each['metadata']['name']}"
        for each in documents(*sorted((DEPLOY / "rbac").glob("*.yaml")))
        if each["kind"] == "ServiceAccount"
    }
    conditions = documents(manifest)[0]["spec"]["matchConditions"]
    text = " ".join(each["expression"] for each in conditions)
    named = {word for word in text.split('"') if word.startswith("system:")}
    assert named
    assert named <= deployed


@pytest.mark.parametrize("manifest", [BOUND, OWN], ids=lambda path: path.stem)
def test_an_api_server_takes_the_policies(manifest: Path) -> None:
    async def check(api: Api) -> None:
        for each in documents(manifest):
            plural = "policies" if each["kind"].endswith("Policy") else "policybindings"
            path = f"/apis/admissionregistration.k8s.io/v1/validatingadmission{plural}"
            await api.made(f"{path}?fieldValidation=Strict", each)

    with_api(check)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    need("etcd", "kube-apiserver")
    with RealControlPlane(tmp_path_factory.mktemp("policies")) as made:
        yield made


async def _patch(
    asking: Transport, path: str, body: Document, kind: str = MERGE_PATCH, **query: str
) -> Response:
    request = Request(
        "PATCH", path, tuple(query.items()), msgspec.json.encode(body), content_type=kind
    )
    return await asking.send(request)


async def _comes_to_refuse(attempt: Callable[[], Awaitable[Response]]) -> Response:
    """The API server hears of a policy a moment later."""
    for _ in range(200):
        answer = await attempt()
        if answer.status == 403:
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError("nothing was refused")


async def _made(asking: Transport, path: str, body: Document) -> Document:
    answer = await asking.send(Request("POST", path, body=msgspec.json.encode(body)))
    assert answer.status in (201, 409), answer.body
    found: Document = msgspec.json.decode(answer.body)
    return found


def _pod(name: str, node: str = "", **annotations: str) -> Document:
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "none"}], "nodeName": node or None},
    }


def _annotate(asking: Transport, path: str, key: str, value: str | None, **query: str) -> Any:
    return _patch(asking, path, {"metadata": {"annotations": {key: value}}}, **query)


@pytest.mark.real
def test_of_a_bound_pod_only_koord_changes_what_it_decided(plane: RealControlPlane) -> None:
    async def run() -> None:
        account = Account(plane, DEPLOY / "rbac" / "koord-scheduler.yaml", BOUND)
        await account.apply()
        admin, scheduler = account.admin, account.transport()
        try:
            await _made(admin, "/api/v1/nodes", {"metadata": {"name": NODE}})
            told = dict.fromkeys(DECIDED, "{}")
            await _made(admin, PODS, _pod("bound", NODE, **told))
            await _made(admin, PODS, _pod("waiting", **told))
            bound = f"{PODS}/bound"

            def attempt() -> Any:
                return _annotate(admin, bound, DECIDED[0], '{"a":1}', dryRun="All")

            refused = await _comes_to_refuse(attempt)
            for key in DECIDED:
                for path in (bound, f"{bound}/status"):
                    for value in ('{"a":1}', None):
                        answer = await _annotate(admin, path, key, value)
                        assert answer.status == 403, (key, path, value, answer.body)
                        assert key in answer.body.decode()
                assert (await _annotate(admin, f"{PODS}/waiting", key, '{"a":1}')).status == 200
                assert (await _annotate(scheduler, bound, key, '{"a":1}')).status == 200
            assert b"koord's service accounts alone" in refused.body
            assert (await _annotate(admin, bound, "example.com/note", "x")).status == 200
            assert (await _annotate(admin, bound, DECIDED[0], '{"a":1}')).status == 200
        finally:
            await scheduler.close()
            await account.close()

    asyncio.run(run())


@pytest.mark.real
def test_a_koordlet_writes_of_its_own_node_alone(plane: RealControlPlane) -> None:
    async def run() -> None:
        account = Account(plane, DEPLOY / "rbac" / "koordlet.yaml", OWN)
        client = Client(account.admin, "admin", requests_per_second=None)
        names = [name async for name, _ in installing.install(client, definitions.crds())]
        await installing.wait_established(client, names, 60)
        await account.apply()
        admin = account.admin
        for name in (NODE, "n2"):
            await _made(admin, "/api/v1/nodes", {"metadata": {"name": name}})
            body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
            await _made(
                admin, "/apis/slo.koordinator.sh/v1alpha1/nodemetrics",
                {**body, "metadata": {"name": name}, "spec": {}},
            )  # fmt: skip
        agent = await _bound_koordlet(account)
        try:
            attempts = {
                "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{}/status": {
                    "status": {"updateTime": "2026-01-01T00:00:00Z"}
                },
                "/apis/scheduling.koordinator.sh/v1alpha1/devices/{}": {
                    "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
                },
                "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies/{}": {
                    "apiVersion": "topology.node.k8s.io/v1alpha1",
                    "kind": "NodeResourceTopology",
                    "topologyPolicies": ["None"], "zones": [],
                },
            }  # fmt: skip
            for path, body in attempts.items():
                kind = APPLY_PATCH if "kind" in body else MERGE_PATCH
                query = {"fieldManager": "koordlet"} | ({"force": "true"} if "kind" in body else {})

                def write(name: str, path: str = path, body: Any = body, kind: Any = kind) -> Any:
                    told = {**body, "metadata": {"name": name}}
                    return _patch(agent, path.format(name), told, kind, **query)  # noqa: B023

                refused = await _comes_to_refuse(lambda: write("n2"))
                assert b"expected 'n1'" in refused.body
                answer = await write(NODE)
                assert answer.status in (200, 201), answer.body
        finally:
            await agent.close()
            await account.close()

    asyncio.run(run())


async def _bound_koordlet(account: Account) -> HttpTransport:
    """The API server as a koordlet's pod on n1 reaches it."""
    pods = f"/api/v1/namespaces/{SYSTEM}/pods"
    pod = _pod("koordlet-n1", NODE)
    pod["spec"]["serviceAccountName"] = "koordlet"
    made = await _made(account.admin, pods, pod)
    reference = {
        "kind": "Pod", "apiVersion": "v1",
        "name": "koordlet-n1", "uid": made["metadata"]["uid"],
    }  # fmt: skip
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": reference},
    }
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/koordlet/token"
    token = (await _made(account.admin, path, body))["status"]["token"]
    return HttpTransport(
        dataclasses.replace(
            account._config, token=token, authorization="", client_certificate="", client_key=""
        )
    )


@pytest.mark.real
def test_koord_and_tenants_are_on_levels_of_their_own(plane: RealControlPlane) -> None:
    admin = plain.Api(plane.port, plane.tls())
    accounts.apply(admin, *LEVELS)
    schemas = {
        name: admin.get(f"{FLOW_SCHEMAS}/{name}").ok["metadata"]["uid"]
        for name in ("koord", "koord-tenants", "kube-system-service-accounts")
    }
    who = {
        (SYSTEM, "koord-scheduler"): "koord",
        ("default", "batch"): "koord-tenants",
        ("kube-system", "controller"): "kube-system-service-accounts",
    }
    trust = ssl.create_default_context(cafile=plane.authority.certificate)
    for (namespace, name), schema in who.items():
        account = {"kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        space = {"kind": "Namespace", "metadata": {"name": namespace}}
        for each in (space, account):
            accounts.create(admin, {"apiVersion": "v1"} | each)
        token = accounts.token(admin, namespace, name)
        api = plain.Api(plane.port, trust, {"Authorization": f"Bearer {token}"})
        deadline = time.monotonic() + 60
        # The API server hears of a schema a moment later.
        while _schema(api) != schemas[schema]:
            assert time.monotonic() < deadline, (name, schema)
            time.sleep(0.05)
        api.close()
    admin.close()


def _schema(api: plain.Api) -> str:
    """Of which the API server took the last request to be."""
    headers = {name.lower(): value for name, value in api.get(PODS).headers.items()}
    return headers["x-kubernetes-pf-flowschema-uid"]
