# SPDX-License-Identifier: Apache-2.0
"""Whole stories on the embedded control plane, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from koord.api.kinds.cluster import Event
from koord.base import faults
from koord.base.documents import Document
from koord.base.errors import KoordError
from koord.controlplane.controllers import BuiltinControllers
from koord.controlplane.controllers.base.objects import (
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    PDB,
    POD,
    REPLICA_SET,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
)
from koord.kube.client import Client
from koord.kube.errors import TransportError
from koord.kube.patches import Patch
from tests.controlplane.scene import Scene, play


def workload(kind: str, name: str, ends: str = "", **spec: Any) -> Document:
    labels = {"app": name, **({"ends": ends} if ends else {})}
    group = "batch" if kind == "Job" else "apps"
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "c", "image": "i:1", "resources": {"requests": requests}}
    pod: dict[str, Any] = {"containers": [container]}
    given: dict[str, Any] = {"template": {"metadata": {"labels": labels}, "spec": pod}, **spec}
    if kind == "Job":
        pod["restartPolicy"] = "Never"
    else:
        given["selector"] = {"matchLabels": {"app": name}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": given}


def ready(pods: list[Document]) -> list[Document]:
    return [
        pod
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp")
        and any(c["type"] == "Ready" and c["status"] == "True"
                for c in pod["status"].get("conditions", []))
    ]  # fmt: skip


def set_image(image: str) -> Patch:
    containers = [{"name": "c", "image": image}]
    return Patch.strategic({"spec": {"template": {"spec": {"containers": containers}}}})


def test_a_rollout_from_the_first_pod_to_the_last() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(2)
        await scene.client.create(workload("Deployment", "web", replicas=4))

        async def complete() -> bool:
            found = await scene.client.get(DEPLOYMENT, "web", "default")
            status = found.get("status", {})
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            counts = [status.get(n, 0) for n in ("replicas", "updatedReplicas",
                                                 "availableReplicas")]  # fmt: skip
            return current and counts == [found["spec"]["replicas"]] * 3

        await scene.until(complete)
        least = 4
        await scene.client.patch(DEPLOYMENT, "web", set_image("i:2"), "default")
        for _ in range(60):
            least = min(least, len(ready(await scene.pods("app=web"))))
            if await complete():
                break
        await scene.until(complete)
        assert least >= 3
        pods = await scene.pods("app=web")
        assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["i:2"] * 4
        assert {pod["spec"]["nodeName"] for pod in pods} <= {"n0", "n1"}
        sets = (await scene.client.list(REPLICA_SET, namespace="default")).items
        assert sorted(rs["spec"]["replicas"] for rs in sets) == [0, 4]
        await scene.client.delete(DEPLOYMENT, "web", "default", propagation="Foreground")

        async def gone() -> bool:
            return not await scene.pods("app=web") and not await scene.get(DEPLOYMENT, "web")

        await scene.until(gone)
        assert (await scene.client.list(REPLICA_SET, namespace="default")).items == []

    scene = play(story)
    assert any(reason == "ScalingReplicaSet" for _, reason, _ in scene.events)
    assert any(reason == "SuccessfulCreate" for _, reason, _ in scene.events)


def test_an_evicted_pod_comes_back_as_far_as_its_budget_allows() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(2)
        await scene.client.create(workload("StatefulSet", "db", replicas=3, serviceName="db"))
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}}
        await scene.client.create(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
             "metadata": {"name": "db", "namespace": "default"}, "spec": spec}
        )  # fmt: skip

        async def allowed() -> bool:
            budget = await scene.client.get(PDB, "db", "default")
            status = budget.get("status", {})
            return status.get("disruptionsAllowed") == 1 and status.get("expectedPods") == 3

        await scene.until(allowed)
        before = await scene.client.get(POD, "db-1", "default")
        await scene.client.evict("db-1", "default")

        async def back() -> bool:
            pod = await scene.get(POD, "db-1")
            fresh = pod is not None and pod["metadata"]["uid"] != before["metadata"]["uid"]
            return fresh and len(ready(await scene.pods("app=db"))) == 3

        await scene.until(back)
        await scene.until(allowed)

    play(story)


def test_jobs_end_and_are_counted() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1)
        await scene.client.create(workload("Job", "good", "Succeeded", completions=5,
                                           parallelism=2))  # fmt: skip
        await scene.client.create(workload("Job", "bad", "Failed", backoffLimit=1))

        async def ended() -> bool:
            jobs = [await scene.client.get(JOB, name, "default") for name in ("good", "bad")]
            return all(
                any(c["type"] in ("Complete", "Failed") and c["status"] == "True"
                    for c in job.get("status", {}).get("conditions", []))
                for job in jobs
            )  # fmt: skip

        await scene.until(ended)
        good = await scene.client.get(JOB, "good", "default")
        assert good["status"]["succeeded"] == 5
        assert len(await scene.pods("app=good")) == 5
        bad = await scene.client.get(JOB, "bad", "default")
        assert bad["status"]["failed"] == 2
        assert bad["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"

    play(story)


def test_pods_of_a_deleted_job_go_too() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1)
        await scene.client.create(workload("Job", "work", completions=2, parallelism=2))

        async def running() -> bool:
            return len(ready(await scene.pods("app=work"))) == 2

        await scene.until(running)
        await scene.client.delete(JOB, "work", "default", propagation="Background")

        async def gone() -> bool:
            return await scene.pods("app=work") == []

        await scene.until(gone)

    play(story)


def test_pods_leave_a_node_that_falls_silent() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(2)
        await scene.client.create(workload("Deployment", "web", replicas=2))

        async def served() -> bool:
            return len(ready(await scene.pods("app=web"))) == 2

        await scene.until(served)
        scene.silent.add("n0")

        async def unreachable() -> bool:
            node = await scene.client.get(NODE, "n0")
            keys = {taint["key"] for taint in node["spec"].get("taints", [])}
            return "node.kubernetes.io/unreachable" in keys

        began = scene.clock.wall_seconds()
        await scene.until(unreachable)
        assert 30 <= scene.clock.wall_seconds() - began <= 61

        async def moved() -> bool:
            return {pod["spec"].get("nodeName") for pod in ready(await scene.pods())} == {"n1"}

        await scene.until(moved, seconds=400)
        await scene.client.delete(NODE, "n0")

        async def collected() -> bool:
            return len(await scene.pods("app=web")) == 2

        await scene.until(collected)

    play(story)


def test_a_namespace_goes_with_everything_in_it() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1)
        await scene.client.create({"apiVersion": "v1", "kind": "Namespace",
                                   "metadata": {"name": "team"}})  # fmt: skip

        async def has_account() -> bool:
            return await scene.get(SERVICE_ACCOUNT, "default", "team") is not None

        await scene.until(has_account)
        document = workload("Deployment", "web", replicas=2)
        document["metadata"]["namespace"] = "team"
        await scene.client.create(document)

        async def served() -> bool:
            return len(ready(await scene.pods("app=web", "team"))) == 2

        await scene.until(served)
        await scene.client.delete(NAMESPACE, "team")

        async def gone() -> bool:
            return await scene.get(NAMESPACE, "team") is None

        await scene.until(gone)
        assert await scene.pods("", "team") == []

    play(story)


def test_the_binder_fills_nodes_and_never_overcommits_them() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(5, cpu=4)
        await scene.client.create(workload("Deployment", "web", replicas=25))

        async def full() -> bool:
            pods = await scene.pods("app=web")
            return sum("nodeName" in pod["spec"] for pod in pods) == 20

        await scene.until(full)

        async def told() -> bool:
            waiting = [p for p in await scene.pods("app=web") if "nodeName" not in p["spec"]]
            said = [c.get("reason") for p in waiting for c in p["status"].get("conditions", [])]
            return said.count("Unschedulable") == 5

        await scene.until(told)
        nodes = [pod["spec"].get("nodeName") for pod in await scene.pods("app=web")]
        assert sorted(nodes.count(f"n{number}") for number in range(5)) == [4] * 5
        scale = Patch.merge({"spec": {"replicas": 20}})
        await scene.client.patch(DEPLOYMENT, "web", scale, "default")

        async def settled() -> bool:
            return len(ready(await scene.pods("app=web"))) == 20

        await scene.until(settled)

    scene = play(story)
    assert any(reason == "FailedScheduling" for _, reason, _ in scene.events)


def test_what_is_switched_off_does_nothing() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1)
        await scene.client.create(workload("Deployment", "web", replicas=1))

        async def made() -> bool:
            return len(await scene.pods("app=web")) == 1

        await scene.until(made)
        await scene.client.delete(DEPLOYMENT, "web", "default", propagation="Background")
        for _ in range(10):
            assert "nodeName" not in (await scene.pods("app=web"))[0]["spec"]

    play(story, which=("deployment", "replicaset"))


def test_events_are_there_to_be_read() -> None:
    async def story(scene: Scene) -> None:
        await scene.stop()
        client = Client(scene.plane.transport(), requests_per_second=None)
        async with BuiltinControllers(client, scene.clock):
            await scene.client.create(workload("Deployment", "web", replicas=1))
            await asyncio.sleep(5)
        events = await scene.client.list(Event, namespace="default")
        told = {(event.involved_object.kind, event.reason) for event in events.items}
        assert ("Deployment", "ScalingReplicaSet") in told
        assert ("ReplicaSet", "SuccessfulCreate") in told
        assert ("Pod", "FailedScheduling") in told

    play(story)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KoordError, match="one of deployment, "):
        BuiltinControllers(None, None, which=("scheduler",))  # type: ignore[arg-type]


def test_a_stateful_set_rolls_and_keeps_its_names() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1)
        await scene.client.create(workload("StatefulSet", "db", replicas=3, serviceName="db"))

        async def served() -> bool:
            return len(ready(await scene.pods("app=db"))) == 3

        await scene.until(served)
        await scene.client.patch(STATEFUL_SET, "db", set_image("i:2"), "default")

        async def rolled() -> bool:
            pods = ready(await scene.pods("app=db"))
            images = {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in pods}
            return images == dict.fromkeys(("db-0", "db-1", "db-2"), "i:2")

        await scene.until(rolled)

    play(story)


def test_failing_writes_and_restarts_delay_a_rollout_and_no_more() -> None:
    lost = {
        f"controllers.{write}": faults.FaultRule(rate=0.3, error=TransportError("cut"))
        for write in ("create", "patch", "delete")
    }

    async def story(scene: Scene) -> None:
        await scene.add_nodes(2)
        with faults.inject(faults.FaultPlan(seed=5, rules=lost)) as plan:
            await scene.client.create(workload("Deployment", "web", replicas=4))
            await scene.client.create(workload("StatefulSet", "db", replicas=2, serviceName="db"))
            await scene.client.create(workload("Job", "work", "Succeeded", completions=6,
                                               parallelism=3))  # fmt: skip
            for _ in range(5):
                await asyncio.sleep(3)
                await scene.restart()
            await scene.client.patch(DEPLOYMENT, "web", set_image("i:2"), "default")

            async def done() -> bool:
                pods = ready(await scene.pods("app=web"))
                images = [pod["spec"]["containers"][0]["image"] for pod in pods]
                job = await scene.client.get(JOB, "work", "default")
                stateful = len(ready(await scene.pods("app=db"))) == 2
                complete = job.get("status", {}).get("completionTime") is not None
                return images == ["i:2"] * 4 and stateful and complete

            await scene.until(done, seconds=600)
        assert sum(plan.failed.values()) > 10
        job = await scene.client.get(JOB, "work", "default")
        assert job["status"]["succeeded"] == 6
        assert len(await scene.pods("app=work")) == 6
        assert len(await scene.pods("app=web")) == 4

    play(story)
