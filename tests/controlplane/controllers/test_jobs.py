# SPDX-License-Identifier: Apache-2.0
"""Jobs: every pod counts once, whatever is lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from koord.controlplane.controllers.base.objects import JOB, POD
from koord.controlplane.controllers.workload import jobs
from koord.controlplane.controllers.workload.completion_indexes import Indexes
from tests.controlplane.controllers.small_cluster import SmallCluster


def job(**spec: Any) -> dict[str, Any]:
    labels = {"job-name": "work"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    given_spec = {"parallelism": 2, "completions": 3, "backoffLimit": 6, **spec}
    return {
        "metadata": {"name": "work"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **given_spec},
        "status": {},
    }


def step(cluster: SmallCluster, upto: int | None = None, status: bool = True) -> bool:
    """One round; only the first actions are done where ``upto`` says so, and the status may be
    lost."""
    owner = cluster.owner(JOB, "work")
    plan = jobs.plan(owner, cluster.owned(POD, owner.metadata.uid), cluster.now)
    if upto is not None:
        plan.actions = plan.actions[:upto]
    if not status or (upto is not None and upto < len(plan.actions)):
        plan.status = None
    return cluster.apply(JOB, "work", plan)


def settle(cluster: SmallCluster) -> None:
    for _ in range(100):
        changed = step(cluster)
        for pod in cluster.pods():
            if pod["metadata"].get("deletionTimestamp"):
                cluster.vanish(pod)
        if not changed:
            return
    raise AssertionError("the job does not come to rest")


def condition(cluster: SmallCluster, name: str) -> dict[str, Any] | None:
    found = cluster.documents["Job", "default/work"]["status"].get("conditions", [])
    return next((c for c in found if c["type"] == name and c["status"] == "True"), None)


@given(st.booleans(), st.integers(1, 4), st.integers(1, 3), st.data())
def test_no_pod_is_lost_and_none_counts_twice(
    indexed: bool, completions: int, parallelism: int, data: DataObject
) -> None:
    cluster = SmallCluster()
    mode = {"completionMode": "Indexed"} if indexed else {}
    cluster.add(JOB, job(completions=completions, parallelism=parallelism, **mode))
    ended = {"Succeeded": 0, "Failed": 0}
    won: set[str] = set()
    for _ in range(data.draw(st.integers(0, 20))):
        running = [pod for pod in cluster.pods() if pod["status"]["phase"] == "Pending"]
        match data.draw(st.sampled_from(["round", "half", "lost", "end", "later"])):
            case "round":
                step(cluster)
            case "half":
                step(cluster, upto=data.draw(st.integers(0, 3)))
            case "lost":
                step(cluster, status=False)
            case "later":
                cluster.now += 700
            case "end" if running:
                pod = running[data.draw(st.integers(0, len(running) - 1))]
                phase = data.draw(st.sampled_from(["Succeeded", "Succeeded", "Failed"]))
                cluster.end(pod, phase)
                ended[phase] += 1
                if phase == "Succeeded":
                    won.add(pod["metadata"].get("annotations", {}).get(jobs.INDEX, ""))
        status = cluster.documents["Job", "default/work"].get("status") or {}
        assert status.get("succeeded", 0) <= ended["Succeeded"]
        assert status.get("failed", 0) <= ended["Failed"]
        live = [pod for pod in cluster.pods() if pod["status"]["phase"] == "Pending"]
        assert len(live) <= parallelism
    for _ in range(200):
        settle(cluster)
        if condition(cluster, "Complete") or condition(cluster, "Failed"):
            break
        cluster.now += 700
        for pod in cluster.pods():
            if pod["status"]["phase"] == "Pending":
                cluster.end(pod, "Succeeded")
                ended["Succeeded"] += 1
                won.add(pod["metadata"].get("annotations", {}).get(jobs.INDEX, ""))
    status = cluster.documents["Job", "default/work"]["status"]
    assert status.get("failed", 0) == ended["Failed"]
    if indexed:
        assert status.get("succeeded", 0) == len(won)
    else:
        assert status.get("succeeded", 0) == ended["Succeeded"]
    if condition(cluster, "Complete"):
        assert status["succeeded"] == completions
    settle(cluster)
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods())


def test_a_complete_job_says_so_as_kubernetes_does() -> None:
    cluster = SmallCluster()
    cluster.add(JOB, job(completions=1))
    settle(cluster)
    cluster.end(cluster.pods()[0], "Succeeded")
    settle(cluster)
    status = cluster.documents["Job", "default/work"]["status"]
    said = [(c["type"], c["reason"], c["message"]) for c in status["conditions"]]
    message = "Reached expected number of succeeded pods"
    assert said == [("SuccessCriteriaMet", "CompletionsReached", message),
                    ("Complete", "CompletionsReached", message)]  # fmt: skip
    assert status["uncountedTerminatedPods"] == {}
    assert {"startTime", "completionTime"} <= status.keys()


def test_too_many_failures_end_a_job() -> None:
    cluster = SmallCluster()
    cluster.add(JOB, job(backoffLimit=1, completions=2, parallelism=2))
    settle(cluster)
    for pod in cluster.pods():
        cluster.end(pod, "Failed")
    settle(cluster)
    failed = condition(cluster, "Failed")
    assert failed is not None
    assert failed["reason"] == "BackoffLimitExceeded"
    assert len(cluster.pods()) == 2


def test_new_pods_wait_after_a_failure() -> None:
    cluster = SmallCluster()
    cluster.add(JOB, job(completions=1, parallelism=1))
    settle(cluster)
    cluster.end(cluster.pods()[0], "Failed")
    settle(cluster)
    assert len(cluster.pods()) == 1
    cluster.now += 11
    settle(cluster)
    assert len(cluster.pods()) == 2


def test_a_deadline_ends_a_job_and_its_pods() -> None:
    cluster = SmallCluster()
    cluster.add(JOB, job(activeDeadlineSeconds=30))
    settle(cluster)
    cluster.now += 31
    settle(cluster)
    failed = condition(cluster, "Failed")
    assert failed is not None
    assert failed["reason"] == "DeadlineExceeded"
    assert cluster.pods() == []
    assert cluster.documents["Job", "default/work"]["status"]["failed"] == 2


def test_a_suspended_job_gives_its_pods_back_uncounted_and_resumes() -> None:
    cluster = SmallCluster()
    document = cluster.add(JOB, job())
    settle(cluster)
    assert len(cluster.pods()) == 2
    document["spec"]["suspend"] = True
    settle(cluster)
    assert cluster.pods() == []
    assert condition(cluster, "Suspended")
    assert "failed" not in document["status"]
    assert "startTime" not in document["status"]
    document["spec"]["suspend"] = False
    settle(cluster)
    assert len(cluster.pods()) == 2
    assert not condition(cluster, "Suspended")


def test_a_finished_job_is_deleted_when_its_time_is_over() -> None:
    cluster = SmallCluster()
    cluster.add(JOB, job(completions=1, ttlSecondsAfterFinished=100))
    settle(cluster)
    cluster.end(cluster.pods()[0], "Succeeded")
    settle(cluster)
    owner = cluster.owner(JOB, "work")
    assert jobs.plan(owner, [], cluster.now).again_seconds == 100
    cluster.now += 100
    step(cluster)
    assert ("Job", "default/work") not in cluster.documents


def test_indexed_pods_know_their_index() -> None:
    cluster = SmallCluster()
    cluster.add(JOB, job(completionMode="Indexed"))
    settle(cluster)
    pod = cluster.pods()[1]
    assert pod["metadata"]["labels"][jobs.INDEX] == "1"
    assert pod["spec"]["hostname"] == "work-1"
    assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", []), ("3", [3]), ("0,1", [0, 1]), ("0-2,5", [0, 1, 2, 5]), ("1,5-7", [1, 5, 6, 7])],
)
def test_completed_indexes_are_written_as_runs(text: str, indexes: list[int]) -> None:
    assert str(Indexes(indexes)) == text
    assert Indexes.parse(text) == set(indexes)


@given(st.sets(st.integers(0, 60)))
def test_completed_indexes_survive_the_text(indexes: set[int]) -> None:
    assert Indexes.parse(str(Indexes(indexes))) == indexes
