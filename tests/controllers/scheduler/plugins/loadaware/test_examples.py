# SPDX-License-Identifier: Apache-2.0
"""The worked examples of docs/reference/load.md, and its rules one by one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from koord.api.codec import convert
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod, PodStatus
from koord.controllers.cluster.load_estimate import estimate
from koord.controllers.scheduler.plugins.loadaware.cache import estimate_by_view
from tests.controllers.scheduler.plugins.loadaware.reports import (
    START,
    Load,
    amounts,
    condition,
    metric,
)
from tests.controllers.scheduler.pods import node, pod

GI = 1024**3
FACTORS = {"cpu": 85, "memory": 70}
CPU_EXCEEDS = "node(s) cpu usage exceed threshold"


def limited(requests: dict[str, str], limits: dict[str, str], **more: Any) -> Pod:
    containers = [{"name": "main", "resources": {"requests": requests, "limits": limits}}]
    return pod("p", containers=containers, **more)


@pytest.mark.parametrize(
    ("requests", "limits", "factors", "expected"),
    [
        ({"cpu": "4", "memory": "8Gi"}, {"cpu": "4", "memory": "8Gi"}, FACTORS, (3400, 6012954214)),
        ({"cpu": "4", "memory": "8Gi"}, {"cpu": "8", "memory": "8Gi"}, FACTORS, (6800, 6012954214)),
        ({"cpu": "4"}, {"cpu": "4"}, {"cpu": 110, "memory": 70}, (4000, 209715200)),
        ({}, {}, FACTORS, (250, 209715200)),
        ({"cpu": "10m"}, {}, {"cpu": 85, "memory": 70}, (9, 209715200)),
    ],
)
def test_estimates(
    requests: dict[str, str],
    limits: dict[str, str],
    factors: dict[str, int],
    expected: tuple[int, int],
) -> None:
    found = estimate(limited(requests, limits), factors)
    assert (found["cpu"], found["memory"]) == expected


def test_estimates_of_batch_and_free_pods() -> None:
    asked = {"kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "8Gi"}
    batch = limited(asked, asked, labels={"koordinator.sh/priority-class": "koord-batch"})
    assert estimate(batch, FACTORS) == {"cpu": 3400, "memory": 6012954214}
    free = limited({"cpu": "4"}, {"cpu": "4"}, priority=3500)
    assert estimate(free, FACTORS) == {"cpu": 0, "memory": 0}


@pytest.mark.parametrize(("cores", "refused"), [(60, False), (62, False), (63, True), (70, True)])
def test_the_filter_adds_the_pod_and_rounds(cores: int, refused: bool) -> None:
    load = Load()
    load.put(node("a", cpu="96", memory="512Gi"), metric("a", node=amounts(cores * 1000, GI)))
    reasons, _ = load.ask(pod("p"))
    assert reasons == {"a": CPU_EXCEEDS if refused else None}


def test_the_score_is_what_stays_unused() -> None:
    load = Load()
    load.put(node("a", cpu="100", memory="100Gi"), metric("a", node=amounts(40_000, 20 * GI)))
    _, scores = load.ask(pod("p", cpu="10", memory="10Gi"))
    # 100 - 40 - 8.5 = 51 of CPU, 100 - 20 - 7 = 73 of memory.
    assert scores == {"a": (51 + 73) // 2}


def test_the_dominant_resource_counts_beside_weights() -> None:
    load = Load(dominantResourceWeight=2, resourceWeights={"cpu": 1, "memory": 1})
    load.put(node("a", cpu="100", memory="100Gi"), metric("a", node=amounts(40_000, 20 * GI)))
    _, scores = load.ask(pod("p", cpu="10", memory="10Gi"))
    assert scores == {"a": (51 + 73 + 51 * 2) // 4}
    alone = Load(dominantResourceWeight=1)
    alone.put(node("a", cpu="100", memory="100Gi"), metric("a", node=amounts(40_000, 20 * GI)))
    assert alone.ask(pod("p", cpu="10", memory="10Gi"))[1] == {"a": 51}


def test_nodes_of_which_nothing_is_known_pass_and_score_nothing() -> None:
    load = Load()
    load.put(node("a"), node("b"), metric("b", reported=False))
    assert load.ask(pod("p")) == ({"a": None, "b": None}, {"a": 0, "b": 0})


def test_what_is_too_old_refuses_and_time_alone_makes_it_so() -> None:
    load = Load(nodeMetricExpirationSeconds=180)
    load.put(node("a"), metric("a", node=amounts(1000, GI)))
    assert load.ask(pod("p"))[0] == {"a": None}
    load.clock.advance(179)
    assert load.ask(pod("p"))[0] == {"a": None}
    load.clock.advance(1)
    assert load.ask(pod("p")) == ({"a": "node(s) nodeMetric expired"}, {"a": 0})
    load.put(metric("a", START + 100, node=amounts(1000, GI)))
    assert load.ask(pod("p"))[0] == {"a": None}
    load.put(metric("a", None, node=amounts(1000, GI)))
    assert load.ask(pod("p"))[0] == {"a": "node(s) nodeMetric expired"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"enableScheduleWhenNodeMetricsExpired": True}, None),
        ({"filterExpiredNodeMetrics": False}, CPU_EXCEEDS),
    ],
)
def test_what_else_may_be_done_about_old_metrics(
    arguments: dict[str, Any], reason: str | None
) -> None:
    load = Load(**arguments)
    load.put(node("a", cpu="10"), metric("a", START - 1000, node=amounts(9000, GI)))
    assert load.ask(pod("p"))[0] == {"a": reason}


def test_pods_of_daemon_sets_pass() -> None:
    load = Load()
    load.put(node("a", cpu="10"), metric("a", node=amounts(9000, GI)))
    owner = {"kind": "DaemonSet", "name": "d", "uid": "u", "apiVersion": "apps/v1"}
    daemon = pod("p", owners=[{**owner, "controller": True}])
    assert load.ask(daemon)[0] == {"a": None}
    assert load.ask(pod("q"))[0] == {"a": CPU_EXCEEDS}
    assert load.ask(pod("r", owners=[owner]))[0] == {"a": None}, "any owner, manager or not"


def test_a_usage_without_resources_is_one_of_nothing() -> None:
    load = Load(resourceWeights={"cpu": 1})
    usage = {"default/measured": (amounts(3000, 0), "koord-prod")}
    load.put(node("a", cpu="10"), metric("a", START, node={}, pods=usage))
    scheduled = {"conditions": [condition("PodScheduled", START - 400)]}
    load.assign(pod("measured", cpu="4", status=scheduled), "a")
    assert load.ask(pod("p"))[1] == {"a": 97}, "0 are in use, and 250m of 10 are on their way"


def test_assigned_pods_count_until_they_are_measured() -> None:
    load = Load()
    load.put(node("a", cpu="10"), metric("a", node=amounts(1000, GI)))
    first = pod("first", cpu="6")
    load.assign(first, "a")
    row = load.table.row("a")
    used = load.plugin.cache.used
    assert used[0, 0, row] == 1000 + 5100
    usage = {"default/first": (amounts(2000, GI), "koord-prod")}
    load.put(metric("a", START + 30, node=amounts(3000, GI), pods=usage))
    assert used[0, 0, row] == 3000 + 3100, "measured, but not for a whole interval"
    load.put(metric("a", START + 60, node=amounts(3000, GI), pods=usage))
    assert used[0, 0, row] == 3000


def test_prod_pods_have_thresholds_of_their_own() -> None:
    load = Load(prodUsageThresholds={"cpu": 50})
    load.put(node("a", cpu="10"), metric("a", node=amounts(9000, GI)))
    prod = pod("prod", cpu="1", priority=9500)
    batch = pod("batch", cpu="1", priority=5500)
    assert load.ask(prod)[0] == {"a": None}, "no Prod pod uses anything yet"
    assert load.ask(batch)[0] == {"a": CPU_EXCEEDS}
    load.assign(pod("there", cpu="5", priority=9500), "a")
    assert load.ask(prod)[0] == {"a": CPU_EXCEEDS}


def test_aggregates_and_their_fallbacks() -> None:
    aggregated = {"usageThresholds": {"cpu": 60}, "usageAggregationType": "p95"}
    load = Load(aggregated=aggregated)
    said = "node(s) cpu aggregated usage exceed threshold"
    three = [("p95", "5m0s", amounts(1000, GI)), ("p95", "30m0s", amounts(9000, GI))]
    load.put(node("a", cpu="10"), metric("a", node=amounts(1000, GI), aggregates=three))
    assert load.ask(pod("p"))[0] == {"a": said}, "the longest window"
    load.put(metric("a", node=amounts(9000, GI)))
    assert load.ask(pod("p"))[0] == {"a": said}, "the usage stands in"
    exact = Load(aggregated={**aggregated, "usageAggregatedDuration": "10m"})
    exact.put(node("a", cpu="10"), metric("a", node=amounts(9000, GI), aggregates=three))
    assert exact.ask(pod("p"))[0] == {"a": None}, "nothing but estimates"
    exact.assign(pod("q", cpu="7"), "a")
    assert exact.ask(pod("p"))[0] == {"a": said}


def test_a_node_may_have_thresholds_and_a_capacity_of_its_own() -> None:
    load = Load(usageThresholds={"cpu": 0, "memory": 0})
    key = "scheduling.koordinator.sh/usage-thresholds"
    load.put(metric("a", node=amounts(5000, GI)), metric("b", node=amounts(5000, GI)))
    load.put(node("a", cpu="10"), node("b", cpu="10"))
    assert not load.plugin.cache.rows_with_thresholds
    assert load.ask(pod("p"))[0] == {"a": None, "b": None}
    load.put(node("a", cpu="10", annotations={key: '{"usageThresholds": {"cpu": 40}}'}))
    assert load.ask(pod("p"))[0] == {"a": CPU_EXCEEDS, "b": None}
    load.put(node("a", cpu="10", annotations={key: "{"}))
    assert load.ask(pod("p"))[0] == {"a": None, "b": None}
    raw = {"node.koordinator.sh/raw-allocatable": '{"cpu": "6"}'}
    load.put(node("a", cpu="10", annotations=raw))
    assert load.ask(pod("p"))[1] == {"a": (12 + 99) // 2, "b": (47 + 99) // 2}


def test_pods_may_say_how_they_are_estimated_where_that_is_allowed() -> None:
    own = {
        "scheduling.koordinator.sh/load-estimated-scaling-factors": '{"cpu": 10}',
        "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled": "600",
    }
    asking = pod("p", cpu="10", annotations=own)
    for allowed, cpu, deadline in ((True, 1000, START + 600), (False, 8500, None)):
        load = Load(allowCustomizeEstimation=allowed)
        load.put(node("a"))
        load.assign(asking, "a")
        found = load.plugin.cache.pod(0, "uid-p")
        assert found is not None
        assert (found.estimate[0], found.deadline) == (cpu, deadline)


def test_a_bad_wish_of_a_pod_is_no_wish() -> None:
    own = {
        "scheduling.koordinator.sh/load-estimated-scaling-factors": '{"cpu": "many"}',
        "scheduling.koordinator.sh/load-estimated-seconds-after-initialized": "soon",
    }
    load = Load(allowCustomizeEstimation=True)
    load.put(node("a"))
    load.assign(pod("p", cpu="10", annotations=own), "a")
    found = load.plugin.cache.pod(0, "uid-p")
    assert found is not None
    assert (found.estimate[0], found.deadline) == (8500, None)


def test_conditions_say_when_a_pod_was_assigned() -> None:
    load = Load(estimatedSecondsAfterPodScheduled=50, estimatedSecondsAfterInitialized=20)
    load.put(node("a"))
    waiting = pod("p", cpu="10")
    load.put(waiting)
    load.assign(waiting, "a")

    def times() -> tuple[float, float | None]:
        found = load.plugin.cache.pod(0, "uid-p")
        assert found is not None
        return found.since, found.deadline

    assert times() == (START, START + 50)
    load.put(pod("p", cpu="10", status={"conditions": [condition("PodScheduled", START + 5)]}))
    assert times() == (START + 5, START + 55)
    both = [condition("PodScheduled", START + 5), condition("Initialized", START + 9)]
    load.put(pod("p", cpu="10", status={"conditions": both}))
    assert times() == (START + 5, START + 29)


def test_a_what_if_makes_no_pod_younger() -> None:
    load = Load()
    load.put(node("a"))
    load.assign(pod("p", cpu="10"), "a")
    there = load.world.accounts.get("uid-p")
    assert there is not None
    load.clock.advance(100)
    with load.world.accounts.what_if():
        load.world.accounts.drop(there)
    found = load.plugin.cache.pod(0, "uid-p")
    assert found is not None
    assert found.since == START


def test_a_row_that_is_used_again_knows_nothing_of_the_node_before() -> None:
    load = Load()
    key = "scheduling.koordinator.sh/usage-thresholds"
    load.put(node("a", cpu="10", annotations={key: '{"usageThresholds": {"cpu": 10}}'}))
    load.put(metric("a", node=amounts(9000, GI)))
    load.assign(pod("p", cpu="4"), "a")
    load.forget("a")
    load.put(node("b", cpu="10"))
    assert load.table.row("b") == 0
    assert load.ask(pod("q")) == ({"b": None}, {"b": 0})
    assert not load.plugin.cache.used.any()
    load.forget("b")
    load.put(node("a", cpu="10"))
    assert load.ask(pod("q"))[0] == {"a": CPU_EXCEEDS}, "its NodeMetric is still there"


def test_a_reservation_carries_no_load() -> None:
    load = Load()
    load.put(node("a"), metric("a"))
    mark = {"scheduling.koordinator.sh/reserve-pod": "true"}
    stand_in = pod("u1", uid="u1", cpu="8", annotations=mark)
    load.assign(stand_in, "a")
    assert load.plugin.cache.pod(0, "u1") is None
    load.assign(pod("liar", cpu="8", annotations=mark), "a")
    assert load.plugin.cache.pod(0, "uid-liar") is not None


def test_hostile_amounts_do_no_harm() -> None:
    load = Load()
    huge = {"cpu": "9223372036854775807", "memory": "8E"}
    load.put(node("a", cpu="9223372036854775", memory="7E"), metric("a", node=huge))
    load.put(node("b", cpu="-4", memory="-1"), metric("b", node={"cpu": "-5", "memory": "-9"}))
    reasons, scores = load.ask(pod("p", cpu="9223372036854775", memory="7E"))
    assert reasons == {"a": CPU_EXCEEDS, "b": None}
    assert scores == {"a": 0, "b": 0}


def test_debug_tells_the_load_of_a_node() -> None:
    load = Load()
    load.put(node("a", cpu="10"), metric("a", node=amounts(1000, GI)))
    load.assign(pod("p", cpu="2"), "a")
    answer: Any = load.plugin.debug(["node", "a"])
    assert answer["estimatedUsage"]["filter"]["cpu"] == 2700
    assert answer["mostWithinThresholds"]["filter"]["cpu"] == 6549
    assert answer["pods"][0]["estimated"]["cpu"] == 1700
    with pytest.raises(KeyError, match="cannot find node b"):
        load.plugin.debug(["node", "b"])
    with pytest.raises(KeyError):
        load.plugin.debug(["nodes"])


def test_a_metric_that_goes_takes_its_load_along() -> None:
    load = Load()
    load.put(node("a", cpu="10"), metric("a", node=amounts(9000, GI)))
    assert load.ask(pod("p"))[0] == {"a": CPU_EXCEEDS}
    load.views.view(NodeMetric).remove("a")
    assert load.ask(pod("p"))[0] == {"a": None}


def test_the_report_interval_is_the_node_metrics_own() -> None:
    load = Load()
    usage = {"default/first": (amounts(2000, GI), "")}
    load.put(node("a", cpu="10"))
    load.assign(pod("first", cpu="6"), "a")
    late = metric("a", START + 30, node=amounts(3000, GI), pods=usage, interval=30)
    load.put(late)
    assert load.plugin.cache.used[0, 0, 0] == 3000
    load.put(structs.replace(late, spec=type(late.spec)()))
    assert load.plugin.cache.used[0, 0, 0] == 6100


def test_answers_are_given_anew_where_more_is_known_of_a_pod_that_is_not_measured_yet() -> None:
    load = Load(resourceWeights={"cpu": 1})
    load.put(node("a", cpu="10"), metric("a", node=amounts(0, GI)))
    first = pod("first", cpu="2")
    load.put(first)
    load.assign(first, "a")
    assert load.ask(pod("p", cpu="1"))[1] == {"a": 74}
    info = load.world.accounts.pods()[first.metadata.uid]
    known = info.shape.memo[load.plugin._key]
    learned = [4000, *known.estimate[1:]]
    by_view = estimate_by_view(learned, known.prod)
    info.shape.memo[load.plugin._key] = known._replace(estimate=learned, estimate_by_view=by_view)
    status = convert({"conditions": [condition("PodScheduled", START + 5)]}, PodStatus, "status")
    load.put(structs.replace(first, status=status))
    assert load.ask(pod("q", cpu="1"))[1] == {"a": 51}
