# SPDX-License-Identifier: Apache-2.0
"""The built-in admission rules, on the embedded server."""

from __future__ import annotations

from tests.controlplane.plane import PODS, Api, pod, with_api

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def test_nothing_is_made_where_there_is_no_namespace() -> None:
    async def check(api: Api) -> None:
        answer = await api("POST", "/api/v1/namespaces/none/pods", pod())
        assert (answer["code"], answer["message"]) == (404, 'namespaces "none" not found')
        assert answer["details"] == {"name": "none", "kind": "namespaces"}

    with_api(check)


def test_nothing_is_made_in_a_namespace_that_goes_away() -> None:
    async def check(api: Api) -> None:
        await api.made("/api/v1/namespaces", {"metadata": {"name": "going"}})
        await api("DELETE", "/api/v1/namespaces/going")
        answer = await api("POST", "/api/v1/namespaces/going/pods", pod())
        assert (answer["code"], answer["reason"]) == (403, "Forbidden")
        assert answer["message"] == (
            'pods "web" is forbidden: unable to create new content in namespace going '
            "because it is being terminated"
        )
        assert answer["details"]["causes"] == [
            {
                "reason": "NamespaceTerminating",
                "message": "namespace going is being terminated",
                "field": "metadata.namespace",
            }
        ]

    with_api(check)


def test_some_namespaces_stay() -> None:
    async def check(api: Api) -> None:
        answer = await api("DELETE", "/api/v1/namespaces/default")
        assert (answer["code"], answer["message"]) == (
            403,
            'namespaces "default" is forbidden: this namespace may not be deleted',
        )

    with_api(check)


def test_priorities_follow_from_classes_and_their_default() -> None:
    async def check(api: Api) -> None:
        first = await api.made(PODS, pod("first"))
        assert (first["spec"]["priority"], first["spec"]["preemptionPolicy"]) == (
            0,
            "PreemptLowerPriority",
        )
        await api.made(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        low = {"metadata": {"name": "low"}, "value": -5, "globalDefault": True}
        await api.made(CLASSES, {**low, "preemptionPolicy": "Never"})
        high = await api.made(PODS, pod("high", spec={"priorityClassName": "high"}))
        assert high["spec"]["priority"] == 1000
        other = (await api.made(PODS, pod("other")))["spec"]
        assert (other["priorityClassName"], other["priority"], other["preemptionPolicy"]) == (
            "low",
            -5,
            "Never",
        )
        again = await api("POST", CLASSES, {**low, "metadata": {"name": "low2"}})
        assert (again["code"], again["message"]) == (
            403,
            'priorityclasses.scheduling.k8s.io "low2" is forbidden: PriorityClass low is already '
            "marked as default. Only one default can exist",
        )

    with_api(check)


def test_a_limit_range_fills_in_and_bounds_containers() -> None:
    async def check(api: Api) -> None:
        item = {
            "type": "Container",
            "max": {"cpu": "2"},
            "default": {"cpu": "1"},
            "defaultRequest": {"cpu": "500m"},
        }
        ranges = "/api/v1/namespaces/default/limitranges"
        await api.made(ranges, {"metadata": {"name": "r"}, "spec": {"limits": [item]}})
        made = await api.made(PODS, pod())
        assert made["spec"]["containers"][0]["resources"] == {
            "limits": {"cpu": "1"},
            "requests": {"cpu": "500m"},
        }
        assert made["status"]["qosClass"] == "Burstable"
        large = pod("large")
        large["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "3"}}
        answer = await api("POST", PODS, large)
        assert (answer["code"], answer["message"]) == (
            403,
            'pods "large" is forbidden: maximum cpu usage per Container is 2, but limit is 3',
        )

    with_api(check)


def test_new_nodes_are_tainted_until_they_are_ready() -> None:
    async def check(api: Api) -> None:
        made = await api.made("/api/v1/nodes", {"metadata": {"name": "n"}})
        assert made["spec"]["taints"] == [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        ]
        made["spec"].pop("taints")
        assert "taints" not in (await api("PUT", "/api/v1/nodes/n", made))["spec"]

    with_api(check)


def test_claims_get_the_default_storage_class() -> None:
    async def check(api: Api) -> None:
        marked = {"storageclass.kubernetes.io/is-default-class": "true"}
        for name, marks in (("slow", {}), ("fast", marked)):
            metadata = {"name": name, "annotations": marks}
            body = {"metadata": metadata, "provisioner": "example.com/x"}
            await api.made("/apis/storage.k8s.io/v1/storageclasses", body)
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claims = "/api/v1/namespaces/default/persistentvolumeclaims"
        made = await api.made(claims, {"metadata": {"name": "c"}, "spec": spec})
        assert made["spec"]["storageClassName"] == "fast"

    with_api(check)


def test_events_are_the_same_in_both_groups() -> None:
    async def check(api: Api) -> None:
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        event = {"metadata": {"name": "e"}, "involvedObject": about, "message": "m", "reason": "R"}
        core = "/api/v1/namespaces/default/events"
        new = "/apis/events.k8s.io/v1/namespaces/default/events"
        await api.made(core, event)
        seen = await api("GET", f"{new}/e")
        assert (seen["regarding"], seen["note"]) == (about, "m")
        assert "message" not in seen
        by_name = await api("GET", f"{core}?fieldSelector=involvedObject.name=p")
        assert [item["metadata"]["name"] for item in by_name["items"]] == ["e"]

    with_api(check)
