# SPDX-License-Identifier: Apache-2.0
"""EndpointSlices and Endpoints: how many pods share one, what a change touches, who is left out."""

from __future__ import annotations

import asyncio
from typing import Any

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import POD, SERVICE, Owner
from koord.controlplane.controllers.base.plans import Create, Delete, PatchAction
from koord.controlplane.controllers.endpoints import legacy, slices
from koord.controlplane.controllers.endpoints.backends import backends
from koord.controlplane.controllers.endpoints.slices import SLICE, Slice
from koord.kube.patches import Patch as Change
from tests.controlplane.scene import Scene, play


def service(**spec: Any) -> Owner:
    whole = {"clusterIP": "10.96.0.9", "ports": [{"port": 80, "targetPort": "web"}], **spec}
    metadata = {"name": "web", "namespace": "ns", "uid": "s"}
    return codec.convert({"metadata": metadata, "spec": whole}, Owner, "web")


def pod(number: int, ready: bool = True, port: int = 8080, **status: Any) -> Pod:
    document = {
        "metadata": {"name": f"p-{number:04d}", "namespace": "ns", "uid": f"u-{number}"},
        "spec": {"nodeName": "n", "containers": [
            {"name": "c", "ports": [{"name": "web", "containerPort": port}]}
        ]},
        "status": {"phase": "Running", "podIP": f"10.1.{number // 250}.{number % 250 + 1}",
                   "conditions": [{"type": "Ready", "status": str(ready)}], **status},
    }  # fmt: skip
    return codec.convert(document, Pod, "pod")


def planned(found: list[Pod], known: list[Slice], **spec: Any) -> list[Any]:
    owner = service(**spec)
    return slices.plan(owner, SERVICE, backends(owner, found, {"n": ""}, {}), known)


def stored(action: Create, name: str) -> Slice:
    document = {**action.document, "metadata": {**action.document["metadata"], "name": name}}
    return codec.convert(document, Slice, name)


def names(endpoints: list[Document]) -> list[str]:
    return [endpoint["targetRef"]["name"] for endpoint in endpoints]


def test_a_slice_holds_a_hundred_and_a_change_touches_one() -> None:
    found = [pod(number) for number in range(250)]
    made = planned(found, [])
    assert [len(each.document["endpoints"]) for each in made] == [100, 100, 50]
    known = [stored(each, f"web-{number}") for number, each in enumerate(made)]
    assert planned(found, known) == []
    # One goes, one is not ready any more, one comes: their slices alone are written.
    changed = [*found[:3], *found[4:120], pod(120, ready=False), *found[121:], pod(999)]
    first, second = planned(changed, known)
    assert isinstance(first, PatchAction)
    assert (first.name, names(first.body["endpoints"])[-1]) == ("web-0", "p-0999")
    assert len(first.body["endpoints"]) == 100
    assert (second.name, second.body["endpoints"][20]["conditions"]) == (
        "web-1",
        {"ready": False, "serving": False, "terminating": False},
    )


def test_pods_with_other_numbers_for_a_name_have_slices_of_their_own() -> None:
    made = planned([pod(1), pod(2, port=9090), pod(3)], [])
    assert [(each.document["ports"], names(each.document["endpoints"])) for each in made] == [
        ([{"name": "", "port": 8080, "protocol": "TCP"}], ["p-0001", "p-0003"]),
        ([{"name": "", "port": 9090, "protocol": "TCP"}], ["p-0002"]),
    ]
    known = [stored(each, f"web-{number}") for number, each in enumerate(made)]
    gone = planned([pod(1), pod(3)], known)
    assert [(type(each), each.name) for each in gone] == [(Delete, "web-1")]
    # Without pods there is one slice that says so.
    empty = planned([], known)
    assert [type(each) for each in empty] == [Create, Delete, Delete]
    assert "endpoints" not in empty[0].document


def test_who_does_not_stand_behind_a_service() -> None:
    owner = service()
    listed = [pod(1, phase="Succeeded"), pod(2, podIP=""), pod(3, podIP="fe80::1"), pod(4)]
    found = backends(owner, listed, {"n": "z"}, {})
    assert [each.pod.metadata.name for each in found] == ["p-0003", "p-0004"]
    assert [each.family for each in found] == ["IPv6", "IPv4"]
    assert backends(owner, listed, {}, {}) == []  # their node is gone
    (made,) = slices.plan(owner, SERVICE, found, [])
    assert isinstance(made, Create)
    assert names(made.document["endpoints"]) == ["p-0004"]


def test_endpoints_end_at_a_thousand_with_ready_ones_first() -> None:
    owner = service()
    listed = [pod(number, ready=number >= 5) for number in range(1_003)]
    (made,) = legacy.plan(owner, backends(owner, listed, {"n": ""}, {}), None)
    assert isinstance(made, Create)
    annotations = made.document["metadata"]["annotations"]
    assert annotations == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    (subset,) = made.document["subsets"]
    assert (len(subset["addresses"]), len(subset["notReadyAddresses"])) == (998, 2)
    known = codec.convert(made.document, legacy.Endpoints, "e")
    (change,) = legacy.plan(owner, backends(owner, listed[:900], {"n": ""}, {}), known)
    assert isinstance(change, PatchAction)
    assert change.body["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": None}


def test_a_stateful_set_has_names_and_a_rollout_few_writes() -> None:
    head = {"metadata": {"name": "db", "namespace": "default"}}
    spec = {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 5432}]}
    template = {"metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip

    async def story(scene: Scene) -> None:
        await scene.add_nodes(2)
        await scene.client.create({"apiVersion": "v1", "kind": "Service", **head, "spec": spec})
        sts = {"replicas": 30, "serviceName": "db", "podManagementPolicy": "Parallel",
               "selector": {"matchLabels": {"app": "db"}}, "template": template}  # fmt: skip
        await scene.client.create(
            {"apiVersion": "apps/v1", "kind": "StatefulSet", **head, "spec": sts}
        )
        await asyncio.sleep(5)
        for number, each in enumerate(await scene.pods()):
            ip = Change.merge({"status": {"podIP": f"10.1.0.{number + 1}"}})
            await scene.client.patch(POD, each["metadata"]["name"], ip, "default", "status")
        await scene.restart()
        await asyncio.sleep(5)
        (found,) = (await scene.client.list(SLICE, namespace="default")).items
        assert len(found["endpoints"]) == 30
        assert found["endpoints"][0]["hostname"] == found["endpoints"][0]["targetRef"]["name"]
        assert found["metadata"]["generation"] < 8

    play(story)
