# SPDX-License-Identifier: Apache-2.0
"""A pod of very many containers: what an annotation says is read once, not once a container."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from koord.agent.executor.claim import Claim
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.agent.hooks.hook import Hook
from koord.agent.hooks.pod_contexts import container_context, pod_context
from koord.agent.hooks.registry import load as load_hooks
from koord.agent.states.annotation_checks.annotation_checker import AnnotationChecker
from koord.agent.states.pod_state import PodState
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.kernels.cgroup import Base, Hierarchy, Outcome
from koord.kernels.cgroup_parse import Version
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


class CountingFiles(NativeCgroupFiles):
    """Counts how often a file is looked for."""

    looks = 0

    def number(self, resource: str, directory: str) -> int:
        """See :class:`CgroupFiles`."""
        self.looks += 1
        return super().number(resource, directory)


def test_of_a_cgroup_that_is_gone_one_file_of_each_hierarchy_is_looked_for(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    for hierarchy in ("cpu", "memory"):
        (root / hierarchy / "kubepods").mkdir(parents=True)
    files = CountingFiles(Hierarchy(root, Version.V1))
    writer = CgroupFileWriter({Base.CGROUP: files})
    clock = VirtualClock(0.0)
    journal = Journal(tmp_path / "journal", "boot")
    executor = HostExecutor([writer], journal, clock, ExecutorOptions(Version.V1))
    containers = [f"kubepods/pod/c{number}" for number in range(500)]
    resources = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")
    claims = [Claim(name, "kubepods/pod", 1000, "x") for name in resources]
    claims += [Claim(name, each, 1000, "x") for name in resources for each in containers]
    executor.state("hook", "pod", claims)
    executor.settle()
    assert files.looks == 2
    assert {each.result.outcome for each in executor.failures()} <= {Outcome.MISSING}
    # They come, and are written.
    for hierarchy, name in (("cpu", "cpu.shares"), ("memory", "memory.limit_in_bytes")):
        (root / hierarchy / containers[0]).mkdir(parents=True)
        (root / hierarchy / containers[0] / name).write_text("2")
    clock.advance(100.0)
    executor.settle()
    assert (root / "cpu" / containers[0] / "cpu.shares").read_text().strip() == "1000"
