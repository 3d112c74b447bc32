# SPDX-License-Identifier: Apache-2.0
"""Many pods on one node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.agent.states.cluster_informers import ClusterStates
from koord.agent.states.snapshot import SnapshotPart
from koord.agent.states.state_store import StateStore
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Container, Pod
from koord.api.kinds.slo_strategies import CPUBurstStrategy
from koord.api.protocol import annotation, keys
from koord.api.sloconfig.rules import problems
from koord.base.clock import VirtualClock
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.patches import Patch
from tests.agent.hooks.build import LAYOUT, POOLS, snapshot
from tests.hostile.test_agent_annotations import Node as CheckedNode
from tests.hostile.test_agent_annotations import pod
from tests.kube.harness import run_virtual


def test_pods_that_change_at_once_are_looked_at_together():
    clock = VirtualClock(0.0)
    puts = 0

    class Store(StateStore):
        def put(self, part, value):
            nonlocal puts
            puts += part is SnapshotPart.PODS
            super().put(part, value)

    async def story():
        nonlocal puts
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            await client.create(Node(metadata=ObjectMeta(name="n1")))
            store = Store(clock)
            states = ClusterStates(client, "n1", store, LAYOUT)
            running = asyncio.create_task(states.run())
            await states.ready()
            for at in range(200):
                made = Pod(metadata=ObjectMeta(name=f"p{at}", namespace="default"))
                made.metadata.uid = f"u{at}"
                made.spec.node_name = "n1"
                made.spec.containers = [Container(name="main", image="i")]
                await client.create(made)
            await asyncio.sleep(1)
            assert len(store.snapshot().pods.value) == 200
            puts = 0
            for at in range(200):
                change = Patch.merge({"metadata": {"labels": {"a": "b"}}})
                await client.patch(Pod, f"p{at}", change, "default")
            await asyncio.sleep(1)
            assert all(pod.pod.metadata.labels for pod in store.snapshot().pods.value)
            assert puts < 20
            running.cancel()
            await asyncio.wait({running})

    run_virtual(story(), clock)


def test_a_pod_that_stays_the_same_is_judged_once_however_often_others_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are looked at with each change of one of them, ten times a second."""
    reads = 0
    read = annotation.read

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal reads
        reads += 1
        return read(*arguments, **named)

    monkeypatch.setattr(annotation, "read", counted)
    card = {"resources": {"koordinator.sh/gpu-core": "100"}}
    claims = {
        keys.DEVICE_ALLOCATED: {"gpu": [{"minor": minor, **card} for minor in range(60)]},
        keys.CPU_BURST: {"policy": "auto", "cfsQuotaBurstPercent": 10**9},
        keys.CPU_QOS: {"enable": True, "groupIdentity": 2},
    }
    node = CheckedNode(tmp_path)
    node.view = snapshot(node={}, nrt=POOLS, slo={"resourceQOSStrategy": {"lsClass": {}}})
    greedy = tuple(pod("LS", "0-3", uid=f"u{n}", annotations=claims) for n in range(20))
    first = node.checker(greedy, node.view)
    assert not any(claims.keys() & each.pod.metadata.annotations.keys() for each in first)
    once = reads
    for number in range(10):
        other = pod("LS", "0-3", uid=f"v{number}", annotations=claims)
        looked = node.checker((*greedy, other), node.view)
        assert all(a is b for a, b in zip(looked, first, strict=False))
    # Those of the other pod, and a few of the node's own; to read all again takes 10 times as many.
    assert reads <= once + 10 * once // 4


def test_bounds_of_a_strategy_are_told_without_its_type_being_read_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strategy = CPUBurstStrategy(cpu_burst_percent=-1)
    told = [str(each) for each in problems(strategy, "Pod a/b", "cpuBurst")]
    monkeypatch.setattr(msgspec.structs, "fields", None)
    assert [str(each) for each in problems(strategy, "Pod a/b", "cpuBurst")] == told != []
