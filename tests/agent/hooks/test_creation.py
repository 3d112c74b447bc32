# SPDX-License-Identifier: Apache-2.0
"""What a runtime is told of a new container is what the executor states once it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.agent.executor.host_executor import HostExecutor
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.builtin.gpu_env import GPUEnvInject
from koord.agent.hooks.builtin.oom_score import OOMScoreAdj
from koord.agent.hooks.container_values import ContainerValues
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage
from koord.agent.states.pod_state import PodState
from koord.base.errors import KoordError
from tests.agent.executor.rig import quick_directory
from tests.agent.hooks.build import (
    BATCH_CPU,
    BATCH_MEMORY,
    DEVICES,
    POOLS,
    STATUS,
    container,
    options,
    pod,
    snapshot,
)
from tests.agent.hooks.tree_node import TreeNode

CREATE, UPDATE = HookStage.PRE_CREATE_CONTAINER, HookStage.PRE_UPDATE_CONTAINER_RESOURCES
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
BATCH = container("main", {BATCH_CPU: "500"}, {BATCH_CPU: "500", BATCH_MEMORY: "1Gi"})
LIMITED = container("main", {"cpu": "1"}, {"cpu": "1"})


def stated(executor: HostExecutor, directory: str) -> dict[str, str | int | None]:
    return {
        line.target.resource: line.value
        for line in executor.explain()
        if line.target.directory == directory
    }


def told(values: ContainerValues) -> dict[str, str | int]:
    found = {
        "cpu.shares": values.cpu_shares,
        "cpu.cfs_quota_us": values.cfs_quota_us,
        "cpuset.cpus": values.cpus,
        "memory.limit_in_bytes": values.memory_limit_bytes,
    }
    return {name: value for name, value in found.items() if value is not None}


def creation(node: TreeNode, state: PodState, stage: HookStage = CREATE) -> ContainerValues:
    return node.creation.values(state, "main", "containerd://x", stage)


def test_a_batch_container_is_made_with_its_limits(tmp_path: Path) -> None:
    node = TreeNode(tmp_path)
    state = node.start(pod("BE", "BestEffort", [BATCH]))
    node.reconciler.changed(snapshot(state, nrt=POOLS))
    limits = ContainerValues(cpu_shares=512, cfs_quota_us=50_000, memory_limit_bytes=1 << 30)
    assert creation(node, state) == limits
    assert creation(node, state, UPDATE) == limits
    assert creation(node, state, HookStage.POST_STOP_CONTAINER) == ContainerValues()


def test_a_quota_is_never_above_what_the_pods_directory_has(tmp_path: Path) -> None:
    """Cgroup v1: runc would refuse to start the container."""
    node = TreeNode(tmp_path)
    state = node.start(pod("BE", "BestEffort", [BATCH]))
    node.reconciler.changed(snapshot(state))
    (tmp_path / "cgroup/cpu" / state.directory / "cpu.cfs_quota_us").write_text("20000")
    assert creation(node, state).cfs_quota_us == 20_000


@settings(max_examples=30)
@given(
    qos=st.sampled_from(["LSR", "LS", "BE", "SYSTEM", ""]),
    spec=st.sampled_from([BATCH, LIMITED, container("main")]),
    kube_qos=st.sampled_from(["Guaranteed", "Burstable", "BestEffort"]),
    bound=st.booleans(),
    ratio=st.sampled_from(["", "1.2", "1.0"]),
    pod_quota=st.sampled_from(["-1", "30000"]),
)
def test_one_value_whichever_way_it_came(
    qos: str, spec: Any, kube_qos: str, bound: bool, ratio: str, pod_quota: str
) -> None:
    """Of every class, limit and ratio, whatever the pod's own directory says."""
    with quick_directory() as folder:
        node = TreeNode(Path(folder))
        annotations = {STATUS: {"cpuset": "2-3"}} if bound else {}
        world: dict[str, Any] = {"nrt": POOLS, "node": {RATIO: ratio} if ratio else {}}
        young = pod(qos, kube_qos, [spec], annotations, started=False)
        node.start(young)
        quota = Path(folder, "cgroup/cpu", young.directory, "cpu.cfs_quota_us")
        quota.write_text(pod_quota)
        node.reconciler.changed(snapshot(young, **world))
        values = told(creation(node, young))
        grown = node.start(pod(qos, kube_qos, [spec], annotations))
        node.reconciler.changed(snapshot(grown, **world))
        assert values == stated(node.executor, grown.containers[0].directory)
        assert told(creation(node, grown, UPDATE)) == values
        assert node.supervisor.status() == [
            each for each in node.supervisor.status() if not each["error"]
        ]


def test_environment_and_score_come_with_a_container_that_is_made(tmp_path: Path) -> None:
    node = TreeNode(tmp_path, OOMScoreAdj(options()), GPUEnvInject(options()))
    card = {"minor": 2, "resources": {"koordinator.sh/gpu-memory-ratio": "100"}}
    annotations = {"koordinator.sh/oom-score-adj": "300", DEVICES: {"gpu": [card]}}
    state = node.start(pod("LS", "Burstable", [LIMITED], annotations))
    node.reconciler.changed(snapshot(state))
    made = creation(node, state)
    assert made.oom_score_adj == 300
    assert made.environment == {"NVIDIA_VISIBLE_DEVICES": "2"}
    # What runs has its environment, and its processes their scores.
    running = creation(node, state, UPDATE)
    assert (running.environment, running.oom_score_adj) == ({}, None)


@pytest.mark.parametrize("state", [
    pod("BE", "BestEffort", [BATCH], spec={"runtimeClassName": "kata"}),
    pod("BE", "BestEffort", [container("other")]),
])  # fmt: skip
def test_what_is_not_in_the_spec_or_not_here_gets_nothing(tmp_path: Path, state: PodState) -> None:
    node = TreeNode(tmp_path)
    node.reconciler.changed(snapshot(state))
    assert creation(node, state) == ContainerValues()


class Failing(BaseHook):
    name = "AAA"
    stages = frozenset({CREATE})

    def __init__(self, error: Exception) -> None:
        self.error = error

    def container(self, context: ContainerContext) -> HookResponse | None:
        raise self.error


@pytest.mark.parametrize("error", [KoordError("pod", "a", 1, "2"), RuntimeError("bug")])
def test_a_hook_that_fails_takes_nothing_from_the_others(tmp_path: Path, error: Exception) -> None:
    node = TreeNode(tmp_path, Failing(error))
    state = node.start(pod("BE", "BestEffort", [BATCH]))
    node.reconciler.changed(snapshot(state))
    assert creation(node, state).cpu_shares == 512
    assert node.supervisor.part("hook AAA").failures


class Odd(BaseHook):
    name = "Odd"
    stages = frozenset({CREATE})

    def container(self, context: ContainerContext) -> HookResponse | None:
        return HookResponse({"cpu.shares": "many"}, reason="r")


def test_a_value_that_cannot_be_is_left_out(tmp_path: Path) -> None:
    node = TreeNode(tmp_path, Odd())
    state = node.start(pod("LS", "Burstable", [LIMITED]))
    node.reconciler.changed(snapshot(state))
    assert creation(node, state).cpu_shares is None
    assert "many" in node.supervisor.part("hook Odd").error


def test_a_pods_directory_is_written_when_its_runtime_begins_it(tmp_path: Path) -> None:
    """The cluster tells of a pod before its kubelet has made the cgroup."""
    node = TreeNode(tmp_path)
    state = pod("BE", "BestEffort", [BATCH], started=False)
    node.reconciler.changed(snapshot(state))
    node.make(state.directory)
    node.executor.settle()  # what failed waits for its turn
    assert node.cpu(state.directory) == ["1024", "-1"]
    node.reconciler.restate(state.uid)
    assert node.cpu(state.directory) == ["512", "50000"]
    node.reconciler.restate("nobody")
