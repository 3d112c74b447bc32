# SPDX-License-Identifier: Apache-2.0
"""Which events let pods that wait for devices be tried again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import convert
from koord.api.kinds.cluster import ConfigMap
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE,
    NODE_ADD,
    Action,
    ClusterEvent,
)
from tests.controllers.scheduler.plugins.deviceshare.clusters import (
    Cluster,
    device,
    gpu,
    gpus,
    nic,
)
from tests.controllers.scheduler.plugins.event_hints import Waking
from tests.controllers.scheduler.pods import node

HINT = "scheduling.koordinator.sh/device-allocate-hint"
LABEL = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
NPU = {"koordinator.sh/npu-core": "4", "koordinator.sh/gpu-memory": "1Gi"}


class Watched(Waking, Cluster):
    """A cluster in which pods wait; says which of them the last event woke."""

    def __init__(self, **waiting: dict[str, Any]) -> None:
        super().__init__()
        self.watch({name: self.pod(name, **requested) for name, requested in waiting.items()})

    def now(self, *cards: dict[str, Any], **meta: Any) -> set[str]:
        """Whom it wakes that the node's Device says this."""
        self.woken = set()
        self.put(device("a", *cards, **meta))
        return self.woken


def test_pods_that_go_wake_others_only_if_they_may_have_held_devices() -> None:
    cluster = Watched(waits={"gpu": 100})
    row = cluster.add("a", gpu(0))
    placed, plain = cluster.pod(gpu=50), cluster.pod(cpu="1")
    cluster.place(placed)
    cluster.hold("a", row, plain)

    def woken(gone: PodInfo) -> bool:
        return cluster.by(ASSIGNED_POD_DELETE, gone, None) == {"waits"}

    assert woken(placed)
    assert not woken(plain)
    # What reserve chose was given back already: what it asked for still says so.
    placed.allocations.clear()
    assert woken(placed)


def test_a_device_wakes_pods_that_ask_for_its_kind() -> None:
    cluster = Watched(gpu={"gpu": 100}, nic={"rdma": 100}, both={"gpu": 100, "rdma": 100})
    assert cluster.now(nic(0)) == {"nic", "both"}
    assert cluster.now(nic(0), gpu(0)) == {"gpu", "both"}
    assert cluster.now(nic(0), gpu(0)) == set()
    assert cluster.now(nic(0), gpu(0), gpu(1)) == {"gpu", "both"}


@pytest.mark.parametrize(
    ("before", "now", "helps"),
    [
        (gpu(0), gpu(0, health=False), False),
        (gpu(0, health=False), gpu(0), True),
        (gpu(0), gpu(0, numa=1), True),
        (gpu(0), gpu(0, labels={"a": "b"}), True),
        (gpu(0), gpu(0, resources={"koordinator.sh/gpu-core": "50"}), False),
        (gpu(0, resources={"koordinator.sh/gpu-core": "50"}), gpu(0), True),
        (gpu(0, health=False), gpu(0, numa=1, health=False), False),
    ],
)
def test_what_about_a_card_may_help(before: Any, now: Any, helps: bool) -> None:
    cluster = Watched(waits={"gpu": 100})
    cluster.now(before)
    assert (cluster.now(now) == {"waits"}) is helps


def test_cards_and_devices_that_go_help_only_pods_that_want_all_of_them() -> None:
    every = json.dumps({"rdma": {"allocateStrategy": "ApplyForAll"}})
    cluster = Watched(one={"rdma": 1}, every={"rdma": 1, "annotations": {HINT: every}})
    cluster.add("a", nic(0), nic(1))
    assert cluster.now(nic(0)) == {"every"}
    cluster.views.view(type(device("a"))).remove("a")
    assert cluster.woken == {"every"}


def test_labels_and_partitions_of_a_device_count() -> None:
    cluster = Watched(waits={"gpu": 100})
    one = json.dumps({"2": [{"minors": [0, 1], "gpuLinkType": "NVLink"}]})
    other = json.dumps({"2": [{"minors": [1, 2], "gpuLinkType": "NVLink"}]})
    key = "scheduling.koordinator.sh/gpu-partitions"
    cluster.now(*gpus(4))
    assert cluster.now(*gpus(4), labels={"node.koordinator.sh/gpu-model": "X"})
    labels = {"node.koordinator.sh/gpu-model": "X"}
    for text, expected in ((one, True), (one, False), (other, True)):
        assert bool(cluster.now(*gpus(4), labels=labels, annotations={key: text})) is expected


def test_what_cannot_be_read_no_device_mends() -> None:
    cluster = Watched(bad={"rdma": 1, "annotations": {HINT: "{"}}, good={"rdma": 1})
    assert cluster.now(nic(0)) == {"good"}


def test_a_node_wakes_if_its_devices_are_known_already() -> None:
    cluster = Watched(gpu={"gpu": 100}, nic={"rdma": 100})
    assert cluster.by(NODE_ADD, None, node("a")) == set()
    cluster.put(device("a", gpu(0)))
    assert cluster.by(NODE_ADD, None, node("a")) == {"gpu"}
    isolated = node("a", labels={"koordinator.sh/gpu-isolation-provider": "HAMICore"})
    assert cluster.by(LABEL, node("a"), isolated) == {"gpu", "nic"}
    assert cluster.by(LABEL, node("a"), node("a", labels={"x": "y"})) == set()


def test_other_templates_wake() -> None:
    cluster = Watched(waits={"requests": NPU})
    cluster.add("a", gpu(0))
    cluster.woken = set()
    meta = {"namespace": "koordinator-system", "name": "gpu-shared-resource-templates"}
    document = {"metadata": meta, "data": {}}
    cluster.views.view(ConfigMap).put(convert(document, ConfigMap, "ConfigMap"))
    assert cluster.woken == {"waits"}


cards = st.builds(
    lambda core, health, numa: (core, health, numa),
    st.sampled_from([0, 50, 100]), st.booleans(), st.sampled_from([0, 1]),
)  # fmt: skip
states = st.dictionaries(st.integers(0, 2), cards)


@given(st.lists(states, min_size=2, max_size=6), st.sampled_from([50, 100, 200]))
def test_nobody_is_left_asleep_whom_a_device_lets_in(history: list[Any], requested: int) -> None:
    cluster = Watched(waits={"gpu_core": requested, "gpu_memory_ratio": requested})
    cluster.add("a")
    before = False
    for state in history:
        made = []
        for minor, (core, health, numa) in state.items():
            amounts = {"koordinator.sh/gpu-core": str(core),
                       "koordinator.sh/gpu-memory": "16Gi",
                       "koordinator.sh/gpu-memory-ratio": "100"}  # fmt: skip
            made.append(gpu(minor, numa, health=health, resources=amounts))
        woken = cluster.now(*made)
        fits = cluster.decide(cluster.waiting["waits"]).diagnosis is None
        assert woken or before or not fits
        before = fits
