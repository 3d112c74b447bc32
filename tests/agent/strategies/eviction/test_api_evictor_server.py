# SPDX-License-Identifier: Apache-2.0
"""Evictions through an embedded API server: budgets, UIDs and events as a server sees them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from koord.agent.states.pod_state import pod_state
from koord.agent.strategies.eviction.api_evictor import FAILURE, SUCCESS, ApiEvictor
from koord.agent.strategies.eviction.evictor import EvictionState
from koord.api.kinds.cluster import Event
from koord.api.kinds.pod import Pod
from koord.controlplane.controllers.base.objects import POD
from koord.kube.events import EventRecorder
from tests.agent.strategies.nodes import LAYOUT
from tests.controlplane.scene import Scene, play

_BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "kept", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}},
}


def _document(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]},
    }


def test_a_server_decides_and_the_events_say_so() -> None:
    async def story(scene: Scene) -> None:
        await scene.client.create(_BUDGET)
        for name in ("free", "kept", "renewed"):
            await scene.client.create(_document(name))
        pods = {
            name: pod_state(await scene.client.get(Pod, name, "default"), LAYOUT)
            for name in ("free", "kept", "renewed")
        }
        await scene.client.delete(POD, "renewed", "default", grace_period_seconds=0)
        await scene.client.create(_document("renewed"))

        recorder = EventRecorder(scene.client, "koordlet", host="n", clock=scene.clock)
        evictor = ApiEvictor(scene.client, recorder, scene.clock)
        tasks = [asyncio.create_task(evictor.run()), asyncio.create_task(recorder.run())]
        for pod in pods.values():
            assert evictor.evict(pod, "CPUEvict", f"kill pod: {pod.key}") is EvictionState.STARTED

        async def decided() -> bool:
            fates = [evictor.fate(pod.uid) for pod in pods.values()]
            return EvictionState.STARTED not in fates

        await scene.until(decided)
        found = {name: evictor.fate(pod.uid) for name, pod in pods.items()}
        assert found == {
            "free": EvictionState.UNDER_WAY,
            "kept": EvictionState.REFUSED,
            # Another pod of the name is there by now: it is not touched.
            "renewed": EvictionState.GONE,
        }
        again = await scene.client.get(Pod, "renewed", "default")
        assert again.metadata.deletion_timestamp is None

        async def told() -> bool:
            events = (await scene.client.list(Event, namespace="default")).items
            said = {(e.involved_object.name, e.type, e.reason) for e in events}
            return {("free", "Warning", SUCCESS), ("kept", "Warning", FAILURE)} <= said

        await scene.until(told)
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    play(story, which=["disruption"])
