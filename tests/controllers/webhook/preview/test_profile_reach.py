# SPDX-License-Identifier: Apache-2.0
"""Which pods a profile has, would have, and cannot have."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.cluster import Namespace
from koord.api.kinds.meta import ObjectMeta
from koord.controllers.cluster.colocation_profiles.profile_index import usable
from koord.controllers.webhook.preview.profile_reach import PodReach, reach
from tests.controllers.cluster.colocation_profiles.test_effect import profile
from tests.controllers.webhook.pods.scene import BATCH

Document = dict[str, Any]
SPACES = {"jobs": Namespace(metadata=ObjectMeta(name="jobs", labels={"colocation": "on"}))}
SPEC = {
    "namespaceSelector": {"matchLabels": {"colocation": "on"}}, "qosClass": "BE",
    "priorityClassName": "koord-batch",
}  # fmt: skip


def pod(name: str, owner: str = "", **more: Any) -> Document:
    kind, _, of = owner.partition(" ")
    references = [{"kind": kind, "name": of, "uid": of, "controller": True}] if owner else []
    meta = {"name": name, "namespace": "jobs", "uid": name, "ownerReferences": references}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    return {"metadata": {**meta, "labels": more.pop("labels", {})}, "spec": {**spec, **more}}


def told(spec: Document, *pods: Document) -> dict[str, dict[str, int]]:
    rows = reach(usable(profile(spec)), pods, SPACES, {"koord-batch": BATCH})
    return {row.owner: {str(key): count for key, count in row.counts.items()} for row in rows}


def test_pods_count_by_owner() -> None:
    caught = pod("c", labels={"koordinator.sh/qosClass": "BE"}, priority=5500,
                 priorityClassName="koord-batch")  # fmt: skip
    caught["spec"]["containers"][0]["resources"] = {"requests": {"kubernetes.io/batch-cpu": "1k"}}
    half = pod("h", labels={"koordinator.sh/qosClass": "BE"}, priority=5500,
               priorityClassName="koord-batch")  # fmt: skip
    ended = {**pod("e"), "status": {"phase": "Succeeded"}}
    elsewhere = pod("x")
    elsewhere["metadata"]["namespace"] = "shop"
    replicas = [
        pod(f"web-{i}", "ReplicaSet web-7d9", labels={"pod-template-hash": "7d9"}) for i in range(2)
    ]
    assert told(SPEC, caught, half, ended, elsewhere, *replicas, pod("s-0", "StatefulSet s")) == {
        "Deployment web": {"next time": 2}, "Pod c": {"caught": 1}, "Pod h": {"next time": 1},
        "StatefulSet s": {"next time": 1},
    }  # fmt: skip


def test_what_cannot_be_converted_comes_with_its_reason() -> None:
    spec = {**SPEC, "priorityClassName": "", "qosClass": "LSR"}
    [row] = reach(usable(profile(spec)), [pod("a")], SPACES, {})
    assert row.counts == {PodReach.REFUSED: 1}
    assert "LSR without a priority class" in row.reasons[0]
    [row] = reach(usable(profile(SPEC)), [pod("a")], SPACES, {})
    assert row.reasons == ["PriorityClass koord-batch is missing"]
    bad = {**SPEC, "patch": {"spec": {"containers": "none"}}}
    [row] = reach(usable(profile(bad)), [pod("a")], SPACES, {"koord-batch": BATCH})
    assert "spec.patch.spec.containers" in row.reasons[0]


def test_a_share_leaves_some_out() -> None:
    rows = told({**SPEC, "probability": 30}, *(pod(f"p{i}", "Job j") for i in range(400)))
    counts = rows["Job j"]
    assert counts["next time"] + counts["not drawn"] == 400
    assert 70 < counts["next time"] < 170
