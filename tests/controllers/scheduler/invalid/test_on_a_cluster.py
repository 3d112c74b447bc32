# SPDX-License-Identifier: Apache-2.0
"""What users write wrong leaves a trace where they look: on the object, in events, in columns."""

from __future__ import annotations

import asyncio
from typing import Any

from koord.api.kinds.node import Node
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


def test_one_that_is_over_before_it_begins_says_why() -> None:
    wanted = {
        "less": ({"ttl": "-5m"}, "spec.ttl: got '-5m', expected a duration of 0 or more"),
        "past": (
            {"ttl": "1h", "expires": "2020-01-01T00:00:00Z"},
            "spec.expires: got '2020-01-01T00:00:00Z', "
            "expected a time after 2023-11-14T22:13:20Z, when it was created",
        ),
    }

    async def story(cluster: Cluster) -> None:
        await cluster.add(*(reservation(name, **spec) for name, (spec, _) in wanted.items()))
        await asyncio.sleep(90)
        for name, (_, line) in wanted.items():
            status = (await cluster.get(RESERVATION, name))["status"]
            (ready,) = (each for each in status["conditions"] if each["type"] == "Ready")
            assert (status["phase"], ready["reason"]) == ("Failed", "Expired")
            assert ready["message"] == f"Reservation {name}: {line}"
            path = f"/apis/{SCHEDULING}/reservations"
            assert await cluster.cell(path, name, "Problem") == f"Reservation {name}: {line}"
            told = cluster.app.explainer.objects.reservation(name)
            assert told["problem"] == f"Reservation {name}: {line}"
            said = [each for each in await cluster.events(name) if each[1] == "Expired"]
            assert said == [("Warning", "Expired", f"Reservation {name}: {line}", 1)]

    play(story)


def test_one_whose_owners_nobody_can_be_says_so_though_it_holds_its_node() -> None:
    line = (
        "Reservation odd: spec.owners[0].labelSelector.matchExpressions[0].operator: got 'Foo', "
        "expected one of In, NotIn, Exists, DoesNotExist"
    )
    path = f"/apis/{SCHEDULING}/reservations"

    async def story(cluster: Cluster) -> None:
        wish = {"matchExpressions": [{"key": "a", "operator": "Foo", "values": ["b"]}]}
        await cluster.add(reservation("odd", owners=[{"labelSelector": wish}]))
        for _ in range(2):
            await asyncio.sleep(30)
            status = (await cluster.get(RESERVATION, "odd"))["status"]
            assert (status["phase"], status["nodeName"]) == ("Available", "n")
            said = [(c["type"], c["status"], c.get("message")) for c in status["conditions"]]
            assert said == [
                ("Scheduled", "True", None), ("Ready", "True", None), ("Valid", "False", line)
            ]  # fmt: skip
            assert await cluster.cell(path, "odd", "Problem") == line
            told = [each for each in await cluster.events("odd") if each[1] != "Scheduled"]
            assert told == [("Warning", "Invalid", line, 1)]
            await cluster.restart()
        mend = Patch.merge({"spec": {"owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}]}})
        await cluster.client.patch(RESERVATION, "odd", mend)
        await asyncio.sleep(5)
        assert await cluster.cell(path, "odd", "Problem") is None

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


GANG = "gang.scheduling.koordinator.sh"
TREE = "quota.scheduling.koordinator.sh"
ABSENT = ": it counts as if it were absent"
ONE_GANG = "expected NAMESPACE/NAME of one gang: the group waits for a gang that is called so"
SPEC = f"{GANG}/network-topology-spec"
MUST = '{"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}'
POD_GROUPS = {
    "far": (
        {SPEC: MUST}, {},
        f"annotations[{SPEC}]: got {MUST!r}, expected awareNetworkTopology: true in "
        "CoschedulingArgs: without it that counts as absent",
    ),
    "word": (
        {SPEC: MUST.replace("Must", "Has")}, {},
        f"annotations[{SPEC}].gatherStrategy[0].strategy: got 'HasGather', "
        "expected MustGather or PreferGather",
    ),
    "mode": (
        {f"{GANG}/mode": "Bogus"}, {},
        f"annotations[{GANG}/mode]: got 'Bogus', expected Strict or NonStrict",
    ),
    "policy": (
        {f"{GANG}/match-policy": "sometimes"}, {},
        f"annotations[{GANG}/match-policy]: got 'sometimes', "
        "expected only-waiting, waiting-and-running or once-satisfied",
    ),
    "groups": (
        {f"{GANG}/groups": "a, b"}, {},
        f"annotations[{GANG}/groups]: got 'a, b', "
        "expected JSON (JSON is malformed: invalid character (byte 0))",
    ),
    "comma": (
        {f"{GANG}/groups": '["default/comma","a/a,a/b"]'}, {},
        f"annotations[{GANG}/groups][1]: got 'a/a,a/b', {ONE_GANG}",
    ),
    "space": (
        {f"{GANG}/groups": '["space"]'}, {},
        f"annotations[{GANG}/groups][0]: got 'space', {ONE_GANG}",
    ),
    "time": (
        {}, {"scheduleTimeoutSeconds": -3},
        "spec.scheduleTimeoutSeconds: got -3, expected a number of seconds of 0 or more",
    ),
}  # fmt: skip


def test_pod_groups_say_what_counts_as_absent_in_them() -> None:
    async def story(cluster: Cluster) -> None:
        for name, (said, spec, _) in POD_GROUPS.items():
            document = sigs("PodGroup", name, {"minMember": 1, **spec})
            document["metadata"]["annotations"] = said
            await cluster.add(document)
        await asyncio.sleep(5)
        for name, (_, _, line) in POD_GROUPS.items():
            line = f"PodGroup default/{name}: {line}"
            assert await cluster.events(name) == [("Warning", "Invalid", line, 1)]
            at = f"/apis/{SIGS}/namespaces/default/podgroups"
            assert await cluster.cell(at, name, "Problem") == line

    play(story)


def test_quotas_say_what_counts_as_absent_in_them_until_it_is_mended() -> None:
    labels = (
        f"ElasticQuota default/yes: labels[{TREE}/is-parent]: got 'yes', expected true or false"
    )
    weight = (
        f"ElasticQuota default/less: annotations[{TREE}/shared-weight][cpu]: "
        "got '-4', expected a weight of 0 or more"
    )
    spaces = (
        f"ElasticQuota default/ns: annotations[{TREE}/namespaces]: got 'default', "
        "expected JSON (JSON is malformed: invalid character (byte 0))"
    )

    async def story(cluster: Cluster) -> None:
        limits = {"min": {"cpu": "1"}, "max": {"cpu": "2"}}
        less = sigs("ElasticQuota", "less", limits)
        less["metadata"]["annotations"] = {f"{TREE}/shared-weight": '{"cpu": "-4"}'}
        await cluster.add(
            sigs("ElasticQuota", "yes", limits, **{"is-parent": "yes"}), less,
            sigs("ElasticQuota", "ns", limits),
        )  # fmt: skip
        await asyncio.sleep(5)
        # What is written later is seen as well, though the tree stays as it is.
        change = {"metadata": {"annotations": {f"{TREE}/namespaces": "default"}}}
        await cluster.client.patch(QUOTA, "ns", Patch.merge(change), "default")
        await asyncio.sleep(5)
        for name, line in (("yes", labels), ("less", weight), ("ns", spaces)):
            said = (await cluster.get(QUOTA, name, "default"))["metadata"]["annotations"]
            assert said[PROBLEM] == line
            assert await cluster.events(name) == [("Warning", "Invalid", line, 1)]
        change = {"metadata": {"annotations": {f"{TREE}/namespaces": '["default"]'}}}
        await cluster.client.patch(QUOTA, "ns", Patch.merge(change), "default")
        await asyncio.sleep(5)
        assert PROBLEM not in (await cluster.get(QUOTA, "ns", "default"))["metadata"]["annotations"]

    play(story)


def test_quotas_in_a_circle_name_the_label_and_who_hangs_on_them() -> None:
    at = f"labels[{TREE}/parent]"
    circle = f"ElasticQuota default/b: {at}: got 'a', expected a parent that is not below the group"
    above = f"ElasticQuota default/a: {at}: got 'b', expected a quota that is in force"

    async def story(cluster: Cluster) -> None:
        limits = {"min": {"cpu": "1"}, "max": {"cpu": "2"}}
        parent = {"is-parent": "true"}
        await cluster.add(sigs("ElasticQuota", "a", limits, parent="b", **parent))
        await cluster.add(sigs("ElasticQuota", "b", limits, parent="a", **parent))
        await asyncio.sleep(5)
        for name, line in (("b", circle), ("a", above)):
            said = (await cluster.get(QUOTA, name, "default"))["metadata"]["annotations"]
            assert said[PROBLEM] == line

    play(story)


def test_a_node_says_what_counts_as_absent_in_it_until_it_is_mended() -> None:
    thresholds = "scheduling.koordinator.sh/usage-thresholds"
    first = f"Node n: annotations[{thresholds}]: got 7, expected an object"
    held = "node.koordinator.sh/reservation"
    less = f"Node n: annotations[{held}].resources[cpu]: got '-2', expected an amount of 0 or more"
    policy = (
        "Node n: labels[node.koordinator.sh/numa-topology-policy]: got 'Single', "
        "expected BestEffort or Restricted or SingleNUMANode"
    )

    async def story(cluster: Cluster) -> None:
        node = known("v1", "Node")
        said = {"annotations": {thresholds: "7"}}
        await cluster.client.patch(node, "n", Patch.merge({"metadata": said}))
        await asyncio.sleep(5)
        assert await cluster.events("n") == [("Warning", "Invalid", first, 1)]
        below = {"annotations": {thresholds: None, held: '{"resources":{"cpu":"-2"}}'}}
        await cluster.client.patch(node, "n", Patch.merge({"metadata": below}))
        await asyncio.sleep(5)
        assert [each[2] for each in await cluster.events("n")] == [first, less]
        change = {
            "annotations": {held: None},
            "labels": {"node.koordinator.sh/numa-topology-policy": "Single"},
        }
        await cluster.client.patch(node, "n", Patch.merge({"metadata": change}))
        await asyncio.sleep(5)
        assert [each[2] for each in await cluster.events("n")] == [first, less, policy]
        mended = {"labels": {"node.koordinator.sh/numa-topology-policy": None}}
        await cluster.client.patch(node, "n", Patch.merge({"metadata": mended}))
        await asyncio.sleep(5)
        assert cluster.app.world.invalid.message(Node, "n") == ""
        assert len(await cluster.events("n")) == 3

    play(story)


def test_explain_names_the_quota_and_the_reservation_that_are_not_there() -> None:
    async def story(cluster: Cluster) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        spec = {"containers": [container], "schedulerName": "koord-scheduler"}
        affinity = {"scheduling.koordinator.sh/reservation-affinity": '{"name": "ghost"}'}
        metas: list[dict[str, Any]] = [
            {"name": "q", "labels": {f"{TREE}/name": "gost"}},
            {"name": "r", "annotations": affinity},
        ]
        for meta in metas:
            meta["namespace"] = "default"
            await cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await asyncio.sleep(5)
        assert cluster.app.explainer.pod("default", "q").notes == [
            "There is no quota gost, which the pod names: it counts in koordinator-default-quota"
        ]
        assert cluster.app.explainer.pod("default", "r").notes == [
            "There is no Reservation ghost, which the pod insists on"
        ]

    play(story)


PODS = {
    "rank": (
        {"koordinator.sh/priority": "high"}, {},
        "labels[koordinator.sh/priority]: got 'high', expected an integer of 32 bits",
    ),
    "class": (
        {"koordinator.sh/priority-class": "koord-foo"}, {},
        "labels[koordinator.sh/priority-class]: got 'koord-foo', "
        "expected koord-prod, koord-mid, koord-batch or koord-free",
    ),
    "switch": (
        {f"{TREE}/preemptible": "no"}, {},
        f"labels[{TREE}/preemptible]: got 'no', expected true or false",
    ),
    "gang": (
        {}, {f"{GANG}/name": "g", f"{GANG}/min-available": "1", f"{GANG}/mode": "strict"},
        f"annotations[{GANG}/mode]: got 'strict', expected Strict or NonStrict",
    ),
}  # fmt: skip


def test_pods_say_what_counts_as_absent_in_them_though_they_run() -> None:
    async def story(cluster: Cluster) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        spec = {"containers": [container], "schedulerName": "koord-scheduler"}
        for name, (labels, said, _) in PODS.items():
            meta = {"name": name, "namespace": "default", "labels": labels}
            meta["annotations"] = said
            await cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await asyncio.sleep(30)
        for name, (_, _, line) in PODS.items():
            told = [each for each in await cluster.events(name) if each[1] != "Scheduled"]
            assert told == [("Warning", "Invalid", f"Pod default/{name}: {line}{ABSENT}", 1)]
            assert (await cluster.client.get(Pod, name, "default")).spec.node_name == "n"

    play(story)
