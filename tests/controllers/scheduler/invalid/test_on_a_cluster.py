# SPDX-License-Identifier: Apache-2.0
"""What users write wrong leaves a trace where they look: on the object, in events, in columns."""

from __future__ import annotations

import asyncio
from typing import Any

from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.kube.patches import Patch
from tests.controllers.scheduler.invalid.cluster import Cluster, known, play

SCHEDULING, SIGS = "scheduling.koordinator.sh/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1"
RESERVATION, POD_GROUP = known(SCHEDULING, "Reservation"), known(SIGS, "PodGroup")
QUOTA = known(SIGS, "ElasticQuota")
PROBLEM = "koord.sh/problem"


def reservation(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], "schedulerName": "koord-scheduler"}}
    owners = [{"labelSelector": {"matchLabels": {"app": "x"}}}]
    return {
        "apiVersion": SCHEDULING, "kind": "Reservation", "metadata": {"name": name},
        "spec": {"template": template, "owners": owners, "ttl": "1h", **spec},
    }  # fmt: skip


def sigs(kind: str, name: str, spec: dict[str, Any], **labels: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    prefixed = {f"quota.scheduling.koordinator.sh/{key}": each for key, each in labels.items()}
    return {
        "apiVersion": SIGS, "kind": kind, "metadata": {**meta, "labels": prefixed}, "spec": spec
    }  # fmt: skip


def test_a_reservation_that_does_not_decode_says_so_until_it_is_mended() -> None:
    line = "Reservation later: spec.ttl: got '1hour', expected a duration such as 90s, 5m or 1h30m"

    async def story(cluster: Cluster) -> None:
        await cluster.add(reservation("later", ttl="1hour"))
        await asyncio.sleep(5)
        for _ in range(2):
            (condition,) = (await cluster.get(RESERVATION, "later"))["status"]["conditions"]
            said = {key: condition[key] for key in ("type", "status", "reason", "message")}
            assert said == {
                "type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": line
            }  # fmt: skip
            assert await cluster.events("later") == [("Warning", "FailedScheduling", line, 1)]
            await cluster.restart()
            await asyncio.sleep(30)
        path = f"/apis/{SCHEDULING}/reservations"
        assert await cluster.cell(path, "later", "Problem") == line
        assert await cluster.cell(path, "later", "Phase") == "Pending"
        mend = Patch.merge({"spec": {"ttl": "1h"}})
        await cluster.client.patch(RESERVATION, "later", mend)
        await asyncio.sleep(5)
        assert (await cluster.client.get(Reservation, "later")).status.phase == "Available"
        assert await cluster.cell(path, "later", "Problem") is None
        assert cluster.app.world.invalid.message(Reservation, "later") == ""

    play(story)


def test_a_reservation_of_a_bad_quantity_and_one_of_nobody_say_so_once() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(reservation("odd", cpu="lots"), reservation("less", cpu="-1"))
        await asyncio.sleep(60)
        wanted = {
            "odd": "Reservation odd: spec.template.spec.containers[0].resources.requests[cpu]: "
            "got 'lots', expected a number such as 2, 500m, 1.5Gi or 1e3",
            "less": "Reservation less: spec.template.spec.containers[0].resources.requests[cpu]: "
            "got '-1', expected an amount of 0 or more",
        }
        for name, line in wanted.items():
            (condition,) = (await cluster.get(RESERVATION, name))["status"]["conditions"]
            assert (condition["type"], condition["message"]) == ("Scheduled", line)
            assert await cluster.events(name) == [("Warning", "FailedScheduling", line, 1)]

    play(story)


def test_a_pod_group_and_quotas_that_ask_for_what_cannot_be_say_so_until_mended() -> None:
    group = "PodGroup default/g: spec.minMember: got -5, expected an integer of at least 0"
    least = "ElasticQuota default/q: spec.min[cpu]: got '4', expected no more than the spec's max"
    orphan = (
        "ElasticQuota default/o: labels[quota.scheduling.koordinator.sh/parent]: "
        "got 'nobody', expected a quota that exists"
    )

    async def story(cluster: Cluster) -> None:
        await cluster.add(
            sigs("PodGroup", "g", {"minMember": -5}),
            sigs("ElasticQuota", "q", {"min": {"cpu": "4"}, "max": {"cpu": "2"}}),
            sigs("ElasticQuota", "o", {"max": {"cpu": "2"}}, parent="nobody"),
        )
        await asyncio.sleep(5)
        found = (("g", POD_GROUP, group), ("q", QUOTA, least), ("o", QUOTA, orphan))
        for _ in range(2):
            for name, kind, line in found:
                said = (await cluster.get(kind, name, "default"))["metadata"]["annotations"]
                assert said[PROBLEM] == line
                assert await cluster.events(name) == [("Warning", "Invalid", line, 1)]
            await cluster.restart()
            await asyncio.sleep(30)
        at = f"/apis/{SIGS}/namespaces/default"
        assert await cluster.cell(f"{at}/podgroups", "g", "Problem") == group
        assert await cluster.cell(f"{at}/elasticquotas", "o", "Problem") == orphan
        for name, kind, change in (
            ("g", POD_GROUP, {"spec": {"minMember": 2}}),
            ("q", QUOTA, {"spec": {"max": {"cpu": "8"}}}),
        ):
            await cluster.client.patch(kind, name, Patch.merge(change), "default")
        parent = sigs("ElasticQuota", "nobody", {"max": {"cpu": "9"}}, **{"is-parent": "true"})
        await cluster.add(parent)
        await asyncio.sleep(5)
        for name, kind, _ in found:
            meta = (await cluster.get(kind, name, "default"))["metadata"]
            assert PROBLEM not in meta.get("annotations", {})

    play(story)


def test_a_qos_class_that_is_none_is_told_of_once_though_the_pod_runs() -> None:
    line = (
        "Pod default/p: labels[koordinator.sh/qosClass]: "
        "got 'LSX', expected LSE, LSR, LS, BE or SYSTEM: it counts as if it were absent"
    )

    async def story(cluster: Cluster) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        labels = {"koordinator.sh/qosClass": "LSX"}
        for name, more in (("p", labels), ("q", {"koordinator.sh/qosClass": "LS"})):
            meta = {"name": name, "namespace": "default", "labels": more}
            spec = {"containers": [container], "schedulerName": "koord-scheduler"}
            await cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await asyncio.sleep(30)
        assert (await cluster.client.get(Pod, "p", "default")).spec.node_name == "n"
        told = [each for each in await cluster.events("p") if each[1] != "Scheduled"]
        assert told == [("Warning", "Invalid", line, 1)]
        assert [each[1] for each in await cluster.events("q")] == ["Scheduled"]
        await cluster.restart()
        await asyncio.sleep(30)
        assert len(await cluster.events("p")) == 2

    play(story)
