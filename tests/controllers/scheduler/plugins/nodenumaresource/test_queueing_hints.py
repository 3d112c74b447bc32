# SPDX-License-Identifier: Apache-2.0
"""Which events let pods that no node had CPUs or zones for be tried again."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.topology import NodeResourceTopology
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE,
    NODE_ADD,
    Action,
    ClusterEvent,
)
from tests.controllers.scheduler.plugins.event_hints import Waking
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import (
    Cluster,
    bound_pod,
    topology,
)
from tests.controllers.scheduler.pods import node

SAID = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
SHAPE = (2, 1, 4, 2)
RATIO = "node.koordinator.sh/resource-amplification-ratio"


class Watched(Waking, Cluster):
    """A node on which pods wait for CPUs; says whom the last event woke."""

    def __init__(self, **pods: Any) -> None:
        super().__init__()
        waiting = pods or {"bound": bound_pod("b", "4"), "plain": bound_pod("p", "4", qos="LS")}
        self.watch({name: self.world.shapes.info(each) for name, each in waiting.items()})

    def node(self, *args: Any, **more: Any) -> Any:
        made = super().node(*args, **more)
        self.by(NODE_ADD, None, made)
        return made

    def now(self, shape: Any = SHAPE, **more: Any) -> set[str]:
        """Whom it wakes that the node's topology says this."""
        self.woken = set()
        self.views.view(NodeResourceTopology).put(topology("n0", shape, **more))
        return self.woken


BOTH = {"bound", "plain"}


def test_a_topology_wakes_by_what_a_node_has_to_give() -> None:
    cluster = Watched()
    cluster.node("n0", SHAPE, reservation={"reservedCPUs": "0-3"})
    assert cluster.now(reservation={"reservedCPUs": "0-3"}) == set()
    assert cluster.now(reservation={"reservedCPUs": "0-7"}) == set()
    assert cluster.now(reservation={"reservedCPUs": "0-5"}) == BOTH
    assert cluster.now(reservation={"reservedCPUs": "2-7"}) == BOTH
    assert cluster.now(reservation={"reservedCPUs": "2-7"}, memory="8Gi") == set()
    assert cluster.now(reservation={"reservedCPUs": "2-7"}, memory="9Gi") == BOTH
    assert cluster.now((2, 1, 8, 2)) == BOTH
    assert cluster.now((2, 1, 8, 2), policies=("Restricted",)) == BOTH
    cluster.views.view(NodeResourceTopology).remove("n0")
    assert cluster.woken == {"plain"}


def test_nodes_wake_by_what_is_read_of_them() -> None:
    cluster = Watched()
    assert cluster.by(NODE_ADD, None, node("n0")) == {"plain"}
    cluster.now()
    assert cluster.by(NODE_ADD, None, node("n0")) == BOTH
    plain = node("n0", cpu="16")
    policy = {"node.koordinator.sh/numa-topology-policy": "Restricted"}
    assert cluster.by(SAID, plain, node("n0", cpu="16", labels=policy)) == BOTH
    assert cluster.by(SAID, plain, node("n0", cpu="16", labels={"a": "b"})) == set()
    assert cluster.by(SAID, plain, node("n0", cpu="16", annotations={RATIO: '{"cpu":2}'})) == BOTH
    assert cluster.by(SAID, plain, node("n0", cpu="16", annotations={"a": "b"})) == set()


def test_a_topology_that_follows_its_node_at_once_wakes() -> None:
    cluster = Watched()
    cluster.node("n0", None)
    assert cluster.now() == BOTH


def test_how_much_cpu_nodes_have_counts_where_some_are_amplified() -> None:
    cluster = Watched()
    plain, more = node("n0", cpu="16"), node("n0", cpu="17")
    assert cluster.by(SAID, plain, more) == set()
    cluster.node("n1", annotations={RATIO: '{"cpu":1.5}'})
    assert cluster.by(SAID, plain, more) == BOTH
    assert cluster.by(SAID, plain, node("n0", cpu="16", memory="1Gi")) == set()


def test_a_pod_that_no_node_could_serve_sleeps_on() -> None:
    cluster = Watched(bad=bound_pod("bad", "4", preferred="Nonsense"), good=bound_pod("good", "4"))
    cluster.node("n0", (1, 1, 1, 2))
    assert cluster.now() == {"good"}
    gone = bound_pod("gone", "1", held={"cpuset": "1"})
    assert cluster.by(ASSIGNED_POD_DELETE, gone, None) == {"good"}
    assert cluster.by(NODE_ADD, None, node("n0")) == {"good"}


states = st.fixed_dictionaries(
    {"shape": st.sampled_from([(1, 1, 2, 2), SHAPE]), "memory": st.sampled_from(["2Gi", "16Gi"])},
    optional={
        "reservation": st.sampled_from(["0-1", "0-3", "2-3", "0-7"]).map(
            lambda text: {"reservedCPUs": text}
        ),
        "policies": st.sampled_from([("Restricted",), ("SingleNUMANodePodLevel",)]),
        "ratios": st.sampled_from([{"cpu": 1.5}, {"cpu": 2}]),
    },
)


@given(st.lists(states, min_size=2, max_size=6), st.sampled_from(["2", "4", "6"]))
def test_nobody_is_left_asleep_whom_a_topology_lets_in(history: list[Any], cpu: str) -> None:
    cluster = Watched(bound=bound_pod("bound", cpu), plain=bound_pod("plain", cpu, qos="LS"))
    cluster.node("n0", (1, 1, 1, 2), cpu="16")
    fitting: set[str] = set(cluster.waiting)
    for state in history:
        woken = cluster.now(**state)
        for name, each in cluster.waiting.items():
            fits = cluster.decider.decide(each).diagnosis is None
            assert not fits or name in woken or name in fitting
            fitting = fitting | {name} if fits else fitting - {name}
