# SPDX-License-Identifier: Apache-2.0
"""A value is one whichever way it comes: NRI's answer, a proxy's, the executor's statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from koord.agent.executor.target import OOM_SCORE_ADJ, RESCTRL_GROUP, RESCTRL_MEMBERS
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.builtin.gpu_env import GPUEnvInject
from koord.agent.hooks.builtin.oom_score import OOMScoreAdj
from koord.agent.hooks.builtin.rdma_device import RDMADeviceInject
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage, PodContext
from koord.agent.states.pod_state import PodState
from koord.delivery.hooks.answers import container_answer
from koord.delivery.hooks.messages import HOOKS
from koord.delivery.nri.adjustments import adjustment, update
from koord.delivery.nri.messages import NRI
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
    qualities,
    snapshot,
)
from tests.agent.hooks.tree_node import Remembered, TreeNode

CREATE, UPDATE = HookStage.PRE_CREATE_CONTAINER, HookStage.PRE_UPDATE_CONTAINER_RESOURCES
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
SCORE = "koordinator.sh/oom-score-adj"
BATCH = container("main", {BATCH_CPU: "500"}, {BATCH_CPU: "500", BATCH_MEMORY: "1Gi"})
LIMITED = container("main", {"cpu": "1"}, {"cpu": "1"})
CARD = {"minor": 2, "resources": {"koordinator.sh/gpu-memory-ratio": "100"}}
RDMA = {"minor": 0, "id": "0000:5e:00.0"}
GROUP = "koordlet-u1"

# Of the kubelet; no hook of these worlds wants one of them.
TOLD = {"cpu_shares": 3, "cpu_quota": 12_345, "cpuset_cpus": "15", "memory_limit_in_bytes": 777,
        "oom_score_adj": -123}  # fmt: skip
FIELDS = {
    "cpu_shares": "cpu.shares",
    "cpu_quota": "cpu.cfs_quota_us",
    "cpuset_cpus": "cpuset.cpus",
    "memory_limit_in_bytes": "memory.limit_in_bytes",
    "oom_score_adj": OOM_SCORE_ADJ,
}
# What a class of values is beneath, in a proxy's terms: it has no field for these.
NRI_ALONE = {RESCTRL_MEMBERS}

Said = dict[str, str | int]


class Group(BaseHook):
    """As the hook Resctrl, on a machine of any kind: the pod's group, and its containers in it."""

    name = "Resctrl"
    stages = frozenset({HookStage.PRE_RUN_POD_SANDBOX, CREATE})

    def pod(self, context: PodContext) -> HookResponse | None:
        return self._answer(context)

    def container(self, context: ContainerContext) -> HookResponse | None:
        return self._answer(context.pod)

    def _answer(self, pod: PodContext) -> HookResponse | None:
        if "grouped" not in pod.annotations:
            return None
        return HookResponse(resctrl_group=f"koordlet-{pod.uid}", reason="r")


class World(NamedTuple):
    """One container of one pod on one node."""

    qos: str
    kube_qos: str
    spec: dict[str, Any]
    annotations: dict[str, Any]
    ratio: str
    pod_quota: str

    def pod(self, *, started: bool) -> PodState:
        return pod(self.qos, self.kube_qos, [self.spec], self.annotations, started=started)

    def snapshot(self, state: PodState) -> Any:
        node = {RATIO: self.ratio} if self.ratio else {}
        slo = qualities(ls={"enable": True, "groupIdentity": 2},
                        be={"enable": True, "groupIdentity": -1})  # fmt: skip
        return snapshot(state, nrt=POOLS, node=node, slo=slo)


WORLDS = st.builds(
    World,
    st.sampled_from(["LSR", "LS", "BE", "SYSTEM", ""]),
    st.sampled_from(["Guaranteed", "Burstable", "BestEffort"]),
    st.sampled_from([BATCH, LIMITED, container("main")]),
    st.fixed_dictionaries(
        {},
        optional={
            STATUS: st.just({"cpuset": "2-3"}),
            SCORE: st.sampled_from(["300", "-5"]),
            DEVICES: st.sampled_from([{"gpu": [CARD]}, {"rdma": [RDMA]},
                                      {"gpu": [CARD], "rdma": [RDMA]}]),
            "grouped": st.just("yes"),
        },
    ),
    st.sampled_from(["", "1.2", "1.0"]),
    st.sampled_from(["-1", "30000"]),
)  # fmt: skip


def by_nri(linux: Any) -> Said:
    """Of an adjustment's or an update's ``linux``."""
    cpu, memory = linux.resources.cpu, linux.resources.memory
    found: Said = {"cpuset.cpus": cpu.cpus} if cpu.cpus else {}
    for name, message, field in (
        ("cpu.shares", cpu, "shares"),
        ("cpu.cfs_quota_us", cpu, "quota"),
        ("memory.limit_in_bytes", memory, "limit"),
    ):
        if message.HasField(field):
            found[name] = getattr(message, field).value
    if linux.resources.HasField("rdt_class"):
        found[RESCTRL_MEMBERS] = linux.resources.rdt_class.value
    if isinstance(linux, NRI.LinuxContainerAdjustment) and linux.HasField("oom_score_adj"):
        found[OOM_SCORE_ADJ] = linux.oom_score_adj.value
    return found


def by_proxy(answer: Any) -> Said:
    resources = answer.container_resources
    changed = {n: getattr(resources, n) for n in TOLD if getattr(resources, n) != TOLD[n]}
    return {FIELDS[name]: value for name, value in changed.items()}


def by_executor(node: TreeNode, directory: str) -> Said:
    found: Said = {}
    for line in node.executor.explain():
        target = line.target
        if target.directory == directory and line.value is not None:
            found[target.resource] = line.value
        elif target.resource == RESCTRL_MEMBERS and target.field == directory:
            found[RESCTRL_MEMBERS] = target.directory
    return found


def a_node(folder: Path) -> TreeNode:
    verbs = options(
        pci_names=lambda path: ["uverbs4"], device_numbers=lambda folder: (231, len(folder))
    )
    kinds = [Remembered(RESCTRL_GROUP, RESCTRL_MEMBERS), Remembered(OOM_SCORE_ADJ)]
    hooks = [OOMScoreAdj(options()), GPUEnvInject(options()), RDMADeviceInject(verbs), Group()]
    return TreeNode(folder, *hooks, kinds=kinds)


class Ways(NamedTuple):
    """What each way says of one container: when it is made, when it is updated, once it runs."""

    made: Any
    answer: Any
    updated: Any
    again: Any
    stated: Said


def ways(world: World) -> Ways:
    with quick_directory() as folder:
        node, young = a_node(Path(folder)), world.pod(started=False)
        node.start(young)
        Path(folder, "cgroup/cpu", young.directory, "cpu.cfs_quota_us").write_text(world.pod_quota)
        node.reconciler.changed(world.snapshot(young))
        assert node.reconciler.restate(young.uid) == []
        asked = HOOKS.ContainerResourceHookRequest(
            container_resources=HOOKS.LinuxContainerResources(**TOLD), container_envs={"A": "b"}
        )
        values = {
            stage: node.creation.values(young, "main", "containerd://x", stage, {"A": "b"})
            for stage in (CREATE, UPDATE)
        }
        assert not any(each.failed for each in values.values())
        grown = node.start(world.pod(started=True))
        node.reconciler.changed(world.snapshot(grown))
        return Ways(
            adjustment(values[CREATE]), container_answer(asked, values[CREATE]),
            update("x", values[UPDATE]) or NRI.ContainerUpdate(),
            container_answer(asked, values[UPDATE]),
            by_executor(node, grown.containers[0].directory),
        )  # fmt: skip


FULL = World(
    "BE", "BestEffort", BATCH,
    {SCORE: "300", "grouped": "yes", DEVICES: {"gpu": [CARD], "rdma": [RDMA]}}, "1.2", "30000",
)  # fmt: skip


@settings(max_examples=40)
@given(world=WORLDS)
@example(FULL)
def test_one_value_whichever_way_it_came(world: World) -> None:
    found = ways(world)
    stated = dict(found.stated)
    stated.pop("cpu.bvt_warp_ns", None)  # no runtime has a field for it: it is inherited
    told = by_nri(found.made.linux)
    assert told == stated
    assert by_proxy(found.answer) == {k: v for k, v in told.items() if k not in NRI_ALONE}
    # What runs has its score and its group.
    kept = {k: v for k, v in told.items() if k not in {RESCTRL_MEMBERS, OOM_SCORE_ADJ}}
    assert by_nri(found.updated.linux) == kept
    assert by_proxy(found.again) == kept

    cards = world.annotations.get(DEVICES, {})
    environment = {"NVIDIA_VISIBLE_DEVICES": "2"} if "gpu" in cards else {}
    assert {pair.key: pair.value for pair in found.made.env} == environment
    assert dict(found.answer.container_envs) == {"A": "b", **environment}
    assert dict(found.again.container_envs) == {"A": "b"}
    names = ["rdma_cm", "uverbs4"] if "rdma" in cards else []
    assert [row.path.rpartition("/")[2] for row in found.made.linux.devices] == names


def test_a_container_of_which_every_hook_wants_something() -> None:
    """Half a core of batch at a ratio of 1.2, as the reference has it."""
    assert by_nri(ways(FULL).made.linux) == {
        "cpu.shares": 512, "cpu.cfs_quota_us": 41_667, "memory.limit_in_bytes": 1 << 30,
        OOM_SCORE_ADJ: 300, RESCTRL_MEMBERS: GROUP,
    }  # fmt: skip
    bound = World("LSR", "Guaranteed", LIMITED, {STATUS: {"cpuset": "2-3"}}, "", "-1")
    assert by_proxy(ways(bound).answer) == {"cpuset.cpus": "2-3", "cpu.cfs_quota_us": -1}
