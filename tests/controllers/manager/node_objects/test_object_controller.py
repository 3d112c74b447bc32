# SPDX-License-Identifier: Apache-2.0
"""NodeMetrics and NodeSLOs beside nodes: made, kept, deleted, and otherwise left alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from koord.api import Event, Node, NodeMetric, NodeSLO
from koord.api.codec import to_document
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.qos_strategy import ResourceQOSStrategy
from koord.base import faults
from koord.controllers.manager.node_objects.object_controller import SpecDifferences, difference
from koord.kube.errors import ApiError
from koord.kube.patches import Patch
from tests.controllers.manager.cluster import (
    Scene,
    add_node,
    label,
    metric,
    reasons,
    slo,
    started,
)

BOTH = "nodemetric,nodeslo"
THRESHOLD = "resource_threshold_config"
MANAGED = "koordinator.sh/managed"
DEFAULT_POLICY = {
    "aggregateDurationSeconds": 300, "reportIntervalSeconds": 60,
    "nodeAggregatePolicy": {"durations": ["5m", "10m", "30m"]},
    "nodeMemoryCollectPolicy": "usageWithoutPageCache",
}  # fmt: skip
DEFAULT_SLO = {
    "resourceUsedThresholdWithBE": {
        "enable": False, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset",
        "memoryEvictThresholdPercent": 70, "cpuEvictPolicy": "evictByRealLimit",
    },
    "resourceQOSStrategy": {},
    "cpuBurstStrategy": {
        "policy": "none", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300,
        "cfsQuotaBurstPeriodSeconds": -1, "sharePoolThresholdPercent": 50,
    },
    "systemStrategy": {"totalNetworkBandwidth": "0"},
}  # fmt: skip


def policy(found: NodeMetric) -> Any:
    return to_document(found.spec)["metricCollectPolicy"]


def test_a_node_gets_both_with_defaults_and_takes_them_with_it() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a")
        assert policy(await metric(scene, "a")) == DEFAULT_POLICY
        assert to_document((await slo(scene, "a")).spec) == DEFAULT_SLO
        await scene.client.delete(Node, "a")
        await scene.settle()
        for read in (metric, slo):
            with pytest.raises(ApiError) as gone:
                await read(scene, "a")
            assert gone.value.http_status == 404

    started(script, BOTH)


def test_objects_whose_node_went_while_nobody_looked_are_deleted() -> None:
    async def script(scene: Scene) -> None:
        await scene.stop()
        await scene.client.create(NodeSLO(metadata=ObjectMeta(name="gone")))
        await scene.client.create(NodeMetric(metadata=ObjectMeta(name="gone")))
        await scene.start(BOTH)
        await scene.settle()
        assert not (await scene.client.list(NodeSLO)).items
        assert not (await scene.client.list(NodeMetric)).items

    started(script, BOTH)


def test_a_wrong_colocation_section_keeps_no_node_slo_of_a_node_that_went() -> None:
    async def script(scene: Scene) -> None:
        await scene.stop()
        await scene.client.create(NodeSLO(metadata=ObjectMeta(name="gone")))
        await scene.client.create(NodeMetric(metadata=ObjectMeta(name="gone")))
        await scene.configure('{"enable":')
        await scene.start(BOTH)
        await add_node(scene, "a")
        await scene.client.delete(Node, "a")
        await scene.settle()
        assert not (await scene.client.list(NodeSLO)).items
        left = (await scene.client.list(NodeMetric)).items
        assert [each.metadata.name for each in left] == ["gone"], "until the section is right"
        await scene.configure({"enable": True})
        await scene.settle()
        assert not (await scene.client.list(NodeMetric)).items

    started(script, BOTH)


def test_somebody_elses_edit_or_deletion_is_undone() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a")
        edit = Patch.merge({"spec": {"cpuBurstStrategy": {"policy": "auto"}}})
        await scene.client.patch(NodeSLO, "a", edit)
        await scene.settle()
        burst = (await slo(scene, "a")).spec.cpu_burst_strategy
        assert burst is not None
        assert burst.policy == "none"
        await scene.client.delete(NodeMetric, "a")
        await scene.settle()
        assert policy(await metric(scene, "a")) == DEFAULT_POLICY

    started(script, BOTH)


def test_the_first_node_strategy_that_matches_counts() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a", xxx="yyy")
        await add_node(scene, "b")
        some = {"cpuSuppressThresholdPercent": 40, "nodeSelector": {"matchLabels": {"xxx": "yyy"}}}
        threshold = {
            "clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 60},
            "nodeStrategies": [some, {**some, "cpuSuppressThresholdPercent": 30}],
        }
        await scene.configure({}, **{THRESHOLD: threshold})
        await scene.settle()
        assert to_document((await slo(scene, "a")).spec)["resourceUsedThresholdWithBE"] == {
            "enable": True, "cpuSuppressThresholdPercent": 40, "cpuSuppressPolicy": "cpuset",
            "memoryEvictThresholdPercent": 70, "cpuEvictPolicy": "evictByRealLimit",
        }  # fmt: skip
        await label(scene, "b", labels={"xxx": "yyy"})
        await label(scene, "a", labels={"xxx": None})
        found = {
            name: (await slo(scene, name)).spec.resource_used_threshold_with_be
            for name in ("a", "b")
        }
        assert [each.cpu_suppress_threshold_percent for each in found.values() if each] == [60, 40]

    started(script, BOTH)


def test_a_bad_section_keeps_no_good_one_from_any_node() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a")
        burst = {"clusterStrategy": {"cpuBurstPercent": 500}}
        await scene.configure({}, cpu_burst_config=burst)
        await scene.settle()
        burst = {"clusterStrategy": {"cpuBurstPercent": 20000}}
        threshold = {"clusterStrategy": {"cpuSuppressThresholdPercent": 50}}
        await scene.configure({}, cpu_burst_config=burst, **{THRESHOLD: threshold})
        await scene.settle()
        await add_node(scene, "b")
        for name in ("a", "b"):
            document = to_document((await slo(scene, name)).spec)
            assert document["cpuBurstStrategy"]["cpuBurstPercent"] == 500, "the last good one"
            assert document["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 50
        await asyncio.sleep(2)
        events = (await scene.client.list(Event)).items
        assert [each.message.split(": ", 1)[1] for each in events] == [
            "data.cpu-burst-config.clusterStrategy.cpuBurstPercent: got 20000, "
            "expected a number from 0 to 10000 (the last good section stays)"
        ]

    started(script, BOTH)


def test_a_section_that_was_wrong_at_the_start_stays_what_it_was_in_node_slos() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a")
        burst = {"clusterStrategy": {"cpuBurstPercent": 500}}
        system = {"clusterStrategy": {"watermarkScaleFactor": 40}}
        await scene.configure({}, cpu_burst_config=burst, system_config=system)
        await scene.settle()
        threshold = {"clusterStrategy": {"cpuSuppressThresholdPercent": 50}}
        await scene.stop()
        await scene.configure({}, cpu_burst_config="{", system_config="[", **{THRESHOLD: threshold})
        scene.writes.clear()
        await scene.start(BOTH)
        await add_node(scene, "b")
        assert scene.writes.count("PATCH nodeslos/a") == 1, "for the section that is right"
        document = to_document((await slo(scene, "a")).spec)
        assert document["cpuBurstStrategy"]["cpuBurstPercent"] == 500
        assert document["systemStrategy"]["watermarkScaleFactor"] == 40
        assert document["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 50
        new = to_document((await slo(scene, "b")).spec)
        assert new["cpuBurstStrategy"] == DEFAULT_SLO["cpuBurstStrategy"], "nothing is known of it"
        await scene.configure({}, cpu_burst_config={}, system_config="[")
        await scene.settle()
        for name in ("a", "b"):
            document = to_document((await slo(scene, name)).spec)
            assert document["cpuBurstStrategy"] == DEFAULT_SLO["cpuBurstStrategy"]
        document = to_document((await slo(scene, "a")).spec)
        assert document["systemStrategy"]["watermarkScaleFactor"] == 40, "still wrong"

    started(script, BOTH)


def test_only_what_differs_is_written() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a", pool="x")
        await add_node(scene, "b")
        scene.writes.clear()
        selected = {"nodeSelector": {"matchLabels": {"pool": "x"}}, "policy": "auto"}
        burst = {"nodeStrategies": [selected]}
        await scene.configure({}, cpu_burst_config=burst, resource_qos_config={})
        await scene.settle()
        assert scene.writes == ["PATCH nodeslos/a"]
        scene.writes.clear()
        await label(scene, "a", labels={"other": "label"}, annotations={"more": "notes"})
        await scene.configure({"enable": False}, cpu_burst_config=burst, host_application_config={})
        await scene.settle()
        assert scene.writes == [], "what means the same is not written"

    started(script, BOTH)


def test_a_restart_writes_nothing() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(
            {"enable": True, "metricReportIntervalSeconds": 30},
            host_application_config={"applications": []},
            system_config={"clusterStrategy": {"totalNetworkBandwidth": "1000M"}},
        )
        await add_node(scene, "a")
        await scene.stop()
        scene.writes.clear()
        await scene.start(BOTH)
        await scene.settle()
        assert scene.writes == []

    started(script, BOTH)


async def undone(scene: Scene) -> list[Event]:
    listed = await scene.client.list(Event)
    return [each for each in listed.items if each.reason == "EditUndone"]


def test_an_edit_is_undone_and_its_author_is_told() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure({"enable": True})
        await add_node(scene, "a")
        edit = Patch.merge({"spec": {"resourceUsedThresholdWithBE": {"enable": True}}})
        await scene.client.patch(NodeSLO, "a", edit)
        await scene.settle()
        threshold = (await slo(scene, "a")).spec.resource_used_threshold_with_be
        assert threshold is not None
        assert not threshold.enable
        found = [
            each for each in (await scene.client.list(Event)).items if each.reason == "EditUndone"
        ]
        assert [(each.type, each.message) for each in found] == [
            (
                "Warning",
                "what was changed in spec.resourceUsedThresholdWithBE is undone: ConfigMap "
                "koordinator-system/slo-controller-config decides; annotated "
                'koordinator.sh/managed: "false" the object is left to its author',
            )
        ]
        # What the configuration changes is nobody's edit.
        await scene.configure({}, **{THRESHOLD: {"clusterStrategy": {"enable": True}}})
        await scene.settle()
        assert (
            len(
                [
                    each
                    for each in (await scene.client.list(Event)).items
                    if each.reason == "EditUndone"
                ]
            )
            == 1
        )

    started(script, BOTH)


def test_annotated_objects_are_left_to_their_author_who_is_told_once() -> None:
    async def script(scene: Scene) -> None:
        mine = ObjectMeta(name="a", annotations={MANAGED: "false"})
        await scene.client.create(NodeSLO(metadata=mine))
        await add_node(scene, "a")
        await scene.configure({}, **{THRESHOLD: {"clusterStrategy": {"enable": True}}})
        await scene.settle()
        assert (await slo(scene, "a")).spec == NodeSLOSpec()
        assert (await reasons(scene)).count(("LeftToAuthor", "a")) == 1
        note = Patch.merge({"metadata": {"annotations": {MANAGED: None}}})
        await scene.client.patch(NodeSLO, "a", note)
        await scene.settle()
        threshold = (await slo(scene, "a")).spec.resource_used_threshold_with_be
        assert threshold is not None
        assert threshold.enable
        await scene.client.patch(
            NodeSLO, "a", Patch.merge({"metadata": {"annotations": {MANAGED: "false"}}})
        )
        await scene.client.delete(Node, "a")
        await scene.settle()
        assert (await slo(scene, "a")).metadata.name == "a", "not ours to delete"

    started(script, BOTH)


def test_a_bandwidth_that_is_no_quantity_leaves_out_the_system_strategy_alone() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a")
        note = "node.koordinator.sh/network-bandwidth"
        await label(scene, "a", annotations={note: "10G"})
        system = (await slo(scene, "a")).spec.system_strategy
        assert system is not None
        assert str(system.total_network_bandwidth) == "10G"
        await label(scene, "a", annotations={note: "fast"})
        left = to_document((await slo(scene, "a")).spec)
        assert left == {k: v for k, v in DEFAULT_SLO.items() if k != "systemStrategy"}

    started(script, BOTH)


def test_policies_follow_the_strategy_and_stay_while_it_is_wrong() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a")
        await scene.configure({"enable": True, "metricReportIntervalSeconds": 20})
        await scene.settle()
        wanted = DEFAULT_POLICY | {"reportIntervalSeconds": 20}
        assert policy(await metric(scene, "a")) == wanted
        await scene.configure('{"enable":', cpu_burst_config="[")
        await add_node(scene, "b")
        assert policy(await metric(scene, "a")) == wanted
        assert policy(await metric(scene, "b")) == wanted, "the last good one holds"
        config = "slo-controller-config"
        assert {("ColocationCfgUnmarshalFailed", config), ("SLOCfgUnmarshalFailed", config)} <= set(
            await reasons(scene)
        )
        await scene.configure({"enable": False, "metricReportIntervalSeconds": 20})
        await scene.settle()
        assert policy(await metric(scene, "a")) == DEFAULT_POLICY, "off: defaults"

    started(script, BOTH)


@pytest.mark.parametrize(
    ("own", "seconds"),
    [
        ({"metricReportIntervalSeconds": 7}, 7),
        ({"metricReportIntervalSeconds": 0}, 20),
        ({"enable": False, "metricReportIntervalSeconds": 7}, 60),
        ({"metricMemoryCollectPolicy": "guess", "metricReportIntervalSeconds": 7}, 20),
        ("no JSON", 20),
    ],
)
def test_a_nodes_own_strategy_counts_where_it_is_valid(own: Any, seconds: int) -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a")
        await scene.configure({"enable": True, "metricReportIntervalSeconds": 20})
        text = own if isinstance(own, str) else json.dumps(own)
        await label(scene, "a", annotations={"node.koordinator.sh/colocation-strategy": text})
        assert policy(await metric(scene, "a"))["reportIntervalSeconds"] == seconds

    started(script, BOTH)


def test_without_a_config_map_policies_that_are_there_stay() -> None:
    async def script(scene: Scene) -> None:
        await scene.stop()
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": 5}}
        await scene.client.create(
            {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
             "metadata": {"name": "a"}, "spec": spec}
        )  # fmt: skip
        await add_node(scene, "a")
        await scene.start(BOTH)
        await scene.settle()
        assert to_document((await metric(scene, "a")).spec) == spec
        await scene.configure({})
        await scene.settle()
        assert policy(await metric(scene, "a")) == DEFAULT_POLICY

    started(script, BOTH)


def test_until_the_co_location_section_is_good_no_policy_is_written() -> None:
    async def script(scene: Scene) -> None:
        await scene.stop()
        await scene.configure("{")
        await add_node(scene, "a")
        await scene.start(BOTH)
        await scene.settle()
        assert not (await scene.client.list(NodeMetric)).items
        assert (await slo(scene, "a")).metadata.name == "a", "other sections are not concerned"
        await scene.configure({})
        await scene.settle()
        assert policy(await metric(scene, "a")) == DEFAULT_POLICY

    started(script, BOTH)


def test_writes_that_fail_are_tried_again() -> None:
    async def script(scene: Scene) -> None:
        lost = faults.FaultRule(rate=0.5, error=RuntimeError("lost"))
        with faults.inject(
            faults.FaultPlan(seed=1, rules={"manager.companions.write": lost})
        ) as plan:
            for number in range(20):
                await add_node(scene, f"n{number}")
            await scene.settle(30)
        assert plan.failed["manager.companions.write"] > 5
        assert len((await scene.client.list(NodeSLO)).items) == 20
        assert len((await scene.client.list(NodeMetric)).items) == 20

    started(script, BOTH)


def test_empty_parts_mean_as_much_as_absent_ones_but_for_extensions() -> None:
    assert difference(NodeSLOSpec(), NodeSLOSpec(resource_qos_strategy=ResourceQOSStrategy())) == {}
    assert difference(NodeSLOSpec(), NodeSLOSpec(extensions={"x": {}})) == {"extensions": {"x": {}}}
    assert difference(NodeSLOSpec(extensions={"x": 1}), NodeSLOSpec()) == {"extensions": None}


def test_differences_are_those_of_each_pair_worked_out_once_for_all_alike() -> None:
    known = SpecDifferences()
    specs = [
        NodeSLOSpec(),
        NodeSLOSpec(resource_qos_strategy=ResourceQOSStrategy()),
        NodeSLOSpec(extensions={"x": {}}),
        NodeSLOSpec(extensions={"x": 1}),
    ]
    for _ in range(2):
        for there in specs:
            for wanted in specs:
                assert known.of(there, wanted) == difference(there, wanted)
    first = known.of(NodeSLOSpec(extensions={"x": 1}), NodeSLOSpec())
    assert known.of(NodeSLOSpec(extensions={"x": 1}), NodeSLOSpec()) is first
