# SPDX-License-Identifier: Apache-2.0
"""Deployments and ReplicaSets: a rollout keeps its bounds whatever comes when, and ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import DEPLOYMENT, POD, REPLICA_SET, timestamp
from koord.controlplane.controllers.base.plans import Create, Delete, PatchAction
from koord.controlplane.controllers.workload import deployments, replicasets
from koord.controlplane.controllers.workload.rollout import (
    ReplicaSetSize,
    RolloutBounds,
    grown,
    proportional,
    shrunk,
)
from tests.controlplane.controllers.small_cluster import START, SmallCluster

ROUNDS = 200


def deployment(replica_count: int, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": "a"}]}}
    return {
        "metadata": {"name": "web", "annotations": {"team": "x"}},
        "spec": {
            "replicas": replica_count,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    bounds = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": bounds}


def step_deployment(cluster: SmallCluster) -> bool:
    owner = cluster.owner(DEPLOYMENT, "web")
    running = cluster.all(POD)
    plan = deployments.plan(owner, cluster.all(REPLICA_SET), running, cluster.now)
    return cluster.apply(DEPLOYMENT, "web", plan)


def step_replica_set(cluster: SmallCluster, name: str) -> bool:
    owner = cluster.owner(REPLICA_SET, name)
    owned = cluster.owned(POD, owner.metadata.uid)
    plan = replicasets.plan(owner, owned, [], cluster.now)
    return cluster.apply(REPLICA_SET, name, plan)


def settle(cluster: SmallCluster) -> None:
    """Runs all controllers, and every pod becomes ready, until nothing changes."""
    for _ in range(ROUNDS):
        changed = step_deployment(cluster)
        for replica_set in cluster.all(REPLICA_SET):
            changed |= step_replica_set(cluster, replica_set.metadata.name)
        for pod in cluster.pods():
            if pod["metadata"].get("deletionTimestamp"):
                cluster.vanish(pod)
                changed = True
            elif pod["status"]["phase"] == "Pending":
                cluster.ready(pod)
                changed = True
        if not changed:
            return
    raise AssertionError("the rollout does not end")


def available(cluster: SmallCluster) -> int:
    active = [pod for pod in cluster.all(POD) if pods.is_active(pod)]
    return sum(pods.is_available(pod, 0, cluster.now) for pod in active)


bounds = st.one_of(st.integers(0, 4), st.sampled_from(["0%", "10%", "25%", "50%", "100%"]))


@given(st.integers(1, 4), bounds, bounds, st.data())
def test_a_rollout_keeps_its_bounds_whatever_comes_when(
    size: int, surge: int | str, unavailable: int | str, data: DataObject
) -> None:
    cluster = SmallCluster()
    cluster.add(DEPLOYMENT, deployment(size, strategy=rolling(surge, unavailable)))
    settle(cluster)
    limits = RolloutBounds.of(cluster.owner(DEPLOYMENT, "web").spec)
    spec = cluster.documents["Deployment", "default/web"]["spec"]
    spec["template"]["spec"]["containers"][0]["image"] = "b"
    for _ in range(data.draw(st.integers(0, 20))):
        event = data.draw(st.sampled_from(["deployment", "replicaset", "ready", "gone"]))
        waiting = [pod for pod in cluster.pods() if pod["status"]["phase"] == "Pending"]
        leaving = [pod for pod in cluster.pods() if pod["metadata"].get("deletionTimestamp")]
        if event == "deployment":
            step_deployment(cluster)
        elif event == "replicaset":
            sets = [rs.metadata.name for rs in cluster.all(REPLICA_SET)]
            step_replica_set(cluster, data.draw(st.sampled_from(sets)))
        elif event == "ready" and waiting:
            cluster.ready(waiting[data.draw(st.integers(0, len(waiting) - 1))])
        elif event == "gone" and leaving:
            cluster.vanish(leaving[data.draw(st.integers(0, len(leaving) - 1))])
        assert sum(rs.spec["replicas"] for rs in cluster.all(REPLICA_SET)) <= limits.most
        assert available(cluster) >= limits.least_available
    settle(cluster)
    images = [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()]
    assert images == ["b"] * size
    status = cluster.owner(DEPLOYMENT, "web").status
    reasons = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert reasons["Progressing"] == ("True", "NewReplicaSetAvailable")
    assert reasons["Available"] == ("True", "MinimumReplicasAvailable")
    assert (status["replicas"], status["updatedReplicas"]) == (size, size)


@given(st.integers(0, 6), st.integers(0, 6), st.booleans())
def test_a_deployment_follows_its_size(before: int, after: int, mid_rollout: bool) -> None:
    cluster = SmallCluster()
    cluster.add(DEPLOYMENT, deployment(before))
    settle(cluster)
    document = cluster.documents["Deployment", "default/web"]
    if mid_rollout:
        document["spec"]["template"]["spec"]["containers"][0]["image"] = "b"
        step_deployment(cluster)
    document["spec"]["replicas"] = after
    settle(cluster)
    assert len(cluster.pods()) == after
    sizes = [rs.spec["replicas"] for rs in cluster.all(REPLICA_SET)]
    assert sum(sizes) == after


def test_recreate_starts_nothing_before_the_last_old_pod_has_gone() -> None:
    cluster = SmallCluster()
    document = cluster.add(DEPLOYMENT, deployment(3, strategy={"type": "Recreate"}))
    settle(cluster)
    document["spec"]["template"]["spec"]["containers"][0]["image"] = "b"
    while step_deployment(cluster):
        for replica_set in cluster.all(REPLICA_SET):
            step_replica_set(cluster, replica_set.metadata.name)
    assert [rs.spec["replicas"] for rs in cluster.all(REPLICA_SET)] == [0]
    assert len(cluster.pods()) == 3
    settle(cluster)
    assert [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()] == ["b"] * 3


def test_a_rollback_takes_the_old_replica_set_under_a_new_number() -> None:
    cluster = SmallCluster()
    document = cluster.add(DEPLOYMENT, deployment(2))
    settle(cluster)
    for image in ("b", "a"):
        document["spec"]["template"]["spec"]["containers"][0]["image"] = image
        settle(cluster)
    sets = {rs.spec["template"]["spec"]["containers"][0]["image"]: rs
            for rs in cluster.all(REPLICA_SET)}  # fmt: skip
    annotations = sets["a"].metadata.annotations
    assert annotations[deployments.REVISION] == "3"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert annotations["team"] == "x"
    assert document["metadata"]["annotations"][deployments.REVISION] == "3"
    assert sets["b"].metadata.annotations[deployments.REVISION] == "2"


def test_old_replica_sets_are_kept_up_to_the_limit() -> None:
    cluster = SmallCluster()
    document = cluster.add(DEPLOYMENT, deployment(1, revisionHistoryLimit=2))
    for image in "abcdef":
        document["spec"]["template"]["spec"]["containers"][0]["image"] = image
        settle(cluster)
    images = {rs.spec["template"]["spec"]["containers"][0]["image"]
              for rs in cluster.all(REPLICA_SET)}  # fmt: skip
    assert images == {"d", "e", "f"}


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    cluster = SmallCluster()
    document = cluster.add(DEPLOYMENT, deployment(2))
    settle(cluster)
    document["spec"]["paused"] = True
    document["spec"]["template"]["spec"]["containers"][0]["image"] = "b"
    document["spec"]["replicas"] = 4
    settle(cluster)
    assert [pod["spec"]["containers"][0]["image"] for pod in cluster.pods()] == ["a"] * 4
    reasons = {c["type"]: c["reason"] for c in document["status"]["conditions"]}
    assert reasons["Progressing"] == "DeploymentPaused"


def test_a_rollout_without_progress_times_out() -> None:
    cluster = SmallCluster()
    document = cluster.add(DEPLOYMENT, deployment(1, progressDeadlineSeconds=60))
    for _ in range(5):
        step_deployment(cluster)
        for replica_set in cluster.all(REPLICA_SET):
            step_replica_set(cluster, replica_set.metadata.name)
    owner = cluster.owner(DEPLOYMENT, "web")
    plan = deployments.plan(owner, cluster.all(REPLICA_SET), [], cluster.now)
    assert plan.again_seconds == 60
    cluster.now += 61
    step_deployment(cluster)
    reasons = {c["type"]: c["reason"] for c in document["status"]["conditions"]}
    assert reasons["Progressing"] == "ProgressDeadlineExceeded"


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4),
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
    st.integers(0, 20),
    st.integers(0, 5),
    st.integers(0, 20),
)
def test_shrinking_never_counts_on_pods_that_are_not_there(
    old: list[tuple[int, int]], new: tuple[int, int], size: int, surge: int, unavailable: int
) -> None:
    limits = RolloutBounds(size, surge, min(unavailable, size))
    olds = [
        ReplicaSetSize(replicasets, min(available, replicasets)) for replicasets, available in old
    ]
    fresh = ReplicaSetSize(new[0], min(new[1], new[0]))
    sizes = shrunk(olds, fresh, limits)
    # The worst case: of a ReplicaSet that shrinks, available pods go only when no others are left.
    left = sum(min(size, known.available) for size, known in zip(sizes, olds, strict=True))
    before = sum(known.available for known in olds) + fresh.available
    assert left + fresh.available >= min(before, limits.least_available)
    assert all(0 <= size <= known.replicas for size, known in zip(sizes, olds, strict=True))


@given(st.integers(0, 30), st.integers(0, 60), st.integers(0, 30), st.integers(0, 10))
def test_growing_stays_under_the_surge(new: int, others: int, size: int, surge: int) -> None:
    limits = RolloutBounds(size, surge, 1)
    grown_to = grown(new, new + others, limits)
    assert grown_to <= max(size, 0)
    if grown_to > new:
        assert grown_to + others <= limits.most


@given(st.lists(st.integers(1, 30), min_size=2, max_size=5), st.integers(0, 60), st.integers(0, 10))
def test_proportional_scaling_reaches_the_allowed_total(
    sizes: list[int], size: int, surge: int
) -> None:
    ordered = [ReplicaSetSize(n, n, sum(sizes)) for n in sorted(sizes, reverse=True)]
    limits = RolloutBounds(size, surge, 0)
    scaled = proportional(ordered, sum(sizes), limits)
    assert all(n >= 0 for n in scaled)
    assert sum(scaled) == (limits.most if size else 0)


def pod_with(**fields: Any) -> Pod:
    metadata = {"name": "p", "namespace": "default", "labels": {"app": "web"}}
    document = {"metadata": {**metadata, **fields.get("metadata", {})}, "spec": {}, "status": {}}
    document["spec"] = fields.get("spec", {})
    document["status"] = fields.get("status", {"phase": "Running"})
    return codec.convert(document, Pod, "pod")


READY = {
    "phase": "Running",
    "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(START - 1000)}
    ],
}
RECENT = {
    "phase": "Running",
    "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(START - 10)}
    ],
}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"spec": {}}, {"spec": {"nodeName": "n"}}),
        ({"status": {"phase": "Pending"}}, {"status": {"phase": "Running"}}),
        ({"status": {"phase": "Running"}}, {"status": READY}),
        ({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}},
          "status": READY}, {"status": READY}),
        ({"status": RECENT}, {"status": READY}),
        ({"status": {"phase": "Running", "containerStatuses": [{"restartCount": 3}]}},
         {"status": {"phase": "Running"}}),
        ({"metadata": {"creationTimestamp": timestamp(START - 10)}},
         {"metadata": {"creationTimestamp": timestamp(START - 10_000)}}),
    ],
)  # fmt: skip
def test_what_is_worth_less_goes_first(first: dict[str, Any], second: dict[str, Any]) -> None:
    low, high = pod_with(**first), pod_with(**second)
    low.metadata.uid, high.metadata.uid = "z", "a"
    assert pods.deletion_order([high, low], [], START)[0] is low


def test_a_crowded_node_gives_up_pods_first() -> None:
    on = [pod_with(spec={"nodeName": name}, status=READY) for name in ("a", "a", "b")]
    for number, pod in enumerate(on):
        pod.metadata.uid = f"u{2 - number}"
    order = pods.deletion_order(on, on, START)
    assert [pod.spec.node_name for pod in order] == ["a", "a", "b"]


def test_replica_sets_adopt_and_release_by_selector() -> None:
    cluster = SmallCluster()
    spec = deployment(2)["spec"]
    cluster.add(REPLICA_SET, {"metadata": {"name": "rs"}, "spec": spec})
    owner = cluster.owner(REPLICA_SET, "rs")
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs",
                 "uid": owner.metadata.uid, "controller": True}  # fmt: skip
    cluster.add(POD, {"metadata": {"name": "orphan", "labels": {"app": "web"}}, "spec": {}})
    cluster.add(POD, {"metadata": {"name": "stranger", "labels": {"app": "db"},
                                   "ownerReferences": [reference]}, "spec": {}})  # fmt: skip
    plan = replicasets.plan(owner, cluster.all(POD), [], cluster.now)
    patched = {
        action.name: action.body for action in plan.actions if isinstance(action, PatchAction)
    }
    assert patched["orphan"]["metadata"]["ownerReferences"][0]["uid"] == owner.metadata.uid
    assert patched["stranger"]["metadata"]["ownerReferences"][0]["$patch"] == "delete"
    assert sum(isinstance(action, Create) for action in plan.actions) == 1
    assert not any(isinstance(action, Delete) for action in plan.actions)
