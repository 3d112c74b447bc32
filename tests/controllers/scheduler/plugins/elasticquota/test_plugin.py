# SPDX-License-Identifier: Apache-2.0
"""The plugin in a scheduler: who is admitted, what they are told, what wakes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs

from koord.api.kinds.quota import ElasticQuota
from koord.base.errors import KoordError
from koord.controllers.scheduler.config.args_gangs_and_quota import HookPluginConf
from koord.kernels.quantity import Quantity
from koord.kernels.quota import Figure
from tests.controllers.scheduler.plugins.elasticquota.harness import Cluster
from tests.controllers.scheduler.plugins.elasticquota.objects import guide, pod, quota
from tests.controllers.scheduler.pods import node


def in_a_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    run.__name__ = test.__name__
    return run


def bound(info: Any, to: str = "n") -> Any:
    """A pod as the API shows it once it is bound."""
    return structs.replace(info.pod, spec=structs.replace(info.pod.spec, node_name=to))


@in_a_loop
async def test_pods_beyond_their_quota_wait_until_some_go() -> None:
    cluster = Cluster()
    cluster.put(node("n", cpu="32"), quota("a", min={"cpu": "4"}, max={"cpu": "4"}))
    pods = [pod(f"p{i}", "a", cpu="2") for i in range(3)]
    cluster.put(*pods)
    assert cluster.run() == ["p0", "p1"]
    assert cluster.said("p2") == (
        "0/1 nodes are available: Insufficient quotas, quotaName: a, runtime: cpu:4, used: cpu:4, "
        "pod's request: cpu:2, exceedDimensions: [cpu]. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    cluster.put(bound(pods[0]))
    assert cluster.run() == ["p0", "p1"]
    cluster.remove(pods[0])
    assert cluster.run() == ["p1", "p2"]


@in_a_loop
async def test_pods_whose_node_went_before_they_were_bound_use_their_quota() -> None:
    """Their bindings are on the way, and the server takes them."""
    cluster = Cluster()
    cluster.put(node("n", cpu="32"), quota("a", min={"cpu": "4"}, max={"cpu": "4"}))
    pods = [pod(f"p{i}", "a", cpu="2") for i in range(3)]
    cluster.put(*pods)
    assert cluster.run() == ["p0", "p1"]
    cluster.remove(node("n"))
    cluster.put(node("m", cpu="32"))
    assert cluster.run() == []
    assert cluster.quota.groups.tree("").figure("a", Figure.USED) == {"cpu": 4000}
    cluster.put(bound(pods[0]))
    assert cluster.run() == []
    cluster.remove(pods[0])
    assert cluster.run() == ["p2"]
    # The other one's binding failed.
    ((uid,),) = cluster.world.orphans.uids().values()
    orphan = cluster.world.orphans.get(uid)
    assert orphan is not None
    assert orphan.pod.metadata.name == "p1"
    cluster.scheduler.feed.give_up(orphan)
    assert cluster.quota.groups.tree("").figure("a", Figure.USED) == {"cpu": 2000}


@in_a_loop
async def test_a_raised_quota_wakes_whom_it_admits() -> None:
    cluster = Cluster()
    cluster.put(node("n", cpu="32"), quota("a", max={"cpu": "1"}))
    cluster.put(pod("small", "a", cpu="2"), pod("large", "a", cpu="6"))
    assert cluster.run() == []
    cluster.put(quota("a", max={"cpu": "3"}))
    assert cluster.scheduler.queue.pending()["unschedulable"] == 1
    assert cluster.run() == ["small"]


@in_a_loop
async def test_what_others_no_longer_ask_for_wakes_pods() -> None:
    """The runtime of one quota follows from the requests of all."""
    cluster = Cluster()
    cluster.put(node("n", cpu="8"))
    cluster.put(quota("a", max={"cpu": "8"}), quota("b", max={"cpu": "8"}))
    greedy = pod("greedy", "b", cpu="8")
    cluster.put(greedy, pod("p", "a", cpu="6"))
    assert cluster.run() == []
    cluster.remove(greedy)
    assert cluster.run() == ["p"]


@in_a_loop
async def test_a_larger_cluster_wakes_pods() -> None:
    cluster = Cluster()
    cluster.put(quota("a", max={"cpu": "8"}), node("n", cpu="4"))
    cluster.put(pod("p", "a", cpu="3"), pod("q", "a", cpu="3"))
    assert cluster.run() == ["p"]
    cluster.put(node("m", cpu="4"))
    assert cluster.run() == ["p", "q"]


@in_a_loop
async def test_reservations_of_nodes_are_no_quota() -> None:
    held = {"node.koordinator.sh/reservation": json.dumps({"reservedCPUs": "0-1"})}
    cluster = Cluster()
    cluster.put(quota("a", max={"cpu": "8"}), node("n", cpu="8", annotations=held))
    cluster.put(pod("p", "a", cpu="6"), pod("q", "a", cpu="1"))
    assert cluster.quota.groups.tree("").total["cpu"] == 6000
    assert cluster.run() == ["p"]
    cluster.put(node("n", cpu="8", annotations={"node.koordinator.sh/reservation": "{"}))
    assert cluster.quota.groups.tree("").total["cpu"] == 8000


@in_a_loop
async def test_a_quota_that_cannot_be_read_refuses_its_pods_and_says_why_once() -> None:
    cluster = Cluster()
    line = "ElasticQuota default/a: spec.min[cpu]: got '-1', expected a quantity of 0 or more"
    cluster.put(node("n"), quota("a", min={"cpu": "-1"}), pod("p", "a", cpu="1"))
    assert cluster.run() == []
    assert cluster.said("p").startswith(f"0/1 nodes are available: {line}. ")
    for _ in range(2):
        cluster.quota.upkeep()
        await cluster.world.invalid.step()
    assert [event for event in cluster.told.events if event[0] == "a"] == [("a", "Invalid", line)]
    cluster.put(quota("a", max={"cpu": "2"}))
    cluster.quota.upkeep()
    assert cluster.world.invalid.message(ElasticQuota, "default/a") == ""
    assert cluster.run() == ["p"]


@in_a_loop
async def test_a_quota_without_its_parent_says_so_until_that_comes() -> None:
    cluster = Cluster()
    cluster.put(node("n"), quota("a", parent="team", max={"cpu": "2"}))
    line = (
        "ElasticQuota default/a: labels[quota.scheduling.koordinator.sh/parent]: "
        "got 'team', expected a quota that exists"
    )
    for _ in range(2):
        cluster.quota.upkeep()
        await cluster.world.invalid.step()
    assert cluster.told.events == [("a", "Invalid", line)]
    cluster.put(quota("team", max={"cpu": "4"}, labels={"is-parent": "true"}))
    cluster.quota.upkeep()
    assert cluster.world.invalid.message(ElasticQuota, "default/a") == ""


@in_a_loop
async def test_a_quota_that_is_spoiled_later_stays_as_it_was() -> None:
    cluster = Cluster()
    cluster.put(node("n"), quota("a", max={"cpu": "2"}))
    cluster.put(quota("a", max={"cpu": "9", "memory": "9223372036854775808"}))
    cluster.put(pod("p", "a", cpu="1"), pod("q", "a", cpu="2"))
    assert cluster.run() == ["p"]


@in_a_loop
async def test_a_parent_that_comes_late_lets_its_children_in() -> None:
    cluster = Cluster()
    cluster.put(node("n"), quota("a", parent="team", max={"cpu": "2"}), pod("p", "a", cpu="1"))
    assert cluster.run() == []
    assert "quota a has an ancestor that does not exist" in cluster.said("p")
    cluster.put(quota("team", max={"cpu": "4"}, labels={"is-parent": "true"}))
    assert cluster.run() == ["p"]


@in_a_loop
async def test_quotas_that_are_below_each_other_admit_nobody_until_one_moves() -> None:
    cluster = Cluster()
    cluster.put(node("n"), quota("a", parent="b", max={"cpu": "2"}))
    cluster.put(quota("b", parent="a", max={"cpu": "2"}))
    cluster.put(pod("p", "a", cpu="1"), pod("q", "b", cpu="1"))
    assert cluster.run() == []
    assert "ElasticQuota default/b: labels[quota.scheduling.koordinator.sh/parent]: got 'a'" in (
        cluster.said("q")
    )
    cluster.put(quota("a", max={"cpu": "2"}))
    assert cluster.run() == ["p", "q"]


@in_a_loop
async def test_parents_are_checked_on_demand() -> None:
    for checked in (False, True):
        cluster = Cluster(enable_check_parent_quota=checked)
        cluster.put(node("n"), quota("team", max={"cpu": "4"}))
        cluster.put(quota("a", parent="team", max={"cpu": "4"}), pod("p", "team", cpu="1"))
        assert cluster.run() == ["p"]
        # The parent shares out 4, whatever its own pods use.
        cluster.put(pod("q", "a", cpu="4"))
        assert cluster.run() == (["p"] if checked else ["p", "q"])
        if checked:
            assert "quotaNameTopo: [team a], runtime: cpu:4, used: cpu:1" in cluster.said("q")


@in_a_loop
async def test_a_pod_that_must_stay_fits_into_the_minimum() -> None:
    cluster = Cluster()
    cluster.put(node("n"), quota("a", min={"cpu": "2"}, max={"cpu": "8"}))
    cluster.put(pod("p", "a", cpu="2", strict=True), pod("q", "a", cpu="1", strict=True))
    assert cluster.run() == ["p"]
    assert cluster.said("q").startswith(
        "0/1 nodes are available: Insufficient non-preemptible quotas, quotaName: a, min: cpu:2, "
        "nonPreemptibleUsed: cpu:2, pod's request: cpu:1, exceedDimensions: [cpu]. "
    )


@in_a_loop
async def test_max_is_the_limit_without_runtime_quota() -> None:
    cluster = Cluster(enable_runtime_quota=False)
    cluster.put(node("n", cpu="8"))
    cluster.put(quota("a", max={"cpu": "8"}), quota("b", max={"cpu": "8"}, min={"cpu": "8"}))
    cluster.put(pod("other", "b", cpu="8"), pod("p", "a", cpu="6"))
    assert cluster.run() == ["other"] or cluster.placed() == ["p"]
    assert not any("Insufficient quotas" in message for _, _, message in cluster.told.events)


@in_a_loop
async def test_a_job_is_answered_as_a_whole_and_nothing_is_left_of_the_question() -> None:
    cluster = Cluster()
    cluster.put(node("n"), quota("a", max={"cpu": "4"}))
    pods = [pod(f"p{i}", "a", cpu="1") for i in range(5)]
    cluster.put(*pods[:3])
    before = cluster.quota.debug(["quotas", "a"])
    assert cluster.quota.admit(pods[:4]) is None
    refused = cluster.quota.admit(pods)
    assert refused is not None
    assert "used: cpu:4, pod's request: cpu:1" in refused.text
    after = cluster.quota.debug(["quotas", "a"])
    assert {**after, "runtimeVersion": 0} == {**before, "runtimeVersion": 0}
    assert cluster.run() == ["p0", "p1", "p2"]
    # Members that hold a node already are part of what is used, not of the question.
    assert cluster.quota.admit(pods[:4]) is None


@in_a_loop
async def test_the_debug_answer() -> None:
    cluster = Cluster()
    cluster.put(node("n", cpu="8", memory="16Gi"), quota("a", min={"cpu": "2"}, max={"cpu": "4"}))
    cluster.put(guide("q", "team", hard={"cpu": "3"}, priority=7))
    cluster.put(pod("p", "a", cpu="1500m"), pod("w", "a", cpu="4"))
    cluster.run()
    names = [group["name"] for group in cluster.quota.debug(["quotas"])]
    assert names == ["a", "koord-guide", "team/q", "koordinator-default-quota",
                     "koordinator-system-quota"]  # fmt: skip
    answer = json.loads(json.dumps(cluster.quota.debug(["quotas", "a"])))
    assert answer["max"] == answer["runtime"] == answer["sharedWeight"] == {"cpu": "4"}
    assert (answer["min"], answer["used"]) == ({"cpu": "2"}, {"cpu": "1500m"})
    assert answer["request"] == answer["selfRequest"] == {"cpu": "5500m"}
    assert answer["podCache"] == {
        "default/p": {"isAssigned": True, "resource": {"cpu": "1500m"}},
        "default/w": {"isAssigned": False, "resource": {"cpu": "4"}},
    }
    assert cluster.quota.debug(["quotas", "team", "q"])["priority"] == 7
    assert cluster.quota.debug(["pods", "default", "w"])["over"][0]["by"] == "1500m"
    with pytest.raises(KeyError, match="cannot find quota nobody"):
        cluster.quota.debug(["quotas", "nobody"])


@in_a_loop
async def test_why_a_pod_is_over_its_quota() -> None:
    cluster = Cluster()
    cluster.put(node("n", cpu="8"), quota("a", min={"cpu": "2"}, max={"cpu": "6"}))
    cluster.put(quota("b", min={"cpu": "4"}, max={"cpu": "8"}), pod("busy", "b", cpu="8"))
    cluster.put(pod("p", "a", cpu="3"), pod("q", "a", cpu="2"))
    asked = pod("q", "a", cpu="2")
    cluster.run()
    answer = cluster.quota.why(asked)
    assert (answer["admitted"], answer["quota"], answer["path"]) == (
        False, "a", ["koordinator-root-quota", "a"],
    )  # fmt: skip
    (over,) = answer["over"]
    lines = over.pop("sharing")
    assert over == {"quota": "a", "resource": "cpu", "used": over["used"],
                    "request": "2", "limit": over["limit"], "by": over["by"],
                    "max": "6"}  # fmt: skip
    used, limit = (Quantity.parse(over[key]).milli() for key in ("used", "limit"))
    assert Quantity.parse(over["by"]).milli() == used + 2000 - limit
    assert lines[0].startswith("koordinator-root-quota shares out 8 cpu among 2; a asks for 5")


CASES = [
    (500, {"A": (0, 300), "B": (0, 300)}, {"A": 200, "B": 200}),
    (250, {"A": (0, 120), "B": (0, 100)}, {"A": 120, "B": 100}),
    (250, {"A": (100, 150), "B": (50, 140)}, {"A": 150, "B": 100}),
]


@pytest.mark.parametrize(("total", "asked", "runtimes"), CASES)
def test_the_guides_worked_cases(total, asked, runtimes) -> None:
    """docs/reference/quota.md#flat-quotas; one CPU a pod, all of which name no quota."""

    @in_a_loop
    async def run() -> None:
        cluster = Cluster()
        cluster.put(node("n", cpu=str(total), pods="1000"))
        for name, (priority, count) in asked.items():
            cluster.put(guide(name, f"team-{name}", min={"cpu": "100"}, max={"cpu": "300"},
                              hard={"cpu": "200"}, priority=priority))  # fmt: skip
            cluster.put(*(pod(f"{name}-{i}", namespace=f"team-{name}", cpu="1")
                          for i in range(count)))  # fmt: skip
        placed = cluster.run()
        for name, runtime in runtimes.items():
            tree = cluster.quota.groups.tree("")
            assert tree.runtime(f"team-{name}/{name}")["cpu"] == runtime * 1000
            assert sum(each.startswith(name) for each in placed) == min(runtime, asked[name][1])

    run()


@in_a_loop
async def test_negative_requests_are_refused_by_name() -> None:
    cluster = Cluster()
    cluster.put(node("n"), quota("a", max={"cpu": "4"}))
    cluster.put(pod("p", "a", cpu="-1"))
    assert cluster.run() == []
    field = "spec.containers[0].resources.requests[cpu]"
    assert f"{field}: got -1, expected 0 or more" in cluster.said("p")
    assert cluster.quota.groups.tree("").request("a") == {"cpu": 0}


def test_arguments_are_checked() -> None:
    with pytest.raises(KoordError, match="hookPlugins: got 'mine: nowhere'"):
        Cluster(hook_plugins=[HookPluginConf(key="mine", factory_key="nowhere")])
    with pytest.raises(KoordError, match="a quantity of 0 or more"):
        Cluster(default_quota_group_max={"cpu": Quantity.parse("-1")})


@in_a_loop
async def test_ten_thousand_pods_are_counted_quickly_and_exactly() -> None:
    cluster = Cluster()
    cluster.put(*(quota(f"q{i}", max={"cpu": "1k"}) for i in range(100)))
    pods = [pod(f"p{i}", f"q{i % 100}", cpu="10m") for i in range(10_000)]
    for each in pods:
        cluster.quota.ledger.list_pod(each)
        cluster.quota.ledger.place_pod(each)
    tree = cluster.quota.groups.tree("")
    assert all(tree.used(f"q{i}") == {"cpu": 1000} for i in range(100))
    for each in pods:
        cluster.quota.ledger.withdraw(each)
        cluster.quota.ledger.unlist(each.uid)
    assert all(tree.used(f"q{i}") == tree.request(f"q{i}") == {"cpu": 0} for i in range(100))
    assert len(cluster.quota.ledger) == 0
