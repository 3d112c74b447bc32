# SPDX-License-Identifier: Apache-2.0
"""What the descheduler keeps of pods: all that its plugins read, and little that is a pod's own."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from benchmarks.descheduler_round import again, plan_seconds, planned_rounds, snapshot
from benchmarks.informer_memory import synced
from koord.api.codec import convert, decode_json, to_document, to_json
from koord.api.kinds.pod import Pod
from koord.controllers.descheduler.pod_projection import DeschedulerPod
from tests.controllers.descheduler.program_scene import ProgramScene, configuration, perform
from tests.controllers.descheduler.world import cluster, node, pod, run
from tests.kube.pods import pods

PODS = 1_200
NOT_READ = {"containerID", "ready", "lastState", "startedAt", "finishedAt", "message", "signal"}
WAITS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}}
RUNS = {"running": {"startedAt": "2030-01-14T09:00:00Z"}}
KILLED = {
    "terminated": {
        "exitCode": 137, "reason": "OOMKilled", "containerID": "containerd://0",
        "startedAt": "2030-01-14T09:00:00Z", "finishedAt": "2030-01-14T09:05:00Z",
    }
}  # fmt: skip
YOUNG = {"minPodLifetimeSeconds": 1}
ENDED = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def _kept(of: Pod) -> DeschedulerPod:
    return decode_json(to_json(of), DeschedulerPod, "Pod")


def _state(document: dict[str, Any]) -> dict[str, Any]:
    """A container's status without what is its own."""
    found = {key: value for key, value in document.items() if key not in NOT_READ}
    state = {
        name: {key: value for key, value in document["state"][name].items() if key not in NOT_READ}
        for name in ("waiting", "terminated")
        if name in document.get("state", {})
    }
    return {**found, "state": state} if state else {k: v for k, v in found.items() if k != "state"}


def test_all_but_what_no_plugin_reads() -> None:
    for text in pods(60):
        whole, kept = decode_json(text, Pod, "Pod"), decode_json(text, DeschedulerPod, "Pod")
        wanted = to_document(whole)
        for name in ("containerStatuses", "initContainerStatuses"):
            if name in wanted["status"]:
                wanted["status"][name] = [_state(each) for each in wanted["status"][name]]
        for name in ("hostIP", "podIP"):
            wanted["status"].pop(name)
        for containers in ("containers", "initContainers"):
            for each in wanted["spec"].get(containers, ()):
                each.pop("env", None)
        assert to_document(kept) == wanted


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("RemoveFailedPods", {"reasons": ["OOMKilled"], **YOUNG}),
        ("RemoveFailedPods", {"exitCodes": [137], **YOUNG}),
        (
            "RemoveFailedPods",
            {"reasons": ["CrashLoopBackOff"], "includingInitContainers": True, **YOUNG},
        ),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 1, "states": ["CrashLoopBackOff"]}),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 1, "states": ["Running"]}),
        (
            "PodLifeTime",
            {"maxPodLifeTimeSeconds": 1, "states": ["OOMKilled"],
             "includingEphemeralContainers": True},
        ),
        ("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 5}),
        ("RemovePodsHavingTooManyRestarts",
         {"podRestartThreshold": 5, "includingInitContainers": True}),
    ],
)  # fmt: skip
def test_plugins_judge_kept_pods_as_whole_ones(name: str, args: dict[str, Any]) -> None:
    found = []
    for phase in ("Failed", "Running"):
        for at, state in enumerate((WAITS, RUNS, KILLED, ENDED, {})):
            for field in (
                "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"
            ):  # fmt: skip
                status = {"name": "c", "restartCount": 3 * at, "state": state, "ready": True}
                name_of = f"{phase.lower()}-{at}-{field.lower()}"
                found.append(pod(name_of, status={"phase": phase, field: [status]}, age=900))
    nodes = [node("n1"), node("n2")]
    kept = cluster(nodes, [_kept(each) for each in found])
    point = "deschedule"
    judged = run(point, name, args, cluster(nodes, found))
    assert judged
    assert len(judged) < len(found)
    assert run(point, name, args, kept) == judged


def _bytes(of: Any, seen: set[int]) -> int:
    """Of all objects that were not seen before."""
    if of is None or id(of) in seen:
        return 0
    seen.add(id(of))
    parts: list[Any] = []
    if isinstance(of, msgspec.Struct):
        parts = [getattr(of, name) for name in of.__struct_fields__]
    elif isinstance(of, dict):
        parts = [*of, *of.values()]
    elif isinstance(of, list):
        parts = of
    return sys.getsizeof(of) + sum(_bytes(each, seen) for each in parts)


def test_kept_pods_take_half_of_what_whole_ones_do() -> None:
    held = {}
    for kind in (Pod, DeschedulerPod):
        informer, _ = asyncio.run(synced(PODS, 7, True, kind))
        seen: set[int] = set()
        held[kind] = sum(_bytes(each, seen) for _, each in informer.items()) / PODS
        statuses = {id(each.status.container_statuses) for _, each in informer.items()}
        shared = PODS if kind is Pod else PODS / 4
        assert len(statuses) <= shared
    assert held[DeschedulerPod] < 0.5 * held[Pod]


def test_the_program_keeps_no_more() -> None:
    async def script(scene: ProgramScene) -> None:
        await scene.add_pod("a", spec={"containers": [{
            "name": "c", "image": "i", "env": [{"name": "A", "value": "1"}],
        }]})  # fmt: skip
        async with scene.running(configuration("Watchful")) as app:
            await asyncio.sleep(5)
            found = app.views.view(Pod).get("default/a")
            assert type(found) is DeschedulerPod
            assert not found.spec.containers[0].env

    perform(script)


def test_a_plan_over_kept_pods_is_that_over_whole_ones() -> None:
    plans = []
    for kind in (Pod, DeschedulerPod):
        informer, _ = asyncio.run(synced(PODS, 7, True, kind))
        view = snapshot([each for _, each in informer.items()], PODS // 20)
        rounds = planned_rounds(view)
        assert plan_seconds(rounds, again(view))[2] > 10
        plans.append(to_json(rounds.last))
    assert plans[0] == plans[1]


def test_a_state_without_a_reason_is_read_all_the_same() -> None:
    status = {"name": "c", "state": {"terminated": {}}}
    document = {"metadata": {"name": "x"}, "status": {"containerStatuses": [status]}}
    found = convert(document, DeschedulerPod, "Pod x").status.container_statuses[0]
    assert found.state == {"terminated": {}}
