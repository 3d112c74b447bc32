# SPDX-License-Identifier: Apache-2.0
"""Moves under way by an index of open jobs, against a look at all jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.meta import ObjectMeta, ObjectReference
from koord.api.kinds.migration import PodMigrationJob, PodMigrationJobSpec
from koord.controllers.descheduler.planning.current_cluster import CurrentCluster, MoveUnderWay
from tests.controllers.descheduler.world import pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.pod import Pod

_PHASES = ["", "Pending", "Running", "Succeeded", "Failed"]
_NAMES = ["a", "b", "c"]


class _Jobs:
    """A view that tells of changes."""

    def __init__(self) -> None:
        self.by_name: dict[str, PodMigrationJob] = {}

    def on_change(
        self, added: Callable[..., None], updated: Callable[..., None], deleted: Callable[..., None]
    ) -> None:
        self._added, self._updated, self._deleted = added, updated, deleted

    def put(self, job: PodMigrationJob) -> None:
        old = self.by_name.get(job.metadata.name)
        self.by_name[job.metadata.name] = job
        if old is None:
            self._added(job)
        else:
            self._updated(old, job)

    def remove(self, name: str) -> None:
        job = self.by_name.pop(name, None)
        if job is not None:
            self._deleted(job, False)


class _Pods:
    """The pods of a cluster; counts who is looked up."""

    def __init__(self) -> None:
        self.looks = 0

    def pod(self, namespace: str, name: str) -> Pod | None:
        self.looks += 1
        return pod(name, namespace=namespace) if not name.endswith("c") else None


def _job(name: str, namespace: str, of: str, phase: str, node: str) -> PodMigrationJob:
    spec = PodMigrationJobSpec(pod_ref=ObjectReference(namespace=namespace, name=of))
    job = PodMigrationJob(metadata=ObjectMeta(name=name), spec=spec)
    job.status.phase, job.status.node_name = phase, node
    return job


def _all_looked_at(jobs: _Jobs, pods: _Pods) -> list[MoveUnderWay]:
    """What the index is to say, by its definition."""
    moves: dict[str, MoveUnderWay] = {}
    for _, job in sorted(jobs.by_name.items()):
        ref = job.spec.pod_ref
        found = None if ref is None else pods.pod(ref.namespace, ref.name)
        if found is not None and job.status.phase in ("", "Pending", "Running"):
            placed = job.status.node_name
            moves.setdefault(found.metadata.uid, MoveUnderWay(found, placed, bool(placed)))
    return list(moves.values())


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["j1", "j2", "j3", "j4"]), st.sampled_from(["default", "other"]),
        st.sampled_from(_NAMES), st.sampled_from([*_PHASES, "gone"]), st.sampled_from(["", "n2"]),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=60)
@given(changes=CHANGES)
def test_the_index_says_what_a_look_at_all_jobs_does(changes: list[Any]) -> None:
    jobs, pods = _Jobs(), _Pods()
    live = CurrentCluster(pods, jobs)  # type: ignore[arg-type]
    for name, namespace, of, phase, node in changes:
        if phase == "gone":
            jobs.remove(name)
        else:
            # Uids follow from names, and are each one pod's.
            jobs.put(_job(name, namespace, f"{namespace}-{of}", phase, node))
        wanted = _all_looked_at(jobs, pods)
        assert list(live.under_way()) == wanted
        own = [move for move in wanted if move.pod.metadata.namespace == "other"]
        assert list(live.under_way("other")) == own
        for move in wanted:
            assert live.is_placed(move.pod) == move.is_placed


def test_a_step_looks_at_jobs_of_its_own_namespace_and_pod_alone() -> None:
    jobs, pods = _Jobs(), _Pods()
    live = CurrentCluster(pods, jobs)  # type: ignore[arg-type]
    for number in range(200):
        jobs.put(_job(f"j{number}", "other", f"p{number}", "Running", "n2"))
        jobs.put(_job(f"k{number}", "default", f"p{number}", "Succeeded", "n2"))
    jobs.put(_job("own", "default", "a", "Running", "n2"))
    pods.looks = 0
    assert len(list(live.under_way("default"))) == 1
    assert live.is_placed(pod("a"))
    assert pods.looks == 2
