# SPDX-License-Identifier: Apache-2.0
"""StatefulSets keep names and order; DaemonSets have one pod on every node that takes it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from koord.api import codec
from koord.api.kinds.node import Node
from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import DAEMON_SET, POD, STATEFUL_SET
from koord.controlplane.controllers.workload import daemonsets, statefulsets
from tests.controlplane.controllers.small_cluster import SmallCluster

TEMPLATE = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"image": "a"}]}}


def workload(name: str, **spec: Any) -> dict[str, Any]:
    template = {**TEMPLATE, "spec": {"containers": [{"image": "a"}]}}
    selector = {"matchLabels": {"app": "db"}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, **spec},
        "status": {},
    }


def step_stateful_set(cluster: SmallCluster) -> bool:
    owner = cluster.owner(STATEFUL_SET, "db")
    uid = owner.metadata.uid
    known = cluster.revisions(uid)
    plan = statefulsets.plan(owner, cluster.owned(POD, uid), known, {}, cluster.now)
    return cluster.apply(STATEFUL_SET, "db", plan)


def step_daemon_set(cluster: SmallCluster, nodes: list[Node]) -> bool:
    owner = cluster.owner(DAEMON_SET, "ds")
    uid = owner.metadata.uid
    known = cluster.revisions(uid)
    plan = daemonsets.plan(owner, cluster.owned(POD, uid), known, nodes, cluster.now)
    return cluster.apply(DAEMON_SET, "ds", plan)


def settle(cluster: SmallCluster, nodes: list[Node] | None = None) -> None:
    for _ in range(100):
        changed = step_stateful_set(cluster) if nodes is None else step_daemon_set(cluster, nodes)
        for pod in cluster.pods():
            if pod["metadata"].get("deletionTimestamp"):
                cluster.vanish(pod)
                changed = True
            elif pod["status"]["phase"] == "Pending":
                cluster.ready(pod)
                changed = True
        if not changed:
            return
    raise AssertionError("it does not come to rest")


def images(cluster: SmallCluster) -> dict[str, str]:
    return {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in cluster.pods()}


def set_image(document: dict[str, Any], image: str) -> None:
    document["spec"]["template"]["spec"]["containers"][0]["image"] = image


@given(st.integers(0, 4), st.integers(0, 4), st.data())
def test_an_ordered_set_changes_one_pod_at_a_time(first: int, then: int, data: DataObject) -> None:
    cluster = SmallCluster()
    document = cluster.add(STATEFUL_SET, workload("db", replicas=first))
    settle(cluster)
    assert sorted(images(cluster)) == [f"db-{n}" for n in range(first)]
    document["spec"]["replicas"] = then
    if data.draw(st.booleans()):
        set_image(document, "b")
    for _ in range(data.draw(st.integers(0, 15))):
        before = {p["metadata"]["uid"] for p in cluster.pods()}
        unready = [p for p in cluster.pods() if p["status"]["phase"] == "Pending"]
        leaving = [p for p in cluster.pods() if p["metadata"].get("deletionTimestamp")]
        match data.draw(st.sampled_from(["round", "ready", "gone"])):
            case "round":
                step_stateful_set(cluster)
                now = {p["metadata"]["uid"] for p in cluster.pods()}
                assert len(now - before) <= 1
            case "ready" if unready:
                cluster.ready(unready[0])
            case "gone" if leaving:
                cluster.vanish(leaving[0])
        waiting = [pod for pod in cluster.all(POD) if not pods.is_ready(pod)]
        ending = [p for p in cluster.pods() if p["metadata"].get("deletionTimestamp")]
        assert len(waiting) + len(ending) <= 1
        ordinals = sorted(int(p["metadata"]["name"][3:]) for p in cluster.pods())
        low = [n for n in ordinals if n < min(first, then)]
        assert len(low) >= min(first, then) - 1
    settle(cluster)
    image = document["spec"]["template"]["spec"]["containers"][0]["image"]
    assert images(cluster) == {f"db-{n}": image for n in range(then)}
    status = document["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert status["currentReplicas"] == then


def test_a_partition_holds_the_lower_pods_back_even_when_they_are_made_anew() -> None:
    cluster = SmallCluster()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    document = cluster.add(STATEFUL_SET, workload("db", replicas=4, updateStrategy=strategy))
    settle(cluster)
    set_image(document, "b")
    settle(cluster)
    assert images(cluster) == {"db-0": "a", "db-1": "a", "db-2": "b", "db-3": "b"}
    del cluster.documents["Pod", "default/db-0"]
    settle(cluster)
    assert images(cluster)["db-0"] == "a"
    document["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0
    settle(cluster)
    assert set(images(cluster).values()) == {"b"}


def test_a_parallel_set_makes_all_pods_at_once_and_on_delete_replaces_none() -> None:
    cluster = SmallCluster()
    spec = {"podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"}}
    document = cluster.add(STATEFUL_SET, workload("db", replicas=3, **spec))
    step_stateful_set(cluster)
    assert sorted(images(cluster)) == ["db-0", "db-1", "db-2"]
    settle(cluster)
    set_image(document, "b")
    settle(cluster)
    assert set(images(cluster).values()) == {"a"}
    cluster.documents.pop(("Pod", "default/db-1"))
    settle(cluster)
    assert images(cluster)["db-1"] == "b"


def test_pods_of_a_set_carry_their_name_index_and_claims() -> None:
    cluster = SmallCluster()
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = {"serviceName": "svc", "volumeClaimTemplates": [claim]}
    cluster.add(STATEFUL_SET, workload("db", replicas=1, **spec))
    settle(cluster)
    pod = cluster.pods()[0]
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "svc")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    assert pod["spec"]["volumes"] == [volume]
    stored = cluster.documents["PersistentVolumeClaim", "default/data-db-0"]
    assert stored["metadata"]["labels"] == {"app": "db"}


def test_a_template_that_comes_back_gets_its_old_revision() -> None:
    cluster = SmallCluster()
    document = cluster.add(STATEFUL_SET, workload("db", replicas=1))
    settle(cluster)
    first = document["status"]["updateRevision"]
    for image in ("b", "a"):
        set_image(document, image)
        settle(cluster)
    assert document["status"]["updateRevision"] == first
    numbers = [r.revision for r in cluster.revisions(document["metadata"]["uid"])]
    assert sorted(numbers) == [2, 3]


def node(name: str, **spec: Any) -> Node:
    labels = spec.pop("labels", {})
    return codec.convert({"metadata": {"name": name, "labels": labels}, "spec": spec}, Node, name)


def test_daemons_run_where_they_may_and_nowhere_else() -> None:
    cluster = SmallCluster()
    document = cluster.add(DAEMON_SET, workload("ds"))
    document["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    ssd = {"disk": "ssd"}
    taint = {"key": "mine", "effect": "NoSchedule"}
    nodes = [
        node("a", labels=ssd),
        node("b"),
        node("c", labels=ssd, taints=[taint]),
        node("d", labels=ssd, unschedulable=True,
             taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
    ]  # fmt: skip
    settle(cluster, nodes)
    assert sorted(daemonsets.node_of(pod) for pod in cluster.all(POD)) == ["a", "d"]
    assert document["status"]["desiredNumberScheduled"] == 2
    # A taint that keeps new pods away leaves running ones; one that evicts does not.
    mild, harsh = dict(taint), {"key": "mine", "effect": "NoExecute"}
    settle(cluster, [node("a", labels=ssd, taints=[mild]), nodes[3]])
    assert len(cluster.pods()) == 2
    assert document["status"]["numberMisscheduled"] == 1
    settle(cluster, [node("a", labels=ssd, taints=[harsh]), nodes[3]])
    assert [pod["spec"]["nodeName"] for pod in cluster.pods()] == ["d"]


@given(st.integers(1, 4), st.integers(1, 3), st.data())
def test_daemons_roll_under_their_bound(count: int, most: int, data: DataObject) -> None:
    cluster = SmallCluster()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}}
    document = cluster.add(DAEMON_SET, workload("ds", updateStrategy=strategy))
    nodes = [node(f"n{number}") for number in range(count)]
    settle(cluster, nodes)
    set_image(document, "b")
    for _ in range(data.draw(st.integers(0, 15))):
        unready = [p for p in cluster.pods() if p["status"]["phase"] == "Pending"]
        leaving = [p for p in cluster.pods() if p["metadata"].get("deletionTimestamp")]
        match data.draw(st.sampled_from(["round", "ready", "gone"])):
            case "round":
                step_daemon_set(cluster, nodes)
            case "ready" if unready:
                cluster.ready(unready[0])
            case "gone" if leaving:
                cluster.vanish(leaving[0])
        serving = [pod for pod in cluster.all(POD) if pods.is_active(pod) and pods.is_ready(pod)]
        assert len(serving) >= count - most
    settle(cluster, nodes)
    assert sorted(images(cluster).values()) == ["b"] * count
    assert document["status"]["updatedNumberScheduled"] == count


def test_surging_daemons_start_the_new_pod_first() -> None:
    cluster = SmallCluster()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    document = cluster.add(DAEMON_SET, workload("ds", updateStrategy=strategy))
    nodes = [node("n0"), node("n1")]
    settle(cluster, nodes)
    set_image(document, "b")
    step_daemon_set(cluster, nodes)
    assert sorted(images(cluster).values()) == ["a", "a", "b"]
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in cluster.pods())
    settle(cluster, nodes)
    assert sorted(images(cluster).values()) == ["b", "b"]
