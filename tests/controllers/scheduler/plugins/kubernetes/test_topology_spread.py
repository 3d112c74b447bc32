# SPDX-License-Identifier: Apache-2.0
"""Worked examples of PodTopologySpread.

Rule: docs/reference/stock-plugins.md#podtopologyspread.
"""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.codec import convert
from koord.api.kinds.service import ReplicationController, Service
from koord.api.kinds.workloads import ReplicaSet
from koord.base.errors import KoordError
from koord.controllers.scheduler.config import args_kube_scheduler as args
from tests.controllers.scheduler.plugins.kubernetes.test_examples import ZONE, parts
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.stock import Stock

HOSTNAME = "kubernetes.io/hostname"


def spread(skew: int, key: str, action: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "a"}}
    each = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action}
    return {"topologySpreadConstraints": [{**each, "labelSelector": selector, **more}]}


def test_spread_by_zone() -> None:
    stock = Stock()
    stock.add(node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}), node("c"))
    wished = spread(1, ZONE)
    placed = [stock.place(pod(f"p{i}", labels={"app": "a"}, **wished)) for i in range(4)]
    assert sorted(placed[:2]) == ["a", "b"]
    assert sorted(placed[2:]) == ["a", "b"]
    stock.put(pod("more", labels={"app": "a"}), "a")
    stock.add(node("b", labels={ZONE: "y"}, spec={"unschedulable": True}))
    assert stock.where(pod("q", labels={"app": "a"}, **wished)) == (
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) didn't match pod topology spread constraints (missing required label), "
        "1 node(s) were unschedulable."
    )


def test_too_few_domains_count_as_an_empty_one() -> None:
    stock = Stock()
    stock.add(node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}))
    wished = spread(1, ZONE, minDomains=3)
    placed = [stock.place(pod(f"p{i}", labels={"app": "a"}, **wished)) for i in range(2)]
    assert sorted(placed) == ["a", "b"]
    reason = "2 node(s) didn't match pod topology spread constraints"
    refused = pod("q", labels={"app": "a"}, **wished)
    assert stock.where(refused) == f"0/2 nodes are available: {reason}."
    stock.add(node("c", labels={ZONE: "z"}))
    assert stock.where(refused) == "c"


def test_match_label_keys_tell_revisions_apart() -> None:
    stock = Stock()
    stock.add(node("a"), node("b"))
    wished = spread(1, HOSTNAME, matchLabelKeys=["rev"])
    stock.put(pod("old", cpu="4", labels={"app": "a", "rev": "1"}), "b")
    stock.put(pod("held", cpu="8"), "a")
    pods = [pod(f"p{i}", cpu="1", labels={"app": "a", "rev": "2"}, **wished) for i in range(2)]
    # By app alone node b would be one ahead, and closed.
    assert [stock.place(each) for each in pods] == ["b", "a"]


def test_pods_that_are_being_deleted_do_not_count() -> None:
    stock = Stock()
    stock.add(node("a"), node("b"))
    leaving = pod("old", labels={"app": "a"})
    leaving.metadata.deletion_timestamp = "2024-01-01T00:00:00Z"  # type: ignore[assignment]
    info = stock.put(leaving, "a")
    waiting = pod("p", cpu="1", labels={"app": "a"}, **spread(1, HOSTNAME))
    stock.put(pod("held", labels={"app": "a"}), "b")
    assert stock.where(waiting) == "a"
    stock.world.accounts.drop(info)
    assert stock.where(waiting) == "a"


@pytest.mark.parametrize("owner", ["service", "replicaset", "controller"])
def test_default_spread_of_pods_that_something_selects(owner: str) -> None:
    stock = Stock()
    stock.add(*(node(f"n{i}", labels={ZONE: f"z{i // 2}"}) for i in range(4)))
    labels = {"app": "a"}
    meta = {"name": "o", "namespace": "default"}
    owners: list[dict[str, Any]] = []
    if owner == "service":
        document = {"metadata": meta, "spec": {"selector": labels}}
        stock.views.view(Service).put(convert(document, Service, "Service"))
    elif owner == "replicaset":
        document = {"metadata": meta, "spec": {"selector": {"matchLabels": labels}}}
        stock.views.view(ReplicaSet).put(convert(document, ReplicaSet, "ReplicaSet"))
        owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "o"}]
    else:
        document = {"metadata": meta, "spec": {"selector": labels}}
        made = convert(document, ReplicationController, "ReplicationController")
        stock.views.view(ReplicationController).put(made)
        owners = [{"apiVersion": "v1", "kind": "ReplicationController", "name": "o", "uid": "o"}]
    owners = [{**each, "controller": True} for each in owners]
    placed = [stock.place(pod(f"p{i}", labels=labels, owners=owners)) for i in range(4)]
    assert placed[:2] == ["n0", "n2"]
    assert sorted(placed) == ["n0", "n1", "n2", "n3"]
    assert "PodTopologySpread" in parts(stock, pod("q", labels=labels, owners=owners))
    assert "PodTopologySpread" not in parts(stock, pod("r", labels={"app": "b"}))


def test_default_constraints_of_a_list() -> None:
    document = {
        "defaultingType": "List",
        "defaultConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        ],
    }
    given = convert(document, args.PodTopologySpreadArgs, "PodTopologySpreadArgs")
    stock = Stock({"PodTopologySpread": given})
    stock.add(node("a", labels={ZONE: "x"}), node("b"))
    service = {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "a"}},
    }
    assert stock.where(pod("p", labels={"app": "a"})) == "a"
    stock.views.view(Service).put(convert(service, Service, "Service"))
    stock.put(pod("held", cpu="30", memory="100Gi", labels={"app": "c"}), "a")
    assert stock.where(pod("p", labels={"app": "a"})) == "a"
    assert stock.where(pod("q", labels={"app": "b"})) == "b"
    document["defaultingType"] = "System"
    with pytest.raises(KoordError, match="defaultConstraints"):
        Stock({
            "PodTopologySpread": convert(document, args.PodTopologySpreadArgs, "Args"),
        })  # fmt: skip


def test_rows_are_used_again() -> None:
    stock = Stock()
    stock.add(*(node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(3)))
    wished = spread(1, ZONE)
    held = stock.put(pod("held", labels={"app": "a"}), "n0")
    waiting = pod("p", labels={"app": "a"}, **wished)
    assert stock.where(waiting) in ("n1", "n2")
    stock.world.accounts.drop(held)
    stock.table.remove("n0")
    stock.add(node("m", labels={ZONE: "z1"}))
    stock.put(pod("again", labels={"app": "a"}), "m")
    assert stock.where(waiting) == "n2"
    for index in range(200):
        stock.add(node(f"x{index:03}", cpu="1"))
    assert stock.where(waiting) == "n2"
