# SPDX-License-Identifier: Apache-2.0
"""The binder's room against a plain model: never overcommitted, always the first that fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.requests import requested
from koord.controlplane.controllers.plain_binder.free_resources import FreeResources

READY = [{"type": "Ready", "status": "True"}]


def node(name: str, labels: dict[str, str] | None = None, ready: bool = True, **parts: Any) -> Node:
    document = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": parts.get("spec", {}),
        "status": {
            "allocatable": parts.get("allocatable", {"cpu": "4", "memory": "8", "pods": "3"}),
            "conditions": READY if ready else [],
        },
    }
    return codec.convert(document, Node, name)


def pod(**spec: Any) -> Pod:
    return codec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod, "p")


def asking(cpu: int, gpu: int = 0) -> Pod:
    requests = {"cpu": str(cpu), **({"example.com/gpu": str(gpu)} if gpu else {})}
    return pod(containers=[{"name": "c", "resources": {"requests": requests}}])


class RoomMachine(RuleBasedStateMachine):
    """Nodes come, change and go; pods are placed, appear elsewhere, and end."""

    def __init__(self) -> None:
        super().__init__()
        self.room = FreeResources()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[str, dict[str, int]]] = {}
        self.count = 0

    names = st.sampled_from([f"n{number}" for number in range(5)])

    @rule(name=names, cpu=st.integers(0, 8), gpu=st.integers(0, 2), open_=st.booleans())
    def put_node(self, name: str, cpu: int, gpu: int, open_: bool) -> None:
        offer = {"cpu": str(cpu), "pods": "4", **({"example.com/gpu": str(gpu)} if gpu else {})}
        spec = {} if open_ else {"unschedulable": True}
        self.nodes[name] = node(name, allocatable=offer, spec=spec)
        self.room.put_node(self.nodes[name])

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.room.remove_node(name)

    @rule(cpu=st.integers(0, 4), gpu=st.integers(0, 1))
    def place(self, cpu: int, gpu: int) -> None:
        new = asking(cpu, gpu)
        wanted = requested(new)
        fitting = [name for name in sorted(self.nodes) if self.fits(name, wanted)]
        found = self.room.find(new.spec, wanted)
        assert found == (fitting[0] if fitting else None)
        if found is not None:
            self.count += 1
            self.pods[f"u{self.count}"] = (found, wanted)
            self.room.put_pod(f"u{self.count}", found, wanted)

    @rule(name=names, cpu=st.integers(0, 4))
    def appear(self, name: str, cpu: int) -> None:
        """Somebody else has bound a pod, perhaps to a node that is full or unknown."""
        self.count += 1
        taken = requested(asking(cpu))
        self.pods[f"u{self.count}"] = (name, taken)
        self.room.put_pod(f"u{self.count}", name, taken)

    @rule(number=st.integers(0, 30))
    def end(self, number: int) -> None:
        uid = f"u{number}"
        assert self.room.remove_pod(uid) == (self.pods.pop(uid, None) is not None)

    def fits(self, name: str, wanted: dict[str, int]) -> bool:
        left = self.left(name)
        enough = all(left.get(resource, 0) >= amount for resource, amount in wanted.items())
        return enough and not self.nodes[name].spec.unschedulable

    def left(self, name: str) -> dict[str, int]:
        offer = self.nodes[name].status.allocatable
        left = {r: q.milli() if r == "cpu" else q.value() for r, q in offer.items()}
        for where, placed in self.pods.values():
            for resource, amount in placed.items() if where == name else ():
                left[resource] = left.get(resource, 0) - amount
        return left

    @invariant()
    def the_columns_are_what_is_left(self) -> None:
        for name in self.nodes:
            free = {r: amount for r, amount in self.room.free(name).items() if amount}
            assert free == {r: amount for r, amount in self.left(name).items() if amount}


TestRoom = RoomMachine.TestCase
TestRoom.settings = settings(stateful_step_count=20)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.integers(0, 2),
)
def test_requests_cover_the_worst_moment_of_a_pods_life(
    inits: list[tuple[int, bool]], mains: list[int], overhead: int
) -> None:
    def container(cpu: int, sidecar: bool = False) -> dict[str, Any]:
        policy = {"restartPolicy": "Always"} if sidecar else {}
        return {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}, **policy}

    subject = pod(
        initContainers=[container(cpu, sidecar) for cpu, sidecar in inits],
        containers=[container(cpu) for cpu in mains],
        overhead={"cpu": str(overhead)},
    )
    # Plays the start: what runs at each moment, one after the other.
    moments, running = [0], 0
    for cpu, sidecar in inits:
        moments.append(running + cpu)
        running += cpu if sidecar else 0
    moments.append(running + sum(mains))
    assert requested(subject).get("cpu", 0) == (max(moments) + overhead) * 1000


def test_a_pod_may_state_its_whole_request() -> None:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "5"}}}]
    subject = pod(containers=containers, resources={"requests": {"cpu": "3"}})
    assert requested(subject) == {"cpu": 3000, "memory": 5, "pods": 1}


def term(**parts: Any) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {required: {"nodeSelectorTerms": [parts]}}}


TAINT = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("spec", "target", "fits"),
    [
        ({}, node("n"), True),
        ({}, node("n", ready=False), False),
        ({}, node("n", spec={"unschedulable": True}), False),
        ({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
         node("n", spec={"unschedulable": True}), True),
        ({"nodeSelector": {"a": "b"}}, node("n", {"a": "b"}), True),
        ({"nodeSelector": {"a": "b"}}, node("n", {"a": "c"}), False),
        ({}, node("n", spec=TAINT), False),
        ({"tolerations": [{"key": "k", "value": "v"}]}, node("n", spec=TAINT), True),
        ({"tolerations": [{"key": "k", "value": "w"}]}, node("n", spec=TAINT), False),
        ({"tolerations": [{"operator": "Exists"}]}, node("n", spec=TAINT), True),
        ({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]},
         node("n", spec=TAINT), False),
        ({"affinity": term(matchFields=[{"key": "metadata.name", "operator": "In",
                                         "values": ["n"]}])}, node("n"), True),
        ({"affinity": term(matchFields=[{"key": "metadata.name", "operator": "In",
                                         "values": ["m"]}])}, node("n"), False),
        ({"affinity": term(matchExpressions=[{"key": "c", "operator": "Gt", "values": ["3"]}])},
         node("n", {"c": "4"}), True),
        ({"affinity": term(matchExpressions=[{"key": "c", "operator": "Gt", "values": ["3"]}])},
         node("n", {"c": "many"}), False),
        ({"affinity": term(matchExpressions=[{"key": "c", "operator": "DoesNotExist"}])},
         node("n"), True),
        ({"affinity": term()}, node("n"), False),
    ],
)  # fmt: skip
def test_a_node_accepts_a_pod(spec: dict[str, Any], target: Node, fits: bool) -> None:
    room = FreeResources()
    room.put_node(target)
    subject = pod(**spec)
    assert room.find(subject.spec, requested(subject)) == ("n" if fits else None)


def test_a_node_that_changes_is_looked_at_again() -> None:
    room = FreeResources()
    room.put_node(node("n"))
    subject = pod(nodeSelector={"a": "b"})
    assert room.find(subject.spec, {}) is None
    room.put_node(node("n", {"a": "b"}))
    assert room.find(subject.spec, {}) == "n"
    room.remove_node("n")
    assert room.find(subject.spec, {}) is None


def test_what_is_lacking_is_told_by_number_of_nodes() -> None:
    room = FreeResources()
    room.put_node(node("a"))
    room.put_node(node("b", spec=TAINT))
    room.put_node(node("c", spec={"unschedulable": True}))
    subject = asking(9, gpu=1)
    told = room.explain(subject.spec, requested(subject))
    assert told == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, "
        "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )


def test_an_operator_that_is_not_known_tolerates_nothing() -> None:
    room = FreeResources()
    room.put_node(node("n", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}))
    for operator, found in (("Lt", None), ("Other", None), ("Equal", "n"), ("", "n")):
        tolerations = [{"key": "k", "operator": operator, "value": "v"}]
        subject = codec.convert({"spec": {"tolerations": tolerations}}, Pod, operator)
        assert room.find(subject.spec, {}) == found, operator
