# SPDX-License-Identifier: Apache-2.0
"""Snapshots in, files out: hooks, reconciler and executor on a tree of plain files."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.builtin.group_identity import GroupIdentity
from koord.agent.hooks.hook import ContainerContext, HookResponse, PodContext
from koord.agent.hooks.reconciliation.reconciler import LATEST_TICKS, Reconciler
from koord.agent.hooks.reconciliation.sandbox import sandbox_directory, sandbox_name
from koord.agent.states.pod_state import PodState
from koord.agent.states.snapshot import SnapshotPart
from koord.base.errors import KoordError
from tests.agent.hooks.build import (
    BATCH_CPU,
    BATCH_MEMORY,
    POOLS,
    STATUS,
    container,
    options,
    pod,
    qualities,
    snapshot,
)
from tests.agent.hooks.tree_node import TreeNode

BATCH = container("main", {BATCH_CPU: "500"}, {BATCH_CPU: "500", BATCH_MEMORY: "1Gi"})
LIMITED = container("main", {"cpu": "1"}, {"cpu": "1"})
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
SLO = qualities(ls={"enable": True, "groupIdentity": 2}, be={"enable": True, "groupIdentity": -1})


class Asked(BaseHook):
    """Counts how often it is asked."""

    name, follows = "asked", SnapshotPart.SLO

    def __init__(self) -> None:
        self.pods: Counter[str] = Counter()
        self.containers: Counter[str] = Counter()
        self.rule: object = None

    def learn(self, snapshot: Any) -> bool:
        changed, self.rule = self.rule != snapshot.slo.value, snapshot.slo.value
        return changed

    def pod(self, context: PodContext) -> HookResponse | None:
        self.pods[context.uid] += 1
        return None

    def container(self, context: ContainerContext) -> HookResponse | None:
        self.containers[context.name or "sandbox"] += 1
        return None


class Broken(BaseHook):
    """Cannot answer for one pod."""

    name = "broken"

    def pod(self, context: PodContext) -> HookResponse | None:
        if context.uid == "u1":
            raise KoordError("pod u1", "x", 1, "something else")
        return HookResponse({"cpu.shares": 77}, reason="r")


@pytest.fixture
def node(tmp_path: Path) -> TreeNode:
    return TreeNode(tmp_path)


def inner(state: PodState, index: int = 0) -> str:
    return state.containers[index].directory


def test_a_be_pod_gets_its_limits_and_loses_them(node: TreeNode) -> None:
    state = node.start(pod("BE", "BestEffort", [BATCH]))
    node.reconciler.changed(snapshot(state, slo=SLO, nrt=POOLS))
    for directory in (state.directory, inner(state)):
        assert node.cpu(directory) == ["512", "50000"]
        assert node.says(directory, "memory.limit_in_bytes") == str(1 << 30)
        assert node.says(directory, "cpu.bvt_warp_ns") == "-1"
    assert node.says(inner(state), "cpuset.cpus") == "0-15"  # no CPUs of its own
    assert node.says("kubepods/burstable", "cpu.bvt_warp_ns") == "2"
    node.reconciler.changed(snapshot(slo=SLO, nrt=POOLS))
    assert node.cpu(inner(state)) == ["1024", "-1"]
    assert node.executor.failures() == []


def test_an_edit_by_hand_comes_back_within_one_reconcile(node: TreeNode) -> None:
    batch = node.start(pod("BE", "BestEffort", [BATCH]))
    shared = node.start(pod("LS", "Burstable", uid="u2"))
    node.reconciler.changed(snapshot(batch, shared, slo=SLO, nrt=POOLS))
    (node.root / "cgroup/cpuset" / inner(shared) / "cpuset.cpus").write_text("3")
    (node.root / "cgroup/cpu" / inner(batch) / "cpu.cfs_quota_us").write_text("7000")
    node.clock.advance(10)
    node.reconciler.tick()
    assert node.says(inner(shared), "cpuset.cpus") == "0-15"
    assert node.cpu(inner(batch)) == ["512", "50000"]


def test_bound_cpus_reach_container_and_sandbox_and_lift_the_quota(node: TreeNode) -> None:
    state = pod("LSR", "Guaranteed", [LIMITED], {STATUS: {"cpuset": "2-3"}})
    node.start(state, sandbox="pause")
    for directory in (state.directory, inner(state)):
        (node.root / "cgroup/cpu" / directory / "cpu.cfs_quota_us").write_text("100000")
    node.reconciler.changed(snapshot(state, nrt=POOLS))
    for directory in (inner(state), f"{state.directory}/pause"):
        assert node.says(directory, "cpuset.cpus") == "2-3"
    assert node.says(state.directory, "cpu.cfs_quota_us") == "-1"
    assert node.says(inner(state), "cpu.cfs_quota_us") == "-1"


def test_a_ratio_scales_limits_and_lets_them_go(node: TreeNode) -> None:
    state = node.start(pod("LS", "Burstable", [LIMITED]))
    node.reconciler.changed(snapshot(state, node={RATIO: "1.2"}))
    assert node.says(inner(state), "cpu.cfs_quota_us") == "83334"
    assert node.says(state.directory, "cpu.cfs_quota_us") == "83334"
    node.reconciler.changed(snapshot(state, node={RATIO: "2"}), SnapshotPart.NODE)
    assert node.says(inner(state), "cpu.cfs_quota_us") == "50000"
    node.reconciler.changed(snapshot(state, node={}), SnapshotPart.NODE)
    assert node.says(inner(state), "cpu.cfs_quota_us") == "-1"


def test_only_what_changed_is_asked(tmp_path: Path) -> None:
    asked = Asked()
    node = TreeNode(tmp_path, asked)
    first, second = (node.start(pod("LS", uid=uid)) for uid in ("u1", "u2"))
    node.reconciler.changed(snapshot(first, second, slo=SLO))
    assert asked.pods == {"u1": 1, "u2": 1}
    node.reconciler.changed(snapshot(first, second, slo=SLO), SnapshotPart.PODS)
    assert asked.pods == {"u1": 1, "u2": 1}
    edited = node.start(pod("BE", uid="u2"))
    node.reconciler.changed(snapshot(first, edited, slo=SLO), SnapshotPart.PODS)
    assert asked.pods == {"u1": 1, "u2": 2}
    node.reconciler.changed(snapshot(first, edited, slo=qualities()), SnapshotPart.SLO)
    assert asked.pods == {"u1": 2, "u2": 3}
    node.reconciler.changed(snapshot(first, edited, slo=qualities()), SnapshotPart.NODE)
    assert asked.pods == {"u1": 2, "u2": 3}


def test_containers_that_are_asked_about(tmp_path: Path) -> None:
    asked = Asked()
    node = TreeNode(tmp_path, asked)
    states = [
        pod("LS", init=[container("prepare"), container("log") | {"restartPolicy": "Always"}]),
        pod("LS", uid="u2", started=False),
        pod("LS", uid="u3", spec={"runtimeClassName": "kata"}),
        pod("LS", uid="u4", phase="Succeeded"),
    ]
    for state in states:
        node.start(state, sandbox="pause")
    node.reconciler.changed(snapshot(*states))
    assert asked.pods == {"u1": 1, "u2": 1, "u3": 1}
    assert asked.containers == {"sandbox": 1, "main": 1, "prepare": 1, "log": 1}


def test_a_late_sandbox_is_found_at_the_next_tick(node: TreeNode) -> None:
    state = node.start(pod("LSR", "Guaranteed", None, {STATUS: {"cpuset": "2-3"}}))
    node.reconciler.changed(snapshot(state, nrt=POOLS))
    node.make(f"{state.directory}/pause")
    node.clock.advance(10)
    node.reconciler.tick()
    assert node.says(f"{state.directory}/pause", "cpuset.cpus") == "2-3"


def test_sandboxes_that_are_never_found_are_looked_for_less_and_less(tmp_path: Path) -> None:
    node = TreeNode(tmp_path)
    state = node.start(pod("LS"))
    looked: list[str] = []

    def nothing(pod: PodState) -> str:
        looked.append(pod.uid)
        return ""

    reconciler = Reconciler([], node.executor, node.machine, nothing)
    reconciler.changed(snapshot(state))
    ticks = []
    for tick in range(1, 40):
        before = len(looked)
        reconciler.tick()
        ticks += [tick] * (len(looked) - before)
    assert ticks == [1, 3, 7, 15, 23, 31, 39]
    assert LATEST_TICKS == 8
    # A pod that changed is looked at at once, and then as soon as one that is new.
    other = replace(state, containers=state.containers[:1])
    looked.clear()
    reconciler.changed(snapshot(replace(other, priority=7)))
    reconciler.tick()
    assert len(looked) == 2
    reconciler.changed(snapshot())
    reconciler.tick()
    assert len(looked) == 2


def test_one_hooks_failure_stays_its_own(tmp_path: Path) -> None:
    node = TreeNode(tmp_path, Broken())
    states = [node.start(pod("LS", uid=uid)) for uid in ("u1", "u2")]
    node.reconciler.changed(snapshot(*states, slo=SLO))
    assert list(node.reconciler.problems()) == [("broken", "u1")]
    assert node.says(states[0].directory, "cpu.bvt_warp_ns") == "2"
    assert node.cpu(states[1].directory)[0] == "77"


class Mistaken(BaseHook):
    """Has a mistake of its program, until that is mended."""

    name, follows = "mistaken", SnapshotPart.SLO

    def __init__(self) -> None:
        self.mistakes = {"rule", "u1"}

    def learn(self, snapshot: Any) -> bool:
        if "rule" in self.mistakes:
            raise AttributeError("no such thing")
        return True

    def pod(self, context: PodContext) -> HookResponse | None:
        if context.uid in self.mistakes:
            raise AttributeError("no such thing")
        return HookResponse({"cpu.shares": 77}, reason="r")


def test_a_mistake_in_a_hook_ends_no_other_and_is_asked_again(tmp_path: Path) -> None:
    hook = Mistaken()
    # The first of all: whatever comes after it is asked all the same.
    node = TreeNode(tmp_path)
    node.reconciler = Reconciler([hook, GroupIdentity(options())], node.executor, node.machine)
    states = [node.start(pod("LS", uid=uid)) for uid in ("u1", "u2")]
    node.reconciler.changed(snapshot(*states, slo=SLO))
    assert node.reconciler.problems() == {
        ("mistaken", "rule"): "AttributeError: no such thing",
        ("mistaken", "u1"): "AttributeError: no such thing",
    }
    assert [node.says(each.directory, "cpu.bvt_warp_ns") for each in states] == ["2", "2"]
    assert [node.cpu(each.directory)[0] for each in states] == ["1024", "77"]
    hook.mistakes.clear()
    node.reconciler.tick()
    assert node.reconciler.problems() == {}
    assert [node.cpu(each.directory)[0] for each in states] == ["77", "77"]


def test_a_malformed_annotation_keeps_what_was_claimed(node: TreeNode) -> None:
    state = node.start(pod("LSR", "Guaranteed", None, {STATUS: {"cpuset": "2-3"}}))
    node.reconciler.changed(snapshot(state, slo=SLO, nrt=POOLS))
    bad = pod("LSR", "Guaranteed", None, {STATUS: "{"})
    node.reconciler.changed(snapshot(bad, slo=SLO, nrt=POOLS), SnapshotPart.PODS)
    assert node.says(inner(state), "cpuset.cpus") == "2-3"
    problems = node.reconciler.problems()
    assert ("CPUSetAllocator", "u1") in problems
    assert "\n" not in problems["CPUSetAllocator", "u1"]
    node.reconciler.changed(snapshot(state, slo=SLO, nrt=POOLS), SnapshotPart.PODS)
    assert node.reconciler.problems() == {}


def test_a_malformed_ratio_of_the_node_does_not_hide_what_the_nodeslo_says(node: TreeNode) -> None:
    """Annotation ``cpu-normalization-ratio: fast``, then suppression by quota comes and goes."""
    key = "node.koordinator.sh/cpu-normalization-ratio"
    by_quota = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}}
    state = node.start(pod("BE", "BestEffort", [BATCH]))
    node.reconciler.changed(snapshot(state, slo={}, node={key: "1.25"}))
    assert node.cpu(inner(state)) == ["512", "40000"]
    node.reconciler.changed(snapshot(state, slo=by_quota, node={key: "fast"}))
    assert node.cpu(inner(state)) == ["512", "-1"]
    assert set(node.reconciler.problems()) == {("BatchResource", "rule"),
                                               ("CPUNormalization", "rule")}  # fmt: skip
    # The ratio is the last good one.
    node.reconciler.changed(
        snapshot(state, slo={}, node={key: "0"}), SnapshotPart.SLO | SnapshotPart.NODE
    )
    assert node.cpu(inner(state)) == ["512", "40000"]
    node.reconciler.changed(snapshot(state, slo={}, node={key: "2"}), SnapshotPart.NODE)
    assert node.cpu(inner(state)) == ["512", "25000"]
    assert node.reconciler.problems() == {}


def test_host_applications_come_and_go(node: TreeNode) -> None:
    node.make("host-latency-sensitive/nginx")
    slo = SLO | {"hostApplications": [{"name": "nginx", "qos": "LS"}]}
    node.reconciler.changed(snapshot(slo=slo, nrt=POOLS))
    assert node.says("host-latency-sensitive/nginx", "cpu.bvt_warp_ns") == "2"
    node.reconciler.changed(snapshot(slo=SLO, nrt=POOLS))
    assert node.says("host-latency-sensitive/nginx", "cpu.bvt_warp_ns") == "0"


@pytest.mark.parametrize("name", ["../../etc", "..", "a/b/../../..", ""])
def test_a_hostile_host_application_writes_nothing(node: TreeNode, name: str) -> None:
    slo = SLO | {"hostApplications": [{"name": name, "qos": "LS"}]}
    before = sorted(p for p in node.root.rglob("*") if "state" not in p.parts)
    node.reconciler.changed(snapshot(slo=slo, nrt=POOLS))
    assert sorted(p for p in node.root.rglob("*") if "state" not in p.parts) == before
    assert node.executor.refused() or node.reconciler.problems()


def test_stop_gives_everything_back(node: TreeNode) -> None:
    state = node.start(pod("BE", "BestEffort", [BATCH]), sandbox="pause")
    before = {p: p.read_text() for p in (node.root / "cgroup").rglob("*") if p.is_file()}
    node.reconciler.changed(snapshot(state, slo=SLO, nrt=POOLS))
    assert {p: p.read_text() for p in before} != before
    node.reconciler.stop()
    assert {p: p.read_text() for p in before} == before


@pytest.mark.parametrize(
    ("present", "containers", "expected"),
    [(["c", "p"], {"c"}, "p"), (["c"], {"c"}, ""), (["c", "p", "q"], {"c"}, ""), ([], {"c"}, ""),
     (["crio-c.scope", "crio-conmon-p.scope", "crio-p"], {"crio-c.scope"}, "crio-p")],
)  # fmt: skip
def test_the_sandbox_is_the_one_that_is_left(
    present: list[str], containers: set[str], expected: str
) -> None:
    assert sandbox_name(present, containers) == expected


def test_no_sandbox_without_containers_or_behind_a_link(node: TreeNode) -> None:
    state = node.start(pod("LS"), sandbox="pause")
    assert sandbox_directory(node.hierarchy, state) == f"{state.directory}/pause"
    assert sandbox_directory(node.hierarchy, pod("LS", started=False)) == ""
    place = node.root / "cgroup/cpuset/kubepods/burstable/podu9"
    place.symlink_to(node.root / "cgroup/cpuset" / state.directory)
    other = replace(state, directory="kubepods/burstable/podu9")
    assert sandbox_directory(node.hierarchy, other) == ""


def test_a_sandbox_that_cannot_be_looked_for_stops_no_other_pod(tmp_path: Path) -> None:
    asked = Asked()
    node = TreeNode(tmp_path, asked)

    def sandbox(state: PodState) -> str:
        if state.uid == "u1":
            raise OSError(36, "File name too long")
        return ""

    node.reconciler._sandbox = sandbox
    states = [node.start(pod("LS", uid="u1")), node.start(pod("LS", uid="u2"))]
    node.reconciler.changed(snapshot(*states, nrt=POOLS))
    assert asked.pods == {"u1": 1, "u2": 1}
