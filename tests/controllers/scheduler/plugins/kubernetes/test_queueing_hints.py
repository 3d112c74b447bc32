# SPDX-License-Identifier: Apache-2.0
"""Which cluster events wake which pods.

Rule: docs/reference/scheduling.md#events-and-hints.
"""

from __future__ import annotations

from koord.controllers.scheduler.plugins.kubernetes.scheduling_gates import SchedulingGates
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD,
    NODE,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
)
from tests.controllers.scheduler.plugins.event_hints import wakes
from tests.controllers.scheduler.plugins.kubernetes.test_examples import (
    HOSTNAME,
    ZONE,
    near,
    on,
    ports,
)
from tests.controllers.scheduler.plugins.kubernetes.test_topology_spread import spread
from tests.controllers.scheduler.pods import info, node, pod
from tests.controllers.scheduler.stock import Stock

NODE_ADD = ClusterEvent(NODE, Action.ADD)
NODE_LABEL = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)
NODE_ROOM = ClusterEvent(NODE, Action.UPDATE_NODE_ALLOCATABLE)
POD_ADD = ClusterEvent(ASSIGNED_POD, Action.ADD)
POD_DELETE = ClusterEvent(ASSIGNED_POD, Action.DELETE)
POD_OTHER = ClusterEvent(ASSIGNED_POD, Action.UPDATE_OTHER)
POD_LESS = ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_SCALE_DOWN)
TOLERATION = ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION)


def test_room() -> None:
    plugin = Stock().plugins["NodeResourcesFit"]
    waiting = info(pod("p", cpu="4"))
    assert wakes(plugin, waiting, POD_DELETE, info(pod("q")), None)
    assert wakes(plugin, waiting, NODE_ADD, None, node("a", cpu="4"))
    assert not wakes(plugin, waiting, NODE_ADD, None, node("a", cpu="3"))
    assert wakes(plugin, waiting, NODE_ROOM, node("a", cpu="3"), node("a", cpu="4"))
    more_memory = node("a", cpu="4", memory="256Gi")
    assert not wakes(plugin, waiting, NODE_ROOM, node("a", cpu="4"), more_memory)
    assert not wakes(plugin, waiting, NODE_TAINT, node("a"), node("a"))
    assert wakes(plugin, waiting, POD_LESS, pod("p", cpu="5"), pod("p", cpu="4"))
    assert not wakes(plugin, waiting, POD_LESS, pod("q", cpu="5"), pod("q", cpu="4"))


def test_a_pod_that_goes_wakes_whom_its_node_could_take_when_empty() -> None:
    stock = Stock()
    stock.add(node("a", cpu="4"), node("b", cpu="8"))
    plugin = stock.plugins["NodeResourcesFit"]
    waiting = info(pod("p", cpu="5"))
    for name, expected in (("a", False), ("b", True), ("gone", True)):
        left = info(pod("q", nodeName=name))
        assert wakes(plugin, waiting, POD_DELETE, left, None) is expected
    unknown = info(pod("u", requests={"example.com/new": "1"}))
    assert not wakes(plugin, unknown, POD_DELETE, info(pod("q", nodeName="b")), None)


def test_nodes_that_come_to_match() -> None:
    stock = Stock()
    waiting = info(pod("p", nodeSelector={"disk": "ssd"}))
    plugin = stock.plugins["NodeAffinity"]
    ssd = node("a", labels={"disk": "ssd"})
    assert wakes(plugin, waiting, NODE_ADD, None, ssd)
    assert wakes(plugin, waiting, NODE_LABEL, node("a"), ssd)
    assert not wakes(plugin, waiting, NODE_LABEL, ssd, ssd)
    assert not wakes(plugin, waiting, NODE_LABEL, ssd, node("a"))
    tainted = node("a", taints=[{"key": "k", "effect": "NoSchedule"}])
    plugin = stock.plugins["TaintToleration"]
    assert wakes(plugin, waiting, NODE_TAINT, tainted, node("a"))
    assert not wakes(plugin, waiting, NODE_TAINT, node("a"), tainted)
    assert wakes(plugin, waiting, TOLERATION, pod("p"), waiting)
    assert not wakes(plugin, waiting, TOLERATION, pod("q"), pod("q"))
    plugin = stock.plugins["NodeUnschedulable"]
    cordoned = node("a", spec={"unschedulable": True})
    assert wakes(plugin, waiting, NODE_TAINT, cordoned, node("a"))
    assert not wakes(plugin, waiting, NODE_ADD, None, cordoned)
    named = info(pod("n", nodeName="b"))
    plugin = stock.plugins["NodeName"]
    assert not wakes(plugin, named, NODE_ADD, None, node("a"))
    assert wakes(plugin, named, NODE_ADD, None, node("b"))


def test_ports_that_are_freed() -> None:
    plugin = Stock().plugins["NodePorts"]
    waiting = info(ports("p", {"hostPort": 80}))
    assert wakes(plugin, waiting, POD_DELETE, info(ports("q", {"hostPort": 80})), None)
    assert not wakes(plugin, waiting, POD_DELETE, info(ports("q", {"hostPort": 81})), None)


def test_pods_near_by() -> None:
    plugin = Stock().plugins["InterPodAffinity"]
    wants = info(pod("p", labels={"app": "web"}, **near("podAffinity", on("db", ZONE))))
    db, other = info(pod("db", labels={"app": "db"})), info(pod("o"))
    assert wakes(plugin, wants, POD_ADD, None, db)
    assert not wakes(plugin, wants, POD_ADD, None, other)
    assert not wakes(plugin, wants, POD_DELETE, db, None)
    assert not wakes(plugin, wants, NODE_ADD, None, node("a"))
    assert wakes(plugin, wants, NODE_ADD, None, node("a", labels={ZONE: "z"}))
    avoids = info(pod("a", **near("podAntiAffinity", on("db"))))
    assert wakes(plugin, avoids, POD_DELETE, db, None)
    assert not wakes(plugin, avoids, POD_ADD, None, db)
    assert wakes(plugin, db, POD_DELETE, avoids, None)


def test_domains_that_change() -> None:
    plugin = Stock().plugins["PodTopologySpread"]
    waiting = info(pod("p", labels={"app": "a"}, **spread(1, ZONE)))
    same, other = info(pod("q", labels={"app": "a"})), info(pod("r"))
    assert wakes(plugin, waiting, POD_ADD, None, same)
    assert wakes(plugin, waiting, POD_DELETE, same, None)
    assert not wakes(plugin, waiting, POD_DELETE, other, None)
    leaving = pod("q", labels={"app": "a"})
    leaving.metadata.deletion_timestamp = "2024-01-01T00:00:00Z"  # type: ignore[assignment]
    assert wakes(plugin, waiting, POD_OTHER, same.pod, info(leaving))
    assert wakes(plugin, waiting, NODE_ADD, None, node("a", labels={ZONE: "z"}))
    assert not wakes(plugin, waiting, NODE_ADD, None, node("a"))
    assert wakes(plugin, waiting, NODE_LABEL, node("a"), node("a", labels={ZONE: "z"}))
    moved = node("a", labels={HOSTNAME: "b"})
    assert not wakes(plugin, waiting, NODE_LABEL, node("a"), moved)


def test_more_taints_tolerated_make_other_domains() -> None:
    plugin = Stock().plugins["PodTopologySpread"]
    for policy, expected in (("Honor", True), ("Ignore", False)):
        waiting = info(pod("p", labels={"app": "a"}, **spread(1, ZONE, nodeTaintsPolicy=policy)))
        assert wakes(plugin, waiting, TOLERATION, pod("p"), waiting) is expected
        assert not wakes(plugin, waiting, TOLERATION, pod("q"), info(pod("q")))


def test_gates_that_are_gone() -> None:
    gates = SchedulingGates(None, Stock().world)
    gone = ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    waiting = info(pod("p"))
    assert wakes(gates, waiting, gone, pod("p"), waiting)
    assert not wakes(gates, waiting, gone, pod("q"), pod("q"))
