# SPDX-License-Identifier: Apache-2.0
"""ResourceQuotas under many writers at once, across restarts, and for what repeats."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from koord.controlplane.controllers.resource_quotas import QUOTA, status_of, used_of
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.quotas.evaluators import names_for, storage_of, usage
from koord.kube.client import Client
from koord.kube.crds import CRD
from koord.kube.transport.messages import Request, Response, Transport
from tests.controlplane.plane import PODS, Api, pod, with_api
from tests.controlplane.scene import Scene, play

Document = dict[str, Any]
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def quota(name: str = "q", **hard: str) -> Document:
    hard = {key.replace("__", "/").replace("_", "."): amount for key, amount in hard.items()}
    return {"metadata": {"name": name}, "spec": {"hard": hard}}


async def counting(api: Api, body: Document) -> None:
    """Makes a quota whose status says that nothing is used, as the controller would."""
    made = await api.made(QUOTAS, body)
    hard = body["spec"]["hard"]
    made["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    made.pop("code")
    answer = await api("PUT", f"{QUOTAS}/{body['metadata']['name']}/status", made)
    assert answer["code"] == 200


async def used(api: Api, name: str = "q") -> Document:
    found: Document = (await api("GET", f"{QUOTAS}/{name}"))["status"]["used"]
    return found


def test_no_more_than_fits_of_a_hundred_at_once() -> None:
    async def check(api: Api) -> None:
        await counting(api, quota(pods="10"))
        await counting(api, quota("r", requests_cpu="5", count__pods="1k"))
        spec = {"containers": [{"name": "app", "image": "i",
                                "resources": {"requests": {"cpu": "500m"}}}]}  # fmt: skip
        bodies = [pod(f"p-{n}", spec=spec) for n in range(100)]
        answers = await asyncio.gather(*(api("POST", PODS, body) for body in bodies))
        assert Counter(answer["code"] for answer in answers) == {201: 10, 403: 90}
        assert await used(api) == {"pods": "10"}
        assert await used(api, "r") == {"count/pods": "10", "requests.cpu": "5"}

    with_api(check)


def test_pods_of_one_template_are_counted_each() -> None:
    async def check(api: Api) -> None:
        for n in range(5):  # The server learns the template while there is no quota.
            await api.made(PODS, pod(f"before-{n}"))
        await counting(api, quota(pods="3"))
        codes = [(await api("POST", PODS, pod(f"p-{n}")))["code"] for n in range(5)]
        assert codes == [201, 201, 201, 403, 403]

    with_api(check)


def test_what_has_more_digits_than_a_quantity_is_too_much_and_no_failure() -> None:
    async def check(api: Api) -> None:
        most = "9" * 38
        await counting(api, quota(requests_memory=most))
        for name, amount, code in (("a", f"{most[:-1]}8", 201), ("b", most, 403), ("c", "1", 201)):
            spec = {"containers": [{"name": "app", "image": "i",
                                    "resources": {"requests": {"memory": amount}}}]}  # fmt: skip
            answer = await api("POST", PODS, pod(name, spec=spec))
            assert answer["code"] == code, name
        assert await used(api) == {"requests.memory": most}

    with_api(check)


def test_a_name_that_is_taken_is_not_counted() -> None:
    async def check(api: Api) -> None:
        await counting(api, quota(pods="3"))
        await api.made(PODS, pod("p"))
        assert (await api("POST", PODS, pod("p")))["code"] == 409
        assert await used(api) == {"pods": "1"}

    with_api(check)


def test_nothing_is_let_in_before_anything_is_counted() -> None:
    async def check(api: Api) -> None:
        made = await api.made(QUOTAS, quota(pods="3", services="1"))
        made["status"] = {"hard": {"pods": "3", "services": "1"}}
        await api("PUT", f"{QUOTAS}/q/status", made)
        refused = await api("POST", PODS, pod("p"))
        assert refused["message"] == (
            'pods "p" is forbidden: status unknown for quota: q, resources: pods'
        )

    with_api(check)


def test_a_deployment_fills_its_quota_and_takes_what_is_freed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it does not get in is told by events, not over what ``koord up`` prints."""

    async def story(scene: Scene) -> None:
        client = scene.client
        kinds = {"apiVersion": "v1", "kind": "ResourceQuota"}
        body = {**kinds, **quota(pods="3")}
        body["metadata"]["namespace"] = "default"
        await client.create(body, kind=QUOTA)
        await asyncio.sleep(1)
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
        spec = {"replicas": 5, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        head = {"apiVersion": "apps/v1", "kind": "Deployment"}
        await client.create({**head, "metadata": {"name": "d", "namespace": "default"},
                             "spec": spec})  # fmt: skip
        await asyncio.sleep(30)
        names = sorted(await _pods(scene))
        assert len(names) == 3
        await _delete(scene, names[:2])
        # What has gone is counted within a second, and the ReplicaSet tries again.
        await asyncio.sleep(120)
        again = await _pods(scene)
        assert len(again) == 3
        assert not set(names[:2]) & set(again)
        assert (await _quota(scene))["used"] == {"pods": "3"}

    with caplog.at_level(logging.INFO, "koord"):
        play(story)
    tries = [record for record in caplog.records if record.getMessage() == "reconcile failed"]
    assert len(tries) > 9
    assert {record.levelname for record in tries} == {"INFO"}


def test_a_recount_never_loses_what_is_created_meanwhile() -> None:
    async def story(scene: Scene) -> None:
        body = {"apiVersion": "v1", "kind": "ResourceQuota", **quota(pods="20")}
        body["metadata"]["namespace"] = "default"
        await scene.client.create(body, kind=QUOTA)
        await asyncio.sleep(1)
        head = {"apiVersion": "v1", "kind": "Pod"}

        async def come_and_go(number: int) -> None:
            for turn in range(20):
                name = f"p-{number}-{turn}"
                made = {**head, **pod(name)}
                made["metadata"]["namespace"] = "default"
                try:
                    await scene.client.create(made)
                except Exception:
                    await asyncio.sleep(0.1 * number)
                    continue
                assert len(await _pods(scene)) <= 20
                await asyncio.sleep(0.07 * number)
                await _delete(scene, [name])

        await asyncio.gather(*(come_and_go(number) for number in range(1, 40)))
        await asyncio.sleep(5)
        assert (await _quota(scene))["used"] == {"pods": str(len(await _pods(scene)))}

    play(story)


def test_names_that_nothing_is_served_for_cost_one_look_at_what_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    discover = Client.discover

    async def counted(self: Client, **options: Any) -> Any:
        nonlocal looks
        looks += 1
        return await discover(self, **options)

    async def story(scene: Scene) -> None:
        names = {f"count__nonsense-{n}": "1" for n in range(100)}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", **quota(pods="3", **names)}
        body["metadata"]["namespace"] = "default"
        monkeypatch.setattr(Client, "discover", counted)
        await scene.client.create(body, kind=QUOTA)
        await asyncio.sleep(5)
        assert (await _quota(scene))["used"] == {"pods": "0"}
        assert looks < 10

    play(story)


def test_a_definition_that_goes_stops_no_count_of_other_resources() -> None:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True,
               "schema": {"openAPIV3Schema": {"type": "object"}}}  # fmt: skip
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                  "metadata": {"name": "widgets.example.com"}, "spec": spec}  # fmt: skip

    async def story(scene: Scene) -> None:
        await scene.client.create(definition, kind=CRD)
        body = {"apiVersion": "v1", "kind": "ResourceQuota",
                **quota(pods="3", count__widgets_example_com="5")}  # fmt: skip
        body["metadata"]["namespace"] = "default"
        await scene.client.create(body, kind=QUOTA)
        await asyncio.sleep(2)
        head = {"apiVersion": "v1", "kind": "Pod"}
        for name in ("a", "b"):
            document = {**head, **pod(name)}
            document["metadata"]["namespace"] = "default"
            await scene.client.create(document)
        assert (await _quota(scene))["used"] == {"pods": "2", "count/widgets.example.com": "0"}
        await scene.client.delete(CRD, "widgets.example.com")
        await asyncio.sleep(5)
        await _delete(scene, ["a"])
        await asyncio.sleep(5)
        assert (await _quota(scene))["used"] == {"pods": "1", "count/widgets.example.com": "0"}

    play(story)


def test_what_is_used_lasts_with_what_uses_it(tmp_path: Path) -> None:
    async def send(way: Transport, method: str, path: str, body: object = None) -> Document:
        data = b"" if body is None else json.dumps(body).encode()
        answer = await way.send(Request(method, path, (), data))
        assert isinstance(answer, Response)
        found: Document = json.loads(answer.body)
        return found

    async def run(first: bool) -> None:
        async with EmbeddedControlPlane(Options(data=tmp_path, seed=1)) as plane:
            way = plane.transport()
            if first:
                made = await send(way, "POST", QUOTAS, quota(pods="2"))
                made["status"] = {"hard": {"pods": "2"}, "used": {"pods": "0"}}
                await send(way, "PUT", f"{QUOTAS}/q/status", made)
                await send(way, "POST", PODS, pod("a"))
            found = await send(way, "GET", f"{QUOTAS}/q")
            assert found["status"]["used"] == {"pods": "1"}
            assert len((await send(way, "GET", PODS))["items"]) == 1

    for first in (True, False):
        asyncio.run(run(first))


def test_names_of_quotas_are_about_one_resource() -> None:
    assert storage_of("count/widgets.example.com") == "widgets.example.com"
    assert storage_of("requests.storage") == "persistentvolumeclaims"
    assert storage_of("requests.nvidia.com/gpu") == "pods"
    assert storage_of("hugepages-2Mi") == "pods"
    assert storage_of("configmaps") == "configmaps"
    # Koordinator's own resources are in a domain of Kubernetes: no quota of Kubernetes counts them.
    assert storage_of("requests.kubernetes.io/batch-cpu") == ""
    assert names_for("services", ["services", "pods", "count/services"]) == [
        "services", "count/services"
    ]  # fmt: skip


def test_a_resized_pod_counts_with_the_larger_of_what_it_has_and_wants() -> None:
    document = pod()
    document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    state = {"name": "app", "resources": {"requests": {"cpu": "2"}},
             "allocatedResources": {"cpu": "1500m"}}  # fmt: skip
    document["status"] = {"containerStatuses": [state]}
    amounts = {name: str(amount) for name, amount in usage("pods", document, 0.0).items()}
    assert amounts == {"count/pods": "1", "pods": "1", "cpu": "2", "requests.cpu": "2"}


def test_pods_past_their_deletion_count_as_objects_alone() -> None:
    document = pod()
    document["metadata"] |= {
        "deletionTimestamp": "2030-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    end = 1893456030.0  # half a minute into 2030
    found = {**quota(pods="5", count__pods="5"), "status": {}}
    for now, counted in ((end, "1"), (end + 1, "0")):
        got = status_of(found, used_of(found, {"pods": [document]}, now))["used"]
        assert got == {"count/pods": "1", "pods": counted}


async def _pods(scene: Scene) -> list[str]:
    answer = await scene.plane.transport().send(Request("GET", PODS))
    assert isinstance(answer, Response)
    return [
        item["metadata"]["name"]
        for item in json.loads(answer.body)["items"]
        if "deletionTimestamp" not in item["metadata"]
    ]


async def _delete(scene: Scene, names: list[str]) -> None:
    for name in names:
        query = (("gracePeriodSeconds", "0"),)
        await scene.plane.transport().send(Request("DELETE", f"{PODS}/{name}", query))


async def _quota(scene: Scene) -> Document:
    answer = await scene.plane.transport().send(Request("GET", f"{QUOTAS}/q"))
    assert isinstance(answer, Response)
    found: Document = json.loads(answer.body)["status"]
    return found
