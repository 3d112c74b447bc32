# SPDX-License-Identifier: Apache-2.0
"""Pods that write themselves what only the scheduler or an operator may give."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from koord.agent.hooks.builtin.cpuset_allocator import CPUSetAllocator
from koord.agent.hooks.builtin.gpu_env import GPUEnvInject
from koord.agent.states.annotation_checks.annotation_checker import AnnotationChecker
from koord.agent.states.pod_state import PodState
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.agent.states.state_store import StateStore
from koord.base.clock import VirtualClock
from koord.kernels.cgroup_path import Driver
from tests.agent.hooks.build import (
    DEVICES,
    POOLS,
    STATUS,
    container,
    context,
    inner,
    options,
    snapshot,
)
from tests.agent.hooks.build import pod as build_pod
from tests.agent.machine_tree import MachineTree

RESERVATION = "node.koordinator.sh/reservation"
POLICY = "kubelet.koordinator.sh/cpu-manager-policy"
ALLOCS = "node.koordinator.sh/pod-cpu-allocs"
FULL_CORES = {POLICY: {"policy": "static", "options": {"full-pcpus-only": "true"}}}


def pod(qos: str, cpus: str | None, asked: str = "2", **more: Any) -> PodState:
    kube = more.pop("kube", "Guaranteed")
    annotations = {STATUS: {"cpuset": cpus}} if cpus is not None else {}
    annotations |= more.pop("annotations", {})
    rows = [container("main", {"cpu": asked}, {"cpu": asked})]
    return build_pod(qos, kube, rows, annotations, **more)


class Node:
    """A node of four CPUs, and what its agent was told."""

    def __init__(self, tmp_path: Any, **nrt: Any) -> None:
        self.tree = MachineTree(tmp_path, driver=Driver.CGROUPFS)
        self.told: list[tuple[str, str]] = []
        self.view = snapshot(node={}, nrt=POOLS | nrt)
        self.cards: dict[int, int] = {}
        self.checker = AnnotationChecker(
            self.tree.machine(), self._tell, lambda minor: self.cards.get(minor, 0)
        )

    def _tell(self, pod: PodState, text: str) -> None:
        self.told.append((pod.uid, text))

    def bound(self, *pods: PodState) -> dict[str, str]:
        """The CPUs that pods are bound to in the agent's eyes."""
        found = {}
        for each in self.checker(pods, self.view):
            text = each.pod.metadata.annotations.get(STATUS)
            if text is not None:
                found[each.uid] = json.loads(text)["cpuset"]
        return found


def test_an_ls_pod_that_binds_itself_keeps_its_quota_and_shares_cpus(tmp_path):
    node = Node(tmp_path)
    held = pod("LSR", "2-3", uid="lsr")
    thief = pod("LS", "2-3", uid="thief", kube="Burstable")
    seen = {each.uid: each for each in node.checker((held, thief), node.view)}
    hook = CPUSetAllocator(options())
    hook.learn(node.view)
    assert hook.pod(context(seen["thief"])) is None
    assert hook.container(inner(seen["thief"])).values == {"cpuset.cpus": "0-7,8-15"}
    assert hook.container(inner(seen["lsr"])).values["cpuset.cpus"] == "2-3"
    [(uid, text)] = node.told
    assert uid == "thief"
    assert "resource-status].cpuset: got '2-3', expected none: the pod is neither LSE nor" in text
    assert [each.pod for each in node.checker.ignored] == ["default/pod-thief"]


@pytest.mark.parametrize("qos", ["LS", "BE", "SYSTEM", ""])
def test_only_bound_classes_are_bound(tmp_path, qos):
    node = Node(tmp_path)
    assert node.bound(pod(qos, "0-1")) == {}
    assert len(node.told) == 1


@pytest.mark.parametrize(
    ("cpus", "asked", "told"),
    [
        ("0-2", "2", "at most 2 CPUs, as the pod requests"),
        ("0-1", "1500m", "at most 1 CPUs, as the pod requests"),
        ("0", "0", "at most 0 CPUs"),
        ("3-4", "2", "CPUs of this node, 0-3"),
        ("0-4095", "9000", "CPUs of this node, 0-3"),
        ("0-8191", "9000", "a range that ends at 4096 or below"),
        ("0-1", "2", "CPUs without 0, which are reserved"),
        ("a-b", "2", "resource-status].cpuset"),
        ("3-1", "2", "a list of CPUs that names some"),
        ("0,,1", "2", "resource-status].cpuset"),
        ("0-4294967295", "2", "resource-status].cpuset"),
    ],
)
def test_cpus_that_the_scheduler_cannot_have_given(tmp_path, cpus, asked, told):
    node = Node(tmp_path, **{RESERVATION: {"reservedCPUs": "0"}})
    assert node.bound(pod("LSR", cpus, asked)) == {}
    [(_, text)] = node.told
    assert told in text


def test_what_a_pod_with_cpus_has_stays_with_it(tmp_path):
    node = Node(tmp_path)
    # The pod that comes later was created earlier: who held first counts, not who is older.
    first, later = pod("LSR", "2-3", uid="b"), pod("LSR", "3", uid="a", asked="1")
    assert node.bound(first) == {"b": "2-3"}
    assert node.bound(later, first) == {"b": "2-3"}
    [(uid, text)] = node.told
    assert (uid, "CPUs that no other pod holds, so none of 3" in text) == ("a", True)
    assert node.bound(later) == {"a": "3"}
    assert node.checker.ignored == []


def test_a_pod_that_ended_holds_nothing(tmp_path):
    node = Node(tmp_path)
    ended = pod("LSR", "2-3", uid="ended", phase="Succeeded")
    assert node.bound(ended, pod("LSE", "2-3", uid="new"))["new"] == "2-3"


def test_after_a_restart_who_runs_on_the_cpus_holds_them(tmp_path):
    node = Node(tmp_path)
    node.tree.write("sys/fs/cgroup/cpuset/kubepods/podb/bmain/cpuset.cpus", "2-3\n")
    pods = pod("LSR", "2-3", uid="a"), pod("LSR", "2-3", uid="b")
    assert node.bound(*pods) == {"b": "2-3"}


def test_a_reservation_takes_no_cpus_from_a_pod_that_has_them(tmp_path):
    node = Node(tmp_path)
    held = pod("LSR", "0-1", uid="held")
    assert node.bound(held) == {"held": "0-1"}
    node.view = snapshot(node={}, nrt=POOLS | {RESERVATION: {"reservedCPUs": "0-3"}})
    assert node.bound(held, pod("LSR", "2-3", uid="new")) == {"held": "0-1"}


def test_a_node_that_binds_pods_of_every_class(tmp_path):
    node = Node(tmp_path, **FULL_CORES)
    pods = pod("LS", "0-1", uid="ls"), pod("", "2-3", uid="none"), pod("BE", "0", uid="be")
    assert node.bound(*pods) == {"ls": "0-1", "none": "2-3"}
    # With a fraction of a CPU a pod shares.
    assert node.bound(pod("LS", "0", "900m", uid="small")) == {}


def test_cpus_that_the_kubelet_gave_another_pod(tmp_path):
    node = Node(tmp_path, **{ALLOCS: [{"uid": "k", "cpuset": "2-3", "managedByKubelet": True}]})
    assert node.bound(pod("LSR", "2-3", uid="a"), pod("", None, uid="k")) == {}
    # Its own, which the scheduler's binding takes the place of, do not count against it.
    assert node.bound(pod("LSR", "2-3", uid="k")) == {"k": "2-3"}


def test_a_malformed_annotation_gives_nobody_its_cpus(tmp_path):
    node = Node(tmp_path)
    assert node.bound(pod("LSR", "2-3", uid="a")) == {"a": "2-3"}
    broken = pod("LSR", None, uid="a", annotations={STATUS: "{"})
    seen = node.checker((broken, pod("LSR", "2-3", uid="b")), node.view)
    assert STATUS not in seen[1].pod.metadata.annotations
    assert seen[0].pod.metadata.annotations[STATUS] == "{"  # The hook tells of it.


def test_a_pod_is_told_once_and_again_for_another_reason(tmp_path):
    node = Node(tmp_path)
    for _ in range(3):
        node.bound(pod("LS", "2-3"))
    assert len(node.told) == 1
    node.bound(pod("LS", "1"))
    assert len(node.told) == 2


def test_until_the_node_is_known_nobody_is_blamed(tmp_path):
    node = Node(tmp_path)
    node.view = Snapshot()
    assert node.bound(pod("LS", "0-1", uid="ls"), pod("LSR", "2-3", uid="lsr")) == {"lsr": "2-3"}
    assert node.told == []


def test_the_store_judges_again_when_the_topology_comes(tmp_path):
    async def story() -> None:
        node = Node(tmp_path)
        store = StateStore(VirtualClock(0.0), check=node.checker)
        ls = pod("LS", "0-1", uid="ls")
        store.put(SnapshotPart.PODS, (ls,))
        assert STATUS not in store.snapshot().pods.value[0].pod.metadata.annotations
        known = snapshot(node={}, nrt=POOLS | FULL_CORES)
        store.put(SnapshotPart.NODE, known.node.value)
        store.put(SnapshotPart.TOPOLOGY, known.topology.value)
        assert store.snapshot().pods.value == (ls,)

    asyncio.run(story())


def gpus(*minors: int, ratio: int = 100, **amounts: str) -> dict[str, Any]:
    resources = {RATIO: str(ratio), "koordinator.sh/gpu-core": str(ratio)}
    return {"gpu": [{"minor": minor, "resources": resources | amounts} for minor in minors]}


def rdma(*buses: str, percent: int = 100, vfs: tuple[str, ...] = ()) -> dict[str, Any]:
    extension = {"extension": {"vfs": [{"minor": 0, "busID": bus} for bus in vfs]}} if vfs else {}
    amounts = {"koordinator.sh/rdma": str(percent)}
    return {"rdma": [{"minor": 0, "id": bus, "resources": amounts} | extension for bus in buses]}


def on_cards(asked: dict[str, str], cards: Any, uid: str = "u1", **more: Any) -> PodState:
    annotations = {DEVICES: cards} | more.pop("annotations", {})
    rows = [container("main", asked, asked)]
    return build_pod("LS", "Burstable", rows, annotations, uid=uid, **more)


def given(node: Node, *pods: PodState) -> list[str]:
    """The pods that get the cards of their annotation in the agent's eyes."""
    seen = node.checker(pods, node.view)
    return [each.uid for each in seen if DEVICES in each.pod.metadata.annotations]


ALL_RDMA = {"scheduling.koordinator.sh/device-allocate-hint":
            {"rdma": {"allocateStrategy": "ApplyForAll"}}}  # fmt: skip
JOINT = {"scheduling.koordinator.sh/device-joint-allocate": {"deviceTypes": ["gpu", "rdma"]}}
RATIO = "koordinator.sh/gpu-memory-ratio"
SHARED = {"koordinator.sh/gpu.shared": "2", RATIO: "100"}
RDMA = "koordinator.sh/rdma"


def test_a_pod_that_requests_no_gpu_sees_none(tmp_path):
    node = Node(tmp_path)
    thief = on_cards({"cpu": "1"}, gpus(*range(8)), "thief")
    hook = GPUEnvInject(options())
    [seen] = node.checker((thief,), node.view)
    assert hook.container(inner(seen)) is None
    [(uid, text)] = node.told
    assert uid == "thief"
    assert "device-allocated].gpu: got [0, 1, 2, 3, 4, 5, 6, 7], expected none: the pod req" in text


@pytest.mark.parametrize(
    ("asked", "cards", "told"),
    [
        ({"cpu": "1"}, rdma("0000:81:00.0"), "none: the pod requests no rdma"),
        ({RDMA: "100"}, gpus(0), "none: the pod requests no gpu"),
        ({"nvidia.com/gpu": "2"}, gpus(0, 1, 2), "at most 2 of them, as the pod requests"),
        ({"koordinator.sh/gpu": "100"}, gpus(0, 1), "at most 1 of them"),
        ({"kubernetes.io/gpu": "100"}, gpus(0, 1), "at most 1 of them"),
        ({"koordinator.sh/gpu": "50"}, gpus(0, 1, ratio=25), "at most 1 of them"),
        (SHARED, gpus(0, 1, 2, ratio=30), "at most 2 of them"),
        ({"koordinator.sh/gpu": "1"}, gpus(0), "[koordinator.sh/gpu-core]: got 100, expected at"),
        ({RATIO: "10"}, gpus(0, ratio=11), "[koordinator.sh/gpu-memory-ratio]: got 11, expected"),
        ({"koordinator.sh/gpu-memory": "1Gi"}, gpus(0, **{"koordinator.sh/gpu-memory": "2Gi"}),
         "gpu[koordinator.sh/gpu-memory]: got 2147483648, expected at most 1073741824 in all"),
        ({RDMA: "200"}, rdma("0000:81:00.0", "0000:82:00.0", "0000:83:00.0"), "at most 2 of"),
        ({RDMA: "1"}, rdma("0000:81:00.0"), "rdma[koordinator.sh/rdma]: got 100, expected at"),
        ({RDMA: "1"}, rdma("0000:81:00.0", percent=1, vfs=("0000:81:00.2", "0000:81:00.3")),
         "one virtual function of a card"),
    ],
)  # fmt: skip
def test_cards_that_the_pod_does_not_request(tmp_path, asked, cards, told):
    node = Node(tmp_path)
    assert given(node, on_cards(asked, cards)) == []
    [(_, text)] = node.told
    assert told in text


@pytest.mark.parametrize(
    ("asked", "cards", "annotations"),
    [
        ({"nvidia.com/gpu": "2"}, gpus(3, 5), {}),
        ({"koordinator.sh/gpu": "200"}, gpus(3, 5), {}),
        ({"kubernetes.io/gpu": "100"}, gpus(0), {}),
        (SHARED, gpus(0, 1, ratio=50), {}),
        # Core and ratio follow from the card; they are not asked for.
        ({"koordinator.sh/gpu-memory": "16Gi"}, gpus(0), {}),
        ({RDMA: "200"}, rdma("0000:81:00.0", "0000:82:00.0"), {}),
        ({RDMA: "1"}, rdma("0000:81:00.0", percent=1, vfs=("0000:81:00.2",)), {}),
        ({RDMA: "1"}, rdma("0000:81:00.0", "0000:82:00.0", percent=1), ALL_RDMA),
        ({RDMA: "1", "nvidia.com/gpu": "2"},
         gpus(0, 1) | rdma("0000:81:00.0", "0000:82:00.0", percent=1), JOINT),
        ({"cpu": "1"}, {"gpu": [], "rdma": []}, {}),
        ({"cpu": "1"}, "{", {}),  # Malformed: the hook's to tell.
    ],
)  # fmt: skip
def test_cards_that_the_pod_requests_are_given(tmp_path, asked, cards, annotations):
    node = Node(tmp_path)
    assert given(node, on_cards(asked, cards, annotations=annotations)) == ["u1"]
    assert node.told == []


GPU_MEMORY = "koordinator.sh/gpu-memory"
LIBRARY_OPTIONS = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}


def memory(minor: int, ratio: int, amount: str) -> dict[str, Any]:
    return gpus(minor, ratio=ratio, **{GPU_MEMORY: amount})


@pytest.mark.parametrize(
    ("asked", "cards", "told"),
    [
        # 80 GiB of the card for a pod that asks for a tenth of it.
        ({"koordinator.sh/gpu": "10"}, memory(0, 10, "80Gi"),
         "gpu[0][koordinator.sh/gpu-memory]: got 85899345920, expected at most 10 percent of 8"),
        ({RATIO: "10", "koordinator.sh/gpu-core": "10"}, memory(0, 10, "8.9Gi"), "at most 10 perc"),
        ({"nvidia.com/gpu": "1"}, memory(0, 100, "81Gi"), "at most 100 percent"),
        ({"koordinator.sh/gpu": "10"}, {"gpu": [{"minor": 0, "resources": {GPU_MEMORY: "8Gi"}}]},
         "at most 0 percent of 85899345920 bytes"),
        # A whole card has no limit within the container.
        ({GPU_MEMORY: "8Gi"}, memory(0, 100, "8Gi"),
         "gpu[0][koordinator.sh/gpu-memory-ratio]: got 100, expected at most 11, as 8589934592 of"),
        ({GPU_MEMORY: "8Gi"}, memory(0, 12, "8Gi"), "expected at most 11"),
        ({GPU_MEMORY: "8Gi"}, gpus(0), "expected at most 1, as 0 of 85899345920 bytes are"),
        ({GPU_MEMORY: "8Gi", "koordinator.sh/gpu.shared": "2"},
         {"gpu": [*memory(0, 5, "4Gi")["gpu"], *memory(1, 90, "4Gi")["gpu"]]}, "at most 6"),
    ],
)  # fmt: skip
def test_memory_that_does_not_follow_from_request_and_card(tmp_path, asked, cards, told):
    node = Node(tmp_path)
    assert given(node, on_cards(asked, cards)) == ["u1"]  # Before the cards are known.
    node.cards = {0: 80 << 30, 1: 80 << 30}
    assert given(node, on_cards(asked, cards)) == []
    [(_, text)] = node.told
    assert told in text


@pytest.mark.parametrize(
    ("asked", "cards"),
    [
        ({"koordinator.sh/gpu": "10"}, memory(0, 10, "8Gi")),
        ({"koordinator.sh/gpu": "10"}, memory(0, 10, "8.7Gi")),  # Within a percent of the card.
        ({"nvidia.com/gpu": "1"}, memory(0, 100, "80Gi")),
        ({GPU_MEMORY: "8Gi"}, memory(0, 10, "8Gi")),
        ({GPU_MEMORY: "8Gi"}, memory(0, 11, "8Gi")),
        ({GPU_MEMORY: "8Gi", "koordinator.sh/gpu.shared": "2"},
         {"gpu": [*memory(0, 5, "4Gi")["gpu"], *memory(1, 5, "4Gi")["gpu"]]}),
        # A card that the machine does not have is not the hook's to size.
        ({"koordinator.sh/gpu": "10"}, memory(7, 10, "80Gi")),
    ],
)  # fmt: skip
def test_memory_that_follows_from_request_and_card_is_given(tmp_path, asked, cards):
    node = Node(tmp_path)
    node.cards = {0: 80 << 30, 1: 80 << 30}
    assert given(node, on_cards(asked, cards)) == ["u1"]
    assert node.told == []


def test_no_container_gets_more_gpu_memory_than_its_part_of_the_card(tmp_path):
    """What the isolating library is told: without a judgement, all of the card."""
    node = Node(tmp_path)
    node.cards = {0: 80 << 30}
    hook = GPUEnvInject(options(keep_directory=lambda path: None))
    limits = {}
    for uid, amount in (("fair", "8Gi"), ("greedy", "80Gi")):
        asked = on_cards({"koordinator.sh/gpu": "10"}, memory(0, 10, amount), uid)
        asked = replace(asked, pod=labelled(asked, LIBRARY_OPTIONS))
        [seen] = node.checker((asked,), node.view)
        context = inner(seen)
        answer = hook.container(replace(context, pod=replace(context.pod, reconciling=False)))
        limits[uid] = answer.environment["CUDA_DEVICE_MEMORY_LIMIT"] if answer else None
    assert limits == {"fair": str(8 << 30), "greedy": None}


def labelled(state: PodState, labels: dict[str, str]) -> Any:
    metadata = msgspec.structs.replace(state.pod.metadata, labels=labels)
    return msgspec.structs.replace(state.pod, metadata=metadata)


WHOLE, HALF = {"nvidia.com/gpu": "1"}, {"koordinator.sh/gpu": "50"}


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ((WHOLE, gpus(3)), (WHOLE, gpus(3))),
        ((WHOLE, gpus(3)), (HALF, gpus(3, ratio=50))),
        ((HALF, gpus(3, ratio=50)), (WHOLE, gpus(3))),
        ((WHOLE, gpus(3)), (HALF, {"gpu": [{"minor": 3}]})),
        ((RDMA_ONE := {RDMA: "1"}, rdma("0000:81:00.0", percent=1, vfs=("0000:81:00.2",))),
         (RDMA_ONE, rdma("0000:82:00.0", percent=1, vfs=("0000:81:00.2",)))),
        (({RDMA: "100"}, rdma("0000:81:00.0")), (RDMA_ONE, rdma("0000:81:00.0", percent=1))),
    ],
)  # fmt: skip
def test_a_card_that_another_pod_has_stays_with_it(tmp_path, first, later):
    node = Node(tmp_path)
    holder, thief = on_cards(*first, "holder"), on_cards(*later, "thief")
    assert given(node, holder) == ["holder"]
    # Who held it first counts, not who is older.
    assert given(node, thief, holder) == ["holder"]
    [(uid, text)] = node.told
    assert (uid, "which another pod holds" in text) == ("thief", True)
    assert given(node, thief) == ["thief"]
    assert node.checker.ignored == []


def test_two_pods_share_a_card(tmp_path):
    node = Node(tmp_path)
    pods = [on_cards(HALF, gpus(3, ratio=50), uid) for uid in ("a", "b")]
    assert given(node, *pods) == ["a", "b"]


def test_a_pod_that_ended_holds_no_card(tmp_path):
    node = Node(tmp_path)
    assert given(node, on_cards(WHOLE, gpus(3), "a")) == ["a"]
    ended = on_cards(WHOLE, gpus(3), "a", phase="Succeeded")
    assert given(node, ended, on_cards(WHOLE, gpus(3), "b")) == ["a", "b"]


def test_an_edited_annotation_frees_no_card_that_containers_have(tmp_path):
    node = Node(tmp_path)
    assert given(node, on_cards(WHOLE, gpus(3), "a")) == ["a"]
    for edited in (gpus(3, 4), gpus(5), gpus(3, ratio=50), "{", {}):
        pods = on_cards(WHOLE, edited, "a"), on_cards(WHOLE, gpus(3), "b")
        assert "b" not in given(node, *pods)


def test_a_pod_that_names_other_cards_keeps_its_own_and_takes_none_from_others(tmp_path):
    """As many as it was given: the scheduler knows better, or believes it after a restart."""
    node = Node(tmp_path)
    assert given(node, on_cards(WHOLE, gpus(3), "a")) == ["a"]
    edited = on_cards(WHOLE, gpus(5), "a")
    # The scheduler remembers: 5 is free, and goes to another pod, which gets it.
    assert given(node, edited, on_cards(WHOLE, gpus(5), "b")) == ["b"]
    [(uid, text)] = node.told
    assert uid == "a"
    assert "got ['gpu 5'], expected gpu 3, which the pod has already" in text
    # It was restarted: 3 seems free. Two pods on one card is what must not be.
    assert given(node, edited, on_cards(WHOLE, gpus(3), "c")) == []
    assert given(node, on_cards(WHOLE, gpus(3), "a")) == ["a"]


def test_a_pod_that_names_other_cpus_gets_none_and_takes_none_from_others(tmp_path):
    node = Node(tmp_path)
    assert node.bound(pod("LSR", "0-1", uid="a")) == {"a": "0-1"}
    edited = pod("LSR", "2-3", uid="a")
    # The scheduler remembers: 2-3 go to another pod. It was restarted: 0-1 do.
    for free in ("2-3", "0-1"):
        assert node.bound(edited, pod("LSR", free, uid="b")) == {"b": free}
        assert node.bound(edited) == {}
    assert "got '2-3', expected 0-1, to which the pod was bound before" in node.told[0][1]
    # Also where it was written away in between; what it had first is still its own.
    assert node.bound(pod("LSR", None, uid="a")) == {}
    assert node.bound(edited) == {}
    assert node.bound(pod("LSR", "1", uid="a")) == {"a": "1"}
    assert node.bound(pod("LSR", "0-1", uid="a")) == {"a": "0-1"}


@pytest.mark.parametrize(
    ("qos", "kube", "annotations", "told"),
    [
        ("BE", "BestEffort", {"koordinator.sh/oom-score-adj": "-1000"}, "1000 or more"),
        ("LS", "Burstable", {"koordinator.sh/oom-score-adj": "2"}, "a Burstable pod"),
        ("LSR", "Guaranteed", {"koordinator.sh/oom-score-adj": "-998"}, "-997 or more"),
        ("LS", "Burstable", {"koordinator.sh/oom-score-adj-spec": {"main": -999}},
         "oom-score-adj-spec].main: got -999"),
        ("LS", "Burstable", {"koordinator.sh/memoryQOS": {"minLimitPercent": 5000}},
         "memoryQOS].minLimitPercent: got 5000, expected a number from 0 to 100"),
        ("LS", "Burstable", {"koordinator.sh/memoryQOS": {"lowLimitPercent": -1}}, "lowLimit"),
        ("LS", "Burstable",
         {"koordinator.sh/cpuBurst": {"policy": "auto", "cfsQuotaBurstPercent": 1000000}},
         "cfsQuotaBurstPercent: got 1000000, expected a number from 100 to 10000"),
        ("LS", "Burstable", {"koordinator.sh/cpuBurst": {"cpuBurstPercent": -5}}, "cpuBurst"),
        ("LS", "Burstable", {"koordinator.sh/networkQOS": {"egressLimit": "-1M"}},
         "networkQOS].egressLimit: got '-1M', expected a quantity of 0 or more"),
    ],
)  # fmt: skip
def test_what_is_beyond_any_class_is_not_obeyed(tmp_path, qos, kube, annotations, told):
    node = Node(tmp_path)
    [seen] = node.checker((pod(qos, None, kube=kube, annotations=annotations),), node.view)
    assert dict(seen.pod.metadata.annotations) == {}
    [(_, text)] = node.told
    assert told in text


@pytest.mark.parametrize(
    ("kube", "annotations"),
    [
        ("Burstable", {"koordinator.sh/oom-score-adj": "1000"}),
        ("Guaranteed", {"koordinator.sh/oom-score-adj": "-997"}),
        ("Burstable", {"koordinator.sh/oom-score-adj": "1e3"}),  # Malformed: the hook's to tell.
        ("Burstable", {"koordinator.sh/memoryQOS": {"policy": "auto", "throttlingPercent": 80}}),
        ("Burstable", {"koordinator.sh/cpuBurst": {"policy": "auto", "cpuBurstPercent": 1000}}),
        ("Burstable", {"koordinator.sh/networkQOS": {"egressLimit": "10M"}}),
    ],
)
def test_what_a_pod_may_ask_for_reaches_its_readers(tmp_path, kube, annotations):
    node = Node(tmp_path)
    asking = pod("LS", None, kube=kube, annotations=annotations)
    assert node.checker((asking,), node.view) == (asking,)
    assert node.told == []


SMALL = {"enable": True, "catRangeStartPercent": 0, "catRangeEndPercent": 30, "mbaPercent": 40}
CLASSES = {"resourceQOSStrategy": {
    "lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 1}},
    "beClass": {"resctrlQOS": SMALL}}}  # fmt: skip
CPU_QOS, RESCTRL = "koordinator.sh/cpuQOS", "node.koordinator.sh/resctrl"
PART = {"llc": {"schemata": {"range": [0, 20]}}, "mb": {"schemata": {"percent": 40}}}
MORE_OF_ONE = PART["llc"] | {"schemataPerCache": [{"cacheID": 1, "range": [0, 100]}]}


@pytest.mark.parametrize(
    ("qos", "key", "claim", "told"),
    [
        ("LS", CPU_QOS, {"enable": True, "groupIdentity": 2}, "got 2, expected at most 1, as the"),
        ("BE", RESCTRL, PART | {"llc": {"schemata": {"range": [0, 50]}}},
         "resctrl].llc: got [0, 50], expected a range within [0, 30], which its class has"),
        ("BE", RESCTRL, PART | {"llc": {"schemata": {"range": [20, 20]}}}, "a range within"),
        ("BE", RESCTRL, PART | {"llc": MORE_OF_ONE}, "got [0, 100], expected a range within"),
        ("BE", RESCTRL, PART | {"mb": {"schemata": {"percent": 41}}}, "got 41, expected 1 to 40"),
        # What is not named has no limit in a group of its own.
        ("BE", RESCTRL, {}, "resctrl].llc: got [], expected a range within [0, 30]"),
        ("BE", RESCTRL, {"llc": PART["llc"]}, "resctrl].mb: got 0, expected 1 to 40"),
        ("BE", RESCTRL, "{", "resctrl]"),
    ],
)  # fmt: skip
def test_no_annotation_gives_more_than_the_class_has(tmp_path, qos, key, claim, told):
    node = Node(tmp_path)
    claiming = pod(qos, None, kube="Burstable", annotations={key: claim})
    assert node.checker((claiming,), node.view) == (claiming,)  # Without a NodeSLO.
    node.view = snapshot(node={}, nrt=POOLS, slo=CLASSES)
    [seen] = node.checker((claiming,), node.view)
    assert dict(seen.pod.metadata.annotations) == {}
    [(_, text)] = node.told
    assert told in text


@pytest.mark.parametrize(
    ("qos", "key", "claim"),
    [
        ("LS", CPU_QOS, {"enable": True, "groupIdentity": 1}),
        ("LS", CPU_QOS, {"enable": True, "groupIdentity": -1}),
        ("LS", CPU_QOS, {"groupIdentity": 2}),  # Not enabled: 0.
        ("BE", RESCTRL, PART),
        ("LS", RESCTRL, {"llc": {"schemata": {"range": [0, 100]}}}),
        ("SYSTEM", RESCTRL, {"llc": {"schemata": {"range": [0, 100]}}}),
    ],
)
def test_what_the_class_has_is_given(tmp_path, qos, key, claim):
    node = Node(tmp_path)
    node.view = snapshot(node={}, nrt=POOLS, slo=CLASSES)
    claiming = pod(qos, None, kube="Burstable", annotations={key: claim})
    assert node.checker((claiming,), node.view) == (claiming,)
    assert node.told == []


def test_the_store_judges_again_when_the_classes_come(tmp_path):
    async def story() -> None:
        node = Node(tmp_path)
        store = StateStore(VirtualClock(0.0), check=node.checker)
        be = pod("BE", None, kube="BestEffort", annotations={RESCTRL: {}})
        store.put(SnapshotPart.PODS, (be,))
        assert store.snapshot().pods.value == (be,)
        store.put(SnapshotPart.SLO, snapshot(slo=CLASSES).slo.value)
        assert RESCTRL not in store.snapshot().pods.value[0].pod.metadata.annotations

    asyncio.run(story())
