# SPDX-License-Identifier: Apache-2.0
"""A pod of very many containers: what an annotation says is read once, not once a container."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from koord.agent.hooks.hook import Hook
from koord.agent.hooks.pod_contexts import container_context, pod_context
from koord.agent.hooks.registry import load as load_hooks
from koord.agent.states.annotation_checks.annotation_checker import AnnotationChecker
from koord.agent.states.pod_state import PodState
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import Driver
from tests.agent.hooks.build import DEVICES, STATUS, options, qualities, snapshot
from tests.agent.hooks.build import pod as build_pod
from tests.agent.machine_tree import MachineTree

FEW, TIMES = 60, 8
# 8 times as many containers with 8 times as much to read: 8 where it is read once, 64 where not.
MOST_TIMES = 28.0
# Below this nothing is measured.
LEAST_SECONDS = 0.0005
VIEW = snapshot(node={}, nrt={}, slo=qualities(ls={"enable": True, "groupIdentity": 2}))


def pod_of(containers: int, **more: Any) -> PodState:
    names = [f"c{number}" for number in range(containers)]
    card = {"minor": 0, "resources": {"koordinator.sh/gpu-core": "1"}}
    identity = {"enable": True, "groupIdentity": 1} | dict.fromkeys(names, 1)
    annotations = {
        "koordinator.sh/oom-score-adj-spec": dict.fromkeys(names, 1000),
        "koordinator.sh/cpuQOS": identity,
        STATUS: {"cpuset": ",".join(["0"] * containers)},
        # Of a type that nobody judges.
        DEVICES: {"fpga": [card] * containers},
        **{f"x{number}": "y" for number in range(containers)},
    }
    return build_pod("LS", "Burstable", [{"name": name} for name in names], annotations, **more)


def asked(hook: Hook, pod: PodState) -> None:
    """As the reconciler asks."""
    context = pod_context(pod)
    try:
        hook.pod(context)
        for each in pod.containers:
            hook.container(container_context(context, each))
    except KoordError:
        pass


def seconds(work: Any, pod: PodState) -> float:
    """The best of three, of this thread alone."""
    best = float("inf")
    for _ in range(3):
        began = time.thread_time()
        work(pod)
        best = min(best, time.thread_time() - began)
    return max(best, LEAST_SECONDS)


HOOKS = load_hooks(options(gate=lambda name: True), [])


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.name)
def test_a_hook_reads_once(hook: Hook) -> None:
    hook.learn(VIEW)
    few, many = (seconds(lambda pod: asked(hook, pod), pod_of(n)) for n in (FEW, FEW * TIMES))
    assert many <= MOST_TIMES * few


def test_the_judgement_reads_once(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path, driver=Driver.CGROUPFS).machine()

    def judged(pod: PodState) -> None:
        AnnotationChecker(machine, lambda pod, text: None)((pod,), VIEW)

    few, many = (seconds(judged, pod_of(n)) for n in (FEW, FEW * TIMES))
    assert many <= MOST_TIMES * few


def test_many_pods_that_hold_cards_are_judged_in_their_number(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path, driver=Driver.CGROUPFS).machine()
    asks = {"requests": {"koordinator.sh/gpu": "1"}}
    card = {"minor": 0, "resources": {"koordinator.sh/gpu-memory-ratio": "1"}}

    def pods(count: int) -> tuple[PodState, ...]:
        rows = [{"name": "main", "resources": asks}]
        return tuple(
            build_pod("LS", "Burstable", rows, {DEVICES: {"gpu": [card]}}, uid=f"u{n}")
            for n in range(count)
        )

    def judged(some: Any) -> None:
        AnnotationChecker(machine, lambda pod, text: None)(some, VIEW)

    few, many = (seconds(judged, pods(n)) for n in (FEW, FEW * TIMES))
    assert many <= MOST_TIMES * few
