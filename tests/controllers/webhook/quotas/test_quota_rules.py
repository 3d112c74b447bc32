# SPDX-License-Identifier: Apache-2.0
"""Each rule of ElasticQuota admission by an example."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.controllers.webhook.elasticquotas import HANDLERS
from koord.controllers.webhook.framework.admission_decision import AdmissionDecision
from koord.controllers.webhook.framework.webhook_table import (
    MUTATE_QUOTA,
    VALIDATE_GROUP_QUOTA,
    VALIDATE_QUOTA,
)
from koord.controllers.webhook.options import WebhookOptions
from tests.controllers.webhook.api_server import PREFIX, Replica, Server, asked, quota, request


def told(replica: Replica, operation: str, new: Any, old: Any = None) -> AdmissionDecision:
    handler = HANDLERS[VALIDATE_QUOTA](replica.given)
    replica.catch_up()
    return asyncio.run(asked(handler, request(operation, new, old)))


def filled(replica: Replica, new: Any) -> dict[str, Any]:
    handler = HANDLERS[MUTATE_QUOTA](replica.given)
    document = asyncio.run(asked(handler, request("CREATE", new))).document
    assert document is not None
    metadata: dict[str, Any] = document["metadata"]
    return metadata


def world(*items: Any, gates: str = "", **options: Any) -> Replica:
    server = Server()
    for item in items:
        server.put(item)
    replica = server.replica(gates=gates, options=WebhookOptions(**options))
    replica.prompt = True
    return replica


PARENT = quota(
    "p", is_parent="true", min={"cpu": 10, "memory": 51200}, max={"cpu": 64, "memory": 99999}
)


def child(name: str = "c", cpu: Any = 1, **more: Any) -> Any:
    return quota(name, "p", min={"cpu": cpu}, max={"cpu": 120, "memory": 1048576}, **more)


def test_a_quota_without_a_parent_is_below_the_root() -> None:
    found = filled(world(), quota("a", max={"cpu": 120, "memory": 1048576}))
    assert found["labels"] == {PREFIX + "parent": "koordinator-root-quota"}
    weight = json.loads(found["annotations"][PREFIX + "shared-weight"])
    assert weight == {"cpu": "120", "memory": "1048576"}


def test_the_root_that_a_scheduler_makes_bounds_nobody() -> None:
    root = quota("koordinator-root-quota", namespace="kube-system", is_parent="true")
    top = quota("top", "koordinator-root-quota", is_parent="true", min={"cpu": 5}, max={"cpu": 9})
    assert told(world(root), "CREATE", top).allowed


@pytest.mark.parametrize(
    ("most", "weight", "filled_in"),
    [
        ({"cpu": 120, "memory": 1048576}, {"cpu": 0}, {"cpu": "0", "memory": "1048576"}),
        ({"memory": 5}, {"cpu": 0, "memory": 0}, {"memory": "0"}),
    ],
)
def test_a_weight_has_the_resources_of_max(most: Any, weight: Any, filled_in: Any) -> None:
    found = filled(world(), quota("a", max=most, shared_weight=weight))
    assert json.loads(found["annotations"][PREFIX + "shared-weight"]) == filled_in


def test_a_weight_that_has_them_stays_as_it_is_written() -> None:
    text = '{ "cpu": "1000m" }'
    given = quota("a", "koordinator-root-quota", max={"cpu": 5})
    given.metadata.annotations[PREFIX + "shared-weight"] = text
    handler = HANDLERS[MUTATE_QUOTA](world().given)
    assert asyncio.run(asked(handler, request("CREATE", given))).document is None


def test_a_tree_is_that_of_the_parent() -> None:
    parent = quota("p", is_parent="true", tree_id="t")
    assert filled(world(parent), child())["labels"][PREFIX + "tree-id"] == "t"


def test_a_parent_that_is_not_known_is_refused_at_once() -> None:
    handler = HANDLERS[MUTATE_QUOTA](world().given)
    found = asyncio.run(asked(handler, request("CREATE", child())))
    assert not found.allowed
    assert found.message == (
        f"ElasticQuota default/c: labels[{PREFIX}parent]: got 'p', "
        "expected the name of a quota that exists"
    )


def test_a_parent_that_another_replica_made_is_waited_for() -> None:
    replica = world()
    handler = HANDLERS[MUTATE_QUOTA](replica.given)
    replica.server.put(quota("p", is_parent="true", tree_id="t"))

    async def both() -> AdmissionDecision:
        answer = asyncio.create_task(asked(handler, request("CREATE", child())))
        for _ in range(5):
            await asyncio.sleep(0)
        replica.catch_up()
        return await answer

    document = asyncio.run(both()).document
    assert document is not None
    assert document["metadata"]["labels"][PREFIX + "tree-id"] == "t"


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (quota("a", max={"cpu": -1}), "spec.max[cpu]: got '-1', expected a quantity of 0 or more"),
        (
            quota("a", min={"cpu": -1}, max={"cpu": 1}),
            "spec.min[cpu]: got '-1', expected a quantity of 0 or more",
        ),
        (
            quota("a", max={"cpu": 1}, shared_weight={"cpu": -1}),
            f"annotations[{PREFIX}shared-weight][cpu]: got '-1', expected a quantity of 0 or more",
        ),
        (
            quota("a", min={"memory": 1}, max={"cpu": 1}),
            "spec.min[memory]: got 'memory', expected a resource that spec.max has too",
        ),
        (
            quota("a", min={"cpu": 2}, max={"cpu": 1}),
            "spec.min[cpu]: got '2', expected at most 1, its spec.max",
        ),
        (
            quota("a", max={"cpu": 1}, used={"cpu": 3}, max_strict_check_resource_keys=["cpu"]),
            "spec.max[cpu]: got '1', expected at least 3, which its pods use",
        ),
        (
            quota("a", max={}, used={"cpu": 3}, max_strict_check_resource_keys=["cpu", "memory"]),
            "spec.max[cpu]: got None, expected at least 3, which its pods use",
        ),
    ],
)
def test_a_quota_by_itself(wrong: Any, line: str) -> None:
    found = told(world(), "CREATE", wrong)
    assert found.message == f"ElasticQuota default/a: {line}"


def test_what_is_used_does_not_bind_resources_that_are_not_named() -> None:
    assert told(world(), "CREATE", quota("a", max={"cpu": 1}, used={"cpu": 3})).allowed


def test_a_name_is_one_across_namespaces() -> None:
    found = told(world(quota("a", namespace="x")), "CREATE", quota("a"))
    assert found.message == (
        "ElasticQuota default/a: metadata.name: got 'a', "
        "expected a name that no quota has; ElasticQuota x/a has it"
    )


def test_a_namespace_has_one_quota() -> None:
    there = quota("x", namespaces=["team"])
    found = told(world(there), "CREATE", quota("a", namespaces=["team"]))
    assert found.message == (
        f"ElasticQuota default/a: annotations[{PREFIX}namespaces]: got 'team', "
        "expected namespaces without a quota; x has it"
    )
    assert told(world(there), "UPDATE", quota("x", namespaces=["team", "b"]), there).allowed


def test_children_take_no_more_than_the_parents_min() -> None:
    lesser = quota("p", is_parent="true", min={"cpu": 10}, max=PARENT.spec.max)
    larger = quota("p", is_parent="true", min={"cpu": 19}, max=PARENT.spec.max)
    none = quota("p", is_parent="true", max=PARENT.spec.max)
    assert not told(world(lesser), "CREATE", child(cpu=16)).allowed
    assert told(world(larger), "CREATE", child(cpu=16)).allowed
    assert not told(world(none), "CREATE", child(cpu="1m")).allowed
    found = told(world(lesser, child("b", 7)), "CREATE", child(cpu=4))
    assert found.message == (
        "ElasticQuota default/c: spec.min[cpu]: got '11 together', "
        "expected minimums of b, c that add up to at most 10, the min of p"
    )


def test_a_childs_max_may_be_more_than_its_parents() -> None:
    assert told(world(PARENT, child("b")), "CREATE", child()).allowed


@pytest.mark.parametrize("is_parent", ["true", "false"])
def test_the_object_of_the_root_bounds_nothing(is_parent: str) -> None:
    # As the scheduler keeps it: without a max and, at first, without a min.
    root = quota("koordinator-root-quota")
    new = quota(
        "a", "koordinator-root-quota", is_parent=is_parent, min={"cpu": 32}, max={"cpu": 64}
    )
    assert told(world(root), "CREATE", new).message == ""
    full = quota("koordinator-root-quota", min={"cpu": 1}, max={"cpu": 1, "memory": 1})
    assert told(world(full), "UPDATE", new, quota("a", is_parent=is_parent)).message == ""


def test_a_forced_quota_is_bound_by_no_sum() -> None:
    assert told(world(PARENT), "CREATE", child(cpu=16, allow_force_update="true")).allowed


def test_a_parents_min_covers_its_children() -> None:
    less = quota("p", is_parent="true", min={"cpu": 1, "memory": 51200}, max=PARENT.spec.max)
    found = told(world(PARENT, child("a", 4), child("b", 3)), "UPDATE", less, PARENT)
    assert found.message == (
        "ElasticQuota default/p: spec.min[cpu]: got '1', "
        "expected at least 7, what the minimums of its children add up to"
    )


def test_only_parents_have_children() -> None:
    leaf = quota("p", min=PARENT.spec.min, max=PARENT.spec.max)
    assert told(world(leaf), "CREATE", child()).message == (
        f"ElasticQuota default/c: labels[{PREFIX}parent]: got 'p', "
        f'expected a group with the label {PREFIX}is-parent: "true"'
    )


def test_a_parent_with_children_stays_one() -> None:
    leaf = quota("p", is_parent="false", min=PARENT.spec.min, max=PARENT.spec.max)
    found = told(world(PARENT, child()), "UPDATE", leaf, PARENT)
    assert found.message == (
        f"ElasticQuota default/p: labels[{PREFIX}is-parent]: got 'false', "
        'expected "true" while it has children (1)'
    )
    assert told(world(PARENT), "UPDATE", leaf, PARENT).allowed


def pod(name: str, namespace: str, quota_name: str = "") -> Pod:
    labels = {PREFIX + "name": quota_name} if quota_name else {}
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return codec.convert({"metadata": meta}, Pod, "pod")


@pytest.mark.parametrize(
    ("there", "free"),
    [
        (pod("x", "any", "q"), False),
        (pod("x", "q"), False),
        (pod("x", "team"), False),
        (pod("x", "other"), True),
    ],
)
def test_a_quota_with_pods_becomes_no_parent(there: Pod, free: bool) -> None:
    old = quota("q", max={"cpu": 1}, namespaces=["team"])
    new = quota("q", max={"cpu": 1}, namespaces=["team"], is_parent="true")
    assert told(world(old, there), "UPDATE", new, old).allowed is free


def test_a_tree_does_not_change_and_is_the_parents() -> None:
    old, new = quota("a", tree_id="t"), quota("a", tree_id="u")
    assert told(world(old), "UPDATE", new, old).message == (
        f"ElasticQuota default/a: labels[{PREFIX}tree-id]: got 'u', "
        "expected t, for it cannot change"
    )
    found = told(world(PARENT), "CREATE", child(tree_id="t"))
    assert "expected nothing, the tree of its parent p" in found.message


def test_resources_of_parent_and_child() -> None:
    fewer = quota("c", "p", min={"cpu": 1}, max={"cpu": 120})
    assert told(world(PARENT), "CREATE", fewer).message == (
        "ElasticQuota default/c: spec.max: got 'cpu', "
        "expected the resources that the max of its parent p has: cpu, memory"
    )
    gate = "ElasticQuotaEnableUpdateResourceKey=true"
    assert told(world(PARENT, gates=gate), "CREATE", fewer).allowed
    parent = quota("p", is_parent="true", min=PARENT.spec.min, max={"cpu": 64})
    found = told(world(PARENT, child()), "UPDATE", parent, PARENT)
    assert "the resources that the max of its child c has: cpu, memory" in found.message
    least = quota("p", is_parent="true", min={"memory": 1}, max=PARENT.spec.max)
    assert not told(world(least), "CREATE", child()).allowed


def test_a_parent_below_itself_is_refused() -> None:
    grandchild = quota("d", "c", is_parent="true")
    old = child(is_parent="true")
    new = quota("c", "d", is_parent="true", max=old.spec.max, min=old.spec.min)
    found = told(world(PARENT, old, grandchild), "UPDATE", new, old)
    assert "expected a parent that is not below the quota" in found.message


def test_what_is_unchanged_is_not_judged() -> None:
    wrong = quota("koordinator-root-quota", min={"cpu": 2}, max={"cpu": 1})
    weighed = quota("koordinator-root-quota", min={"cpu": 2}, max={"cpu": 1}, shared_weight={})
    assert told(world(wrong), "UPDATE", weighed, wrong).allowed
    more = quota("koordinator-root-quota", min={"cpu": 1}, max={"cpu": 1})
    assert not told(world(wrong), "UPDATE", more, wrong).allowed


def test_deletion() -> None:
    for name in ("koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota"):
        assert not told(world(quota(name)), "DELETE", None, quota(name)).allowed
    assert told(world(PARENT, child()), "DELETE", None, PARENT).message == (
        "ElasticQuota default/p: got 'deletion', expected a quota without children; it has 1"
    )
    pods = [pod(name, "n", "c") for name in ("x", "y", "z")]
    assert told(world(PARENT, child(), *pods), "DELETE", None, child()).message == (
        "ElasticQuota default/c: got 'deletion', "
        "expected a quota without pods; 3 name it: n/x, n/y, ..."
    )
    assert told(world(PARENT, child(), pod("x", "c")), "DELETE", None, child()).allowed


@pytest.mark.parametrize(("cpu", "good"), [(6, True), (7, True), (8, False)])
def test_a_min_is_guaranteed_above(cpu: int, good: bool) -> None:
    def one(name: str, parent: str, guaranteed: int, **more: Any) -> Any:
        kept = {"cpu": guaranteed}
        return quota(name, parent, max={"cpu": 99}, guaranteed=kept, tree_id="t", **more)

    root = one("r", "", 10, min={"cpu": 10}, is_parent="true", is_root="true")
    sibling, old = one("s", "r", 3, min={"cpu": 0}), one("c", "r", 6, min={"cpu": 6})
    new = one("c", "r", 6, min={"cpu": cpu}, allow_force_update="false")
    replica = world(root, sibling, old, gates="ElasticQuotaGuaranteeUsage=true")
    assert told(replica, "UPDATE", new, old).allowed is good


def test_what_a_quota_reaches() -> None:
    from koord.api.kinds.cluster import Namespace

    opened = {"name": "b", "annotations": {"koord.sh/quotas-from": "default"}}
    namespaces = [
        codec.convert({"metadata": meta}, Namespace, "n") for meta in ({"name": "a"}, opened)
    ]
    replica = world(*namespaces, PARENT, quota_scope="namespace")
    assert told(replica, "CREATE", quota("x", namespaces=["b"])).allowed
    assert not told(replica, "CREATE", quota("x", namespaces=["a"])).allowed
    assert not told(replica, "CREATE", child(namespace="a")).allowed
    assert told(replica, "CREATE", child(namespace="b")).allowed


def test_the_guides_quota_is_told_by_field() -> None:
    handler = HANDLERS[VALIDATE_GROUP_QUOTA](world().given)
    wrong = {"metadata": {"name": "a", "namespace": "n"}, "spec": {"hard": {"cpu": "-1"}}}
    found = asyncio.run(asked(handler, request("CREATE", wrong)))
    assert "spec.hard[cpu]: got '-1', expected a quantity of 0 or more" in found.message


def test_the_tree_as_a_document() -> None:
    given = world(PARENT, child()).given
    HANDLERS[VALIDATE_QUOTA](given)
    assert given.debug_pages["/elasticQuota"]() == {
        "quotaInfoMap": {
            "c": {
                "name": "c", "parentName": "p", "isParent": False, "allowLentResource": True,
                "max": {"cpu": "120", "memory": "1048576"}, "min": {"cpu": "1"},
            },
            "p": {
                "name": "p", "parentName": "koordinator-root-quota", "isParent": True,
                "allowLentResource": True, "max": {"cpu": "64", "memory": "99999"},
                "min": {"cpu": "10", "memory": "51200"},
            },
        },
        "quotaHierarchyInfo": {"c": [], "p": ["c"], "koordinator-root-quota": ["p"]},
    }  # fmt: skip


def test_the_weight_that_was_filled_in_is_a_metric_until_the_quota_goes() -> None:
    replica = world()
    handler = HANDLERS[MUTATE_QUOTA](replica.given)
    prefix = "koord_manager_webhook_quota_shared_weight"
    for asks in (
        quota("q", max={"cpu": 3, "memory": "2"}),
        quota("r", max={"cpu": 3}, shared_weight={"cpu": 1}),
    ):
        asyncio.run(asked(handler, request("CREATE", asks)))
    shown = replica.given.metrics.expose().decode()
    assert f'{prefix}{{elasticquota_name="q",resource_name="cpu"}} 3.0' in shown
    assert 'elasticquota_name="r"' not in shown
    replica.views.view(ElasticQuota).put(quota("q"))
    replica.views.view(ElasticQuota).remove("default/q")
    assert "elasticquota_name" not in replica.given.metrics.expose().decode()


def test_a_weight_of_more_than_integers_hold_is_a_metric_too() -> None:
    """koord-scheduler's own quotas have a fifth of 64 bits; people write more."""
    replica = world()
    handler = HANDLERS[MUTATE_QUOTA](replica.given)
    amounts = {"cpu": "1844674407370955161", "memory": "100E", "pods": "1500m", "x": "3Gi"}
    asyncio.run(asked(handler, request("CREATE", quota("q", max=amounts))))
    shown = replica.given.metrics.expose().decode()
    for name, number in (("cpu", 1844674407370955161.0), ("memory", 1e20), ("pods", 1.5)):
        assert f'resource_name="{name}"}} {number!r}\n' in shown
    assert 'resource_name="x"} 3.221225472e+09\n' in shown
