# SPDX-License-Identifier: Apache-2.0
"""Worked examples of the stock plugins, messages word for word.

Rule: docs/reference/stock-plugins.md#filters.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from koord.api.codec import convert
from koord.base.errors import KoordError
from koord.controllers.scheduler.config import args_kube_scheduler as args
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.feasibility import best_node
from koord.controllers.scheduler.plugins.kubernetes.default_binder import DefaultBinder
from koord.controllers.scheduler.plugins.kubernetes.priority_sort import PrioritySort
from koord.controllers.scheduler.plugins.kubernetes.scheduling_gates import SchedulingGates
from tests.controllers.scheduler.pods import info, node, pod
from tests.controllers.scheduler.stock import Stock

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def parts(stock: Stock, waiting: Any) -> dict[str, dict[str, int]]:
    """By plugin and node, the normalised score, weight aside."""
    info = stock.world.shapes.info(waiting)
    cycle = Cycle(info, stock.table)
    verdict = stock.decider.evaluator.entry(cycle)
    rows = np.flatnonzero(verdict.feasible)
    scores = stock.decider.plugins.score
    _, found = best_node.totals(cycle, verdict, scores, rows)
    weights = {plugin.name: weight for plugin, weight in scores}
    return {
        name: {
            stock.table.name(row): score // weights[name]
            for row, score in zip(rows.tolist(), part.tolist(), strict=True)
        }
        for name, part in found.items()
    }


def near(kind: str, *terms: dict[str, Any], strength: str = "required") -> dict[str, Any]:
    return {"affinity": {kind: {f"{strength}DuringSchedulingIgnoredDuringExecution": list(terms)}}}


def on(app: str, key: str = HOSTNAME, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def test_a_cordoned_node_and_the_toleration_of_it() -> None:
    stock = Stock()
    stock.add(node("a", spec={"unschedulable": True}))
    assert stock.where(pod("p")) == "0/1 nodes are available: 1 node(s) were unschedulable."
    tolerant = pod("q", tolerations=[{"operator": "Exists"}])
    assert stock.where(tolerant) == "a"
    stock.add(node("a"))
    assert stock.where(pod("p")) == "a"


def test_a_pod_that_names_its_node() -> None:
    stock = Stock()
    stock.add(node("a"), node("b"))
    assert stock.where(pod("p", nodeName="b")) == "b"
    assert stock.where(pod("p", nodeName="a")) == "a"
    message = "0/2 nodes are available: 2 node(s) didn't match the requested node name."
    assert stock.where(pod("p", nodeName="c")) == message


def test_taints_refuse_or_cost_score() -> None:
    stock = Stock()
    stock.add(
        node("a", taints=[{"key": "k", "value": "v", "effect": "NoExecute"}]),
        node("b", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
    )
    message = "0/2 nodes are available: 2 node(s) had untolerated taint(s)."
    assert stock.where(pod("p")) == message
    assert stock.where(pod("q", tolerations=[{"key": "gpu", "operator": "Exists"}])) == "b"
    soft = [{"key": f"s{i}", "effect": "PreferNoSchedule"} for i in range(2)]
    stock.add(node("a", taints=soft), node("b", taints=soft[:1]), node("c"))
    found = parts(stock, pod("r", tolerations=[{"key": "s0", "operator": "Exists"}]))
    assert found["TaintToleration"] == {"a": 0, "b": 100, "c": 100}


def test_node_affinity_by_all_operators() -> None:
    stock = Stock()
    stock.add(node("a", labels={"cores": "8", "disk": "ssd"}), node("b", labels={"cores": "x"}))

    def required(*expressions: dict[str, Any], **more: Any) -> dict[str, Any]:
        term = {"matchExpressions": list(expressions), **more}
        return {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }}}  # fmt: skip

    def expect(where: str, operator: str, *values: str, key: str = "cores") -> None:
        each = {"key": key, "operator": operator, "values": list(values)}
        assert stock.where(pod(f"{operator}{key}{values}", **required(each))) == where

    nowhere = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    expect("a", "Gt", "7")
    expect(nowhere, "Gt", "8")
    expect("a", "Lt", "9")
    expect("b", "NotIn", "8")
    expect("a", "Exists", key="disk")
    expect("b", "DoesNotExist", key="disk")
    expect(nowhere, "In")
    expect(nowhere, "Gt", "seven")
    expect(nowhere, "Near", "7")
    expect(nowhere, "In", "not a label value!")
    assert stock.where(pod("none", **required())) == nowhere
    assert stock.where(pod("s", nodeSelector={"disk": "ssd"})) == "a"


def fields(*names: str) -> dict[str, Any]:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in names
    ]
    return {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
    }}}  # fmt: skip


def test_node_affinity_by_name() -> None:
    stock = Stock()
    stock.add(*(node(name) for name in "abc"))
    assert stock.where(pod("p", **fields("c"))) == "c"
    assert stock.where(pod("q", **fields("c", "b"))) == "b"
    both = fields("a")
    selector = both["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    selector["nodeSelectorTerms"][0]["matchFields"] += fields("b")["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"][0]["matchFields"]
    assert "pod affinity terms conflict" in stock.where(pod("r", **both))


def test_preferred_node_affinity_adds_up() -> None:
    stock = Stock()
    stock.add(node("a", labels={"x": "1"}), node("b", labels={"x": "1", "y": "1"}), node("c"))
    wished = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": k, "operator": "Exists"}]}}
        for k, weight in (("x", 20), ("y", 30))
    ]
    spec = {"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": wished
    }}}  # fmt: skip
    assert parts(stock, pod("p", **spec))["NodeAffinity"] == {"a": 40, "b": 100, "c": 0}
    wished[0]["preference"]["matchExpressions"][0]["operator"] = "Odd"  # type: ignore[index]
    message = stock.where(pod("q", **spec))
    assert message.endswith("preferred node affinity: operator: 'Odd' is not known.")


def test_affinity_that_the_profile_adds() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]}
    document = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    given = convert(document, args.NodeAffinityArgs, "NodeAffinityArgs")
    stock = Stock({"NodeAffinity": given})
    stock.add(node("a"))
    reason = "1 node(s) didn't match scheduler-enforced node affinity"
    assert stock.where(pod("p")) == f"0/1 nodes are available: {reason}."
    stock.add(node("b", labels={"x": ""}))
    assert stock.where(pod("p")) == "b"
    required["nodeSelectorTerms"][0]["matchExpressions"][0]["operator"] = "Odd"
    with pytest.raises(KoordError, match="addedAffinity"):
        Stock({"NodeAffinity": convert(document, args.NodeAffinityArgs, "NodeAffinityArgs")})


def ports(name: str, *wished: dict[str, Any]) -> Any:
    return pod(name, containers=[{"name": "c", "ports": list(wished)}])


def test_host_ports_by_protocol_and_address() -> None:
    stock = Stock()
    stock.add(node("a"))
    stock.put(ports("held", {"hostPort": 80, "hostIP": "10.0.0.1"}), "a")
    reason = "1 node(s) didn't have free ports for the requested pod ports"
    taken = f"0/1 nodes are available: {reason}."
    assert stock.where(ports("p", {"hostPort": 80})) == taken
    assert stock.where(ports("q", {"hostPort": 80, "hostIP": "10.0.0.1"})) == taken
    assert stock.where(ports("r", {"hostPort": 80, "hostIP": "10.0.0.2"})) == "a"
    assert stock.where(ports("s", {"hostPort": 80, "protocol": "UDP"})) == "a"
    assert stock.where(ports("t", {"containerPort": 80})) == "a"


def test_room_names_every_resource_that_is_short() -> None:
    stock = Stock()
    stock.add(node("a", cpu="2", memory="1Gi", pods="1"), node("b", cpu="1", memory="1Gi"))
    stock.put(pod("held"), "a")
    decision = stock.decide(pod("p", cpu="1500m", memory="2Gi", requests={"x.com/gpu": "1"}))
    assert decision.diagnosis is not None
    a, b = (decision.diagnosis.by_row[row] for row in range(2))
    assert a.reasons == ("Too many pods", "Insufficient memory", "Insufficient x.com/gpu")
    assert b.reasons == ("Insufficient cpu", "Insufficient memory", "Insufficient x.com/gpu")
    assert a.unresolvable
    assert b.unresolvable
    decision = stock.decide(pod("q", cpu="1"))
    assert decision.row == 1
    stock.put(pod("r", cpu="1"), "b")
    decision = stock.decide(pod("q", cpu="1"))
    assert decision.diagnosis is not None
    assert not decision.diagnosis.by_row[1].unresolvable


def test_extended_resources_may_be_ignored() -> None:
    stock = Stock()
    stock.add(node("a"))
    wished = {"requests": {"x.com/gpu": "1", "y.com/nic": "1", "kubernetes.io/batch-cpu": "1"}}
    assert stock.where(pod("p", **wished)) == (
        "0/1 nodes are available: 1 Insufficient kubernetes.io/batch-cpu, "
        "1 Insufficient x.com/gpu, 1 Insufficient y.com/nic."
    )
    given = args.NodeResourcesFitArgs(
        ignored_resources=["x.com/gpu", "kubernetes.io/batch-cpu"],
        ignored_resource_groups=["y.com"],
    )
    stock = Stock({"NodeResourcesFit": given})
    stock.add(node("a"))
    # What Kubernetes itself names is never ignored.
    assert stock.where(pod("p", **wished)) == (
        "0/1 nodes are available: 1 Insufficient kubernetes.io/batch-cpu."
    )


def test_least_most_and_ratio() -> None:
    waiting = pod("p", cpu="1", memory="2Gi")

    def score(strategy: dict[str, Any]) -> int:
        document = {"scoringStrategy": strategy}
        given = convert(document, args.NodeResourcesFitArgs, "NodeResourcesFitArgs")
        stock = Stock({"NodeResourcesFit": given})
        stock.add(node("a", cpu="4", memory="4Gi"))
        stock.put(pod("held"), "a")  # counts as 100 milli and 200 MiB
        return parts(stock, waiting)["NodeResourcesFit"]["a"]

    assert score({}) == (72 + 45) // 2
    assert score({"type": "MostAllocated"}) == (27 + 54) // 2
    both = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    assert score({"resources": both}) == (3 * 72 + 45) // 4
    shape = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 10}]
    line = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}
    assert score(line) == (54 + 100) // 2


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "Best"},
        {"type": "RequestedToCapacityRatio"},
        {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": [{"utilization": 101, "score": 1}]},
        },
    ],
)
def test_a_strategy_that_makes_no_sense(strategy: dict[str, Any]) -> None:
    document = {"scoringStrategy": strategy}
    given = convert(document, args.NodeResourcesFitArgs, "NodeResourcesFitArgs")
    with pytest.raises(KoordError, match="scoringStrategy"):
        Stock({"NodeResourcesFit": given})


def test_balance_of_fractions() -> None:
    stock = Stock()
    stock.add(node("a", cpu="4", memory="4Gi"))
    waiting = pod("p", cpu="1", memory="2Gi")
    assert parts(stock, waiting)["NodeResourcesBalancedAllocation"] == {"a": 87}
    assert "NodeResourcesBalancedAllocation" not in parts(stock, pod("best-effort"))
    # What the pod does not request of extended resources does not count, wherever it stands.
    names = [{"name": name} for name in ("cpu", "example.com/card", "memory")]
    given = convert({"resources": names}, args.NodeResourcesBalancedAllocationArgs, "Args")
    stock = Stock({"NodeResourcesBalancedAllocation": given})
    stock.add(node("a", cpu="4", memory="4Gi", allocatable={"example.com/card": "4"}))
    assert parts(stock, waiting)["NodeResourcesBalancedAllocation"] == {"a": 87}
    asking = pod("q", cpu="1", memory="2Gi", requests={"example.com/card": "4"})
    # Fractions of 1/4, 1 and 1/2: a deviation of 0.31.
    assert parts(stock, asking)["NodeResourcesBalancedAllocation"] == {"a": 68}


def test_an_overlay_gives_back_in_filter_and_score() -> None:
    stock = Stock(only=("NodeResourcesFit",))
    stock.add(node("a", cpu="4", memory="8Gi"), node("b", cpu="4", memory="8Gi"))
    stock.put(pod("held", cpu="4", memory="4Gi"), "a")
    plugin = stock.plugins["NodeResourcesFit"]
    cycle = Cycle(stock.world.shapes.info(pod("p", cpu="2", memory="1Gi")), stock.table)
    rows = np.array([0, 1])
    assert plugin.filter(cycle, rows).tolist() == [False, True]
    given = np.array([3000, 2 << 30, 0, 1])
    cycle.set_overlay(lambda row: given if row == 0 else None)
    assert plugin.filter(cycle, rows).tolist() == [True, True]
    assert plugin.score(cycle, rows).tolist() == [(25 + 62) // 2, (50 + 87) // 2]
    assert plugin.generation(cycle) != plugin.generation(Cycle(cycle.pod, stock.table))


def test_pods_that_must_be_near_others() -> None:
    stock = Stock()
    stock.add(*(node(f"n{i}", labels={ZONE: f"z{i % 2}"}) for i in range(4)), node("bare"))
    wished = near("podAffinity", on("db", ZONE))
    nowhere = "0/5 nodes are available: 5 node(s) didn't match pod affinity rules."
    assert stock.where(pod("p", labels={"app": "web"}, **wished)) == nowhere
    stock.put(pod("db", cpu="4", labels={"app": "db"}), "n1")
    assert stock.where(pod("p", labels={"app": "web"}, **wished)) == "n3"
    elsewhere = pod("q", labels={"app": "web"}, namespace="other", **wished)
    assert stock.where(elsewhere) == nowhere


def test_the_first_of_pods_that_want_to_be_together() -> None:
    stock = Stock()
    stock.add(*(node(f"n{i}", labels={ZONE: f"z{i % 2}"}) for i in range(4)))
    wished = near("podAffinity", on("a", ZONE))
    pods = [pod(f"p{i}", cpu="4", labels={"app": "a"}, **wished) for i in range(3)]
    assert [stock.place(each) for each in pods] == ["n0", "n2", "n0"]


def test_pods_that_must_be_apart() -> None:
    stock = Stock()
    stock.add(node("a"), node("b"))
    wished = near("podAntiAffinity", on("a"))
    assert stock.place(pod("p1", labels={"app": "a"}, **wished)) == "a"
    assert stock.place(pod("p2", labels={"app": "a"}, **wished)) == "b"
    assert stock.place(pod("p3", labels={"app": "a"}, **wished)) == (
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    )
    # A pod without terms of its own is kept out by those of others.
    assert stock.where(pod("p4", labels={"app": "a"})) == (
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    assert stock.where(pod("p5", labels={"app": "b"})) == "a"


def test_a_pod_affinity_that_cannot_be_read() -> None:
    stock = Stock()
    stock.add(node("a"))
    bad = {"matchExpressions": [{"key": "app", "operator": "Odd"}]}
    term = {"topologyKey": HOSTNAME, "labelSelector": bad}
    message = stock.where(pod("p", **near("podAffinity", term)))
    assert "podAffinity.required.labelSelector.matchExpressions[0].operator" in message
    # On a node it has no terms.
    stock.put(pod("q", **near("podAntiAffinity", term)), "a")
    assert stock.where(pod("r")) == "a"


def test_preferences_of_both_sides_are_weighed() -> None:
    stock = Stock()
    stock.add(*(node(name) for name in "abc"))
    wants = near("podAffinity", {"weight": 40, "podAffinityTerm": on("web")}, strength="preferred")
    stock.put(pod("db", labels={"app": "db"}, **wants), "a")
    stock.put(pod("must", labels={"app": "x"}, **near("podAffinity", on("web"))), "b")
    waiting = pod("p", labels={"app": "web"})
    # 40 on a, 1 (hardPodAffinityWeight) on b, 0 on c.
    assert parts(stock, waiting)["InterPodAffinity"] == {"a": 100, "b": 2, "c": 0}
    given = args.InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
    stock = Stock({"InterPodAffinity": given})
    stock.add(node("a"), node("b"))
    stock.put(pod("db", labels={"app": "db"}, **wants), "a")
    assert "InterPodAffinity" not in parts(stock, waiting)


def test_images_that_are_there_already() -> None:
    mib = 1 << 20
    stock = Stock()
    held = [{"names": ["app:1"], "sizeBytes": 600 * mib}, {"names": ["x"], "sizeBytes": 1}]
    stock.add(node("a", images=held), node("b"))
    waiting = pod("p", containers=[{"name": "c", "image": "app:1"}])
    # 600 MiB on half of the nodes count as 300: (300 - 23) of (1000 - 23).
    assert parts(stock, waiting)["ImageLocality"] == {"a": 28, "b": 0}
    stock.add(node("b", images=held))
    assert parts(stock, waiting)["ImageLocality"] == {"a": 59, "b": 59}
    stock.add(node("a"), node("b"))
    assert "ImageLocality" not in parts(stock, waiting)


def test_nobody_allocates_resource_claims() -> None:
    stock = Stock()
    stock.add(node("a"))
    assert stock.where(pod("p")) == "a"
    claims = [{"name": "card", "resourceClaimName": "c"}, {"name": "nic"}]
    assert stock.where(pod("q", resourceClaims=claims)) == (
        "0/1 nodes are available: spec.resourceClaims: got [card nic], expected none: "
        "koord allocates no claims."
    )
    # What else it asks for is the same as the first pod's.
    assert stock.where(pod("r")) == "a"


def test_gates_order_and_binding() -> None:
    stock = Stock()
    gates = SchedulingGates(None, stock.world)
    gated = info(pod("p", schedulingGates=[{"name": "a"}, {"name": "b"}]))
    held = gates.pre_enqueue(gated)
    assert held is not None
    assert held.text == "waiting for scheduling gates: [a b]"
    assert gates.pre_enqueue(info(pod("q"))) is None
    order = PrioritySort(None, stock.world)
    low, high = info(pod("low", priority=1)), info(pod("high", priority=9))
    assert order.sort_key(high, 5.0) < order.sort_key(low, 1.0) < order.sort_key(low, 2.0)

    class Client:
        bound: tuple[Any, ...] = ()

        async def bind(self, *what: Any) -> None:
            self.bound = what

    binder = DefaultBinder(None, stock.world)
    cycle = Cycle(low, stock.table)
    assert asyncio.run(binder.bind(cycle, "a"))
    stock.world.client = client = Client()  # type: ignore[assignment]
    assert asyncio.run(binder.bind(cycle, "a"))
    assert client.bound == (low.pod, "a")
