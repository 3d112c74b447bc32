# SPDX-License-Identifier: Apache-2.0
"""What is told of a slo-controller-config with typing errors, and what of it is followed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.sloconfig import sections
from koord.api.sloconfig.config import load
from koord.api.sloconfig.problems import Kind, Problem, Severity, node_problems, problems
from koord.api.sloconfig.strategies import ColocationStrategy

MEMORY = "memoryReclaimThresholdPercent"


def lines(data: dict[str, Any], **options: bool) -> list[str]:
    texts = {key: each if isinstance(each, str) else json.dumps(each) for key, each in data.items()}
    return [str(each) for each in problems(texts, **options)]


def test_a_share_above_100_is_taken_as_100() -> None:
    data = {"colocation-config": '{"enable":true,"memoryReclaimThresholdPercent":165}'}
    assert problems(data) == [
        Problem(
            section="colocation-config",
            path="data.colocation-config.memoryReclaimThresholdPercent",
            field="memoryReclaimThresholdPercent",
            value=165,
            expected="a number from 0 to 100",
            severity=Severity.WARNING,
            kind=Kind.SUBSTITUTE,
            effect="taken as 100",
        )
    ]
    config = load(data)
    assert (config.errors, config.ignored) == ({}, {})
    assert config.strategy(sections.COLOCATION, {}).memory_reclaim_threshold_percent == 100
    assert config.strategy(sections.COLOCATION, {}).cpu_reclaim_threshold_percent == 60


@pytest.mark.parametrize(
    "field",
    [
        "cpuReclaimThresholdPercent",
        "memoryReclaimThresholdPercent",
        "batchCPUThresholdPercent",
        "batchMemoryThresholdPercent",
        "midStaticCPUReservedPercent",
        "midStaticMemoryReservedPercent",
    ],
)
def test_every_share_of_a_node_is_bounded_at_both_levels(field: str) -> None:
    document = {
        field: 101,
        "nodeConfigs": [
            {"nodeSelector": {"matchLabels": {"a": "b"}}, field.upper(): 1000},
            {"nodeSelector": {"matchLabels": {"a": "c"}}},
        ],
    }
    assert lines({"colocation-config": document}) == [
        f"data.colocation-config.{field}: got 101, expected a number from 0 to 100 (taken as 100)",
        f"data.colocation-config.nodeConfigs[0].{field}: got 1000, "
        "expected a number from 0 to 100 (taken as 100)",
    ]


def test_a_value_of_a_wrong_type_hides_no_other_mistake() -> None:
    document = {
        "enable": "x",
        "memoryReclaimThresholdPercent": -5,
        "nodeConfigs": [
            {"nodeSelector": {"matchLabels": {"a": 5}}, "CPUReclaimThresholdPercent": "y"}
        ],
    }
    stays = "(the last good section stays)"
    where = "data.colocation-config"
    assert lines({"colocation-config": document}) == [
        f"{where}.enable: got 'x', expected true or false {stays}",
        f"{where}.nodeConfigs[0].nodeSelector.matchLabels[a]: got 5, expected text {stays}",
        f"{where}.nodeConfigs[0].cpuReclaimThresholdPercent: got 'y', expected an integer {stays}",
        f"{where}.memoryReclaimThresholdPercent: got -5, expected a number >= 0 {stays}",
    ]


@pytest.mark.parametrize(
    ("lower", "threshold", "field", "value"),
    [(80, "90", "memoryEvictThresholdPercent", "90"), ("a", 50, "memoryEvictLowerPercent", "a")],
)
def test_no_value_is_compared_with_one_of_a_wrong_type(
    lower: object, threshold: object, field: str, value: str
) -> None:
    """The defaults are 65 and 70."""
    strategy = {"memoryEvictLowerPercent": lower, "memoryEvictThresholdPercent": threshold}
    assert lines({"resource-threshold-config": {"clusterStrategy": strategy}}) == [
        f"data.resource-threshold-config.clusterStrategy.{field}: got {value!r}, "
        "expected an integer (the last good section stays)"
    ]


def test_of_very_many_values_of_a_wrong_type_the_first_are_told() -> None:
    names: dict[str, Any] = {field: [] for field in ColocationStrategy.__struct_encode_fields__}
    nodes = [{"nodeSelector": {}, **names} for _ in range(200)]
    found = lines({"colocation-config": {"nodeConfigs": nodes}})
    assert len(found) == 20
    assert all("nodeConfigs[0]" in line for line in found)


def test_nothing_is_taken_of_a_section_that_is_not_in_effect() -> None:
    document = {"memoryReclaimThresholdPercent": 165, "cpuReclaimThresholdPercent": -1}
    assert lines({"colocation-config": document}) == [
        "data.colocation-config.cpuReclaimThresholdPercent: got -1, expected a number >= 0 "
        "(the last good section stays)",
        "data.colocation-config.memoryReclaimThresholdPercent: got 165, "
        "expected a number from 0 to 100 (the last good section stays)",
    ]


def test_protection_of_more_than_a_pod_asks_for_is_bounded() -> None:
    text = '{"clusterStrategy":{"beClass":{"memoryQOS":{"minLimitPercent":150}}}}'
    assert lines({"resource-qos-config": text}) == [
        "data.resource-qos-config.clusterStrategy.beClass.memoryQOS.minLimitPercent: got 150, "
        "expected a number from 0 to 100 (taken as 100)"
    ]
    found = load({"resource-qos-config": text}).strategy(sections.QOS, {})
    assert found.be_class.memory_qos.min_limit_percent == 100


def test_percentages_that_mean_something_above_100_stay() -> None:
    data = {
        "cpu-burst-config": {"clusterStrategy": {"cpuBurstPercent": 1000}},
        "resource-threshold-config": {
            "clusterStrategy": {"memoryAllocatableEvictThresholdPercent": 110}
        },
    }
    assert lines(data) == []


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({MEMORY: -1}, f"{MEMORY}: got -1, expected a number >= 0 (the last good section stays)"),
        ({MEMORY: "65"}, f"{MEMORY}: got '65', expected an integer (the last good section stays)"),
        ({MEMORY: 6.5}, f"{MEMORY}: got 6.5, expected an integer (the last good section stays)"),
        ({MEMORY: 10**30}, f"{MEMORY}: got {10**30}, expected an integer of 64 bits "
         "(the last good section stays)"),
        ({"midCPUThresholdPercent": 101}, "midCPUThresholdPercent: got 101, "
         "expected a number from 0 to 100 (the last good section stays)"),
    ],
)  # fmt: skip
def test_what_is_negative_or_malformed_is_not_in_effect(document: Any, told: str) -> None:
    good = load({"colocation-config": f'{{"enable":true,"{MEMORY}":40}}'})
    data = {"colocation-config": json.dumps({"enable": True, **document})}
    assert lines(data) == [f"data.colocation-config.{told}"]
    assert [each.severity for each in problems(data)] == [Severity.ERROR]
    found = load(data, good)
    assert found.strategy(sections.COLOCATION, {}).memory_reclaim_threshold_percent == 40
    assert list(found.errors) == ["colocation-config"]


def test_an_invalid_node_strategy_keeps_the_last_good_one_of_its_selector() -> None:
    def config(percent: int, cluster: int = 60) -> dict[str, str]:
        nodes = [
            {"nodeSelector": {"matchLabels": {"pool": "db"}}, "cpuReclaimThresholdPercent": percent}
        ]
        document = {"cpuReclaimThresholdPercent": cluster, "nodeConfigs": nodes}
        return {"colocation-config": json.dumps(document)}

    def in_force(found: Any) -> tuple[int, int]:
        db = found.strategy(sections.COLOCATION, {"pool": "db"}).cpu_reclaim_threshold_percent
        return db, found.strategy(sections.COLOCATION, {}).cpu_reclaim_threshold_percent

    good = load(config(10))
    wrong = load(config(-10, 50), good)
    assert in_force(wrong) == (10, 50)
    assert wrong.errors == {}
    assert in_force(load(config(-10, 50), wrong)) == (10, 50), "told again"
    first = load(config(-10))
    assert in_force(first) == (60, 60), "the cluster's, as Koordinator has it"
    assert in_force(load(config(-10, 50), first)) == (50, 50), "there still is no good one"
    assert lines(config(-10)) == [
        "data.colocation-config.nodeConfigs[0].cpuReclaimThresholdPercent: got -10, expected "
        "a number >= 0 (its nodes keep the last good strategy of this selector, or have the "
        "cluster's)"
    ]


UNKNOWN = [
    ("colocation-config", {"cpuReclaimThresholdPercnt": 70},
     ["cpuReclaimThresholdPercnt has no effect, did you mean cpuReclaimThresholdPercent?"]),
    ("colocation-config", {"extensions": {"any": {"thing": 1}}, "nodeConfigs": []}, []),
    ("colocation-config", {"CPUReclaimThresholdPercent": 70}, []),
    ("colocation-config", {"nodeConfig": []},
     ["nodeConfig has no effect, did you mean nodeConfigs?"]),
    ("colocation-config",
     {"nodeConfigs": [{"nodeSelector": {"matchLabel": {"a": "b"}}, "degradeTimeMinute": 3},
                      {"nodeSelectors": {"matchLabels": {"a": "b"}}}]},
     ["nodeConfigs[1].nodeSelector: got None, expected a label selector (it matches no node)",
      "nodeConfigs[0].nodeSelector.matchLabel has no effect, did you mean matchLabels?",
      "nodeConfigs[0].degradeTimeMinute has no effect, did you mean degradeTimeMinutes?",
      "nodeConfigs[1].nodeSelectors has no effect, did you mean nodeSelector?"]),
    ("resource-threshold-config",
     {"clusterStrategy": {"cpuSupressThresholdPercent": 60, "CPUEvictPolicy": "evictByRealLimit"},
      "enable": True, "nodeStrategy": [], "note": 1},
     ["clusterStrategy.cpuSupressThresholdPercent has no effect, "
      "did you mean cpuSuppressThresholdPercent?",
      "enable has no effect, did you mean clusterStrategy.enable?",
      "nodeStrategy has no effect, did you mean nodeStrategies?",
      "note has no effect"]),
    ("resource-qos-config",
     {"nodeStrategies": [{"name": "a", "nodeSelector": {"matchLabels": {"a": "b"}},
                          "beClass": {"cpuQOS": {"weight": 1}}}]},
     ["nodeStrategies[0].beClass.cpuQOS.weight has no effect"]),
    ("system-config", {"clusterStrategy": {"minFreeKbyteFactor": 1}},
     ["clusterStrategy.minFreeKbyteFactor has no effect, did you mean minFreeKbytesFactor?"]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "document", "told"), UNKNOWN)
def test_names_without_effect(key: str, document: Any, told: list[str]) -> None:
    assert lines({key: document}) == [f"data.{key}.{line}" for line in told]


def test_a_calculation_policy_that_nobody_knows_is_usage() -> None:
    data = {"colocation-config": '{"cpuCalculatePolicy":"request","memoryCalculatePolicy":"max"}'}
    assert lines(data) == [
        "data.colocation-config.cpuCalculatePolicy: got 'request', expected one of usage, "
        "maxUsageRequest, requestRatio (taken as usage)",
        "data.colocation-config.memoryCalculatePolicy: got 'max', expected one of usage, request, "
        "maxUsageRequest, requestRatio (taken as usage)",
    ]
    found = load(data)
    assert (found.errors, found.ignored) == ({}, {})
    assert found.strategy(sections.COLOCATION, {}).cpu_calculate_policy == "usage"


def test_what_is_nested_too_deeply_has_a_path() -> None:
    deep = '{"extensions":' * 101 + "1" + "}" * 101
    told = problems({"colocation-config": deep}, admission=True)
    assert [each.path for each in told] == ["data.colocation-config"]


def node(annotation: str = "", **labels: str) -> Node:
    names = {key.replace("_", "-"): text for key, text in labels.items()}
    return Node(metadata=ObjectMeta(
        name="n",
        annotations={"node.koordinator.sh/colocation-strategy": annotation} if annotation else {},
        labels={f"node.koordinator.sh/{key}": text for key, text in names.items()},
    ))  # fmt: skip


NODES = [
    (node('{"memoryReclaimThresholdPercent":165,"cpuReclaimThresholdPercnt":1}'), (60, 100),
     ["annotations[node.koordinator.sh/colocation-strategy].memoryReclaimThresholdPercent: "
      "got 165, expected a number from 0 to 100 (taken as 100)",
      "annotations[node.koordinator.sh/colocation-strategy].cpuReclaimThresholdPercnt "
      "has no effect, did you mean cpuReclaimThresholdPercent?"]),
    (node('{"memoryReclaimThresholdPercent":30,"cpuReclaimThresholdPercent":-1}'), (60, 65),
     ["annotations[node.koordinator.sh/colocation-strategy].cpuReclaimThresholdPercent: "
      "got -1, expected a number >= 0 (as if it were not there)"]),
    (node('{"memoryReclaimThresholdPercent":165,"cpuReclaimThresholdPercent":-1}'), (60, 65),
     ["annotations[node.koordinator.sh/colocation-strategy].cpuReclaimThresholdPercent: "
      "got -1, expected a number >= 0 (as if it were not there)",
      "annotations[node.koordinator.sh/colocation-strategy].memoryReclaimThresholdPercent: "
      "got 165, expected a number from 0 to 100 (as if it were not there)"]),
    (node('{"memoryReclaimThresholdPercent":"30"}'), (60, 65),
     ["annotations[node.koordinator.sh/colocation-strategy].memoryReclaimThresholdPercent: "
      "got '30', expected an integer (as if it were not there)"]),
    (node("{"), (60, 65),
     ["annotations[node.koordinator.sh/colocation-strategy]: got '{', "
      "expected JSON (Input data was truncated) (as if it were not there)"]),
    (node('{"memoryReclaimThresholdPercent":30}', memory_reclaim_ratio="1.65"), (60, 100),
     ["labels[node.koordinator.sh/memory-reclaim-ratio]: got '1.65', "
      "expected a number from 0 to 1 (taken as 1)"]),
    (node('{"memoryReclaimThresholdPercent":30}', memory_reclaim_ratio="-0.65",
          cpu_reclaim_ratio="70%"), (60, 30),
     ["labels[node.koordinator.sh/cpu-reclaim-ratio]: got '70%', "
      "expected a number from 0 to 1 (as if it were not there)",
      "labels[node.koordinator.sh/memory-reclaim-ratio]: got '-0.65', "
      "expected a number from 0 to 1 (as if it were not there)"]),
    (node("{}", cpu_reclaim_ratio="1"), (100, 65), []),
    (node(), (60, 65), []),
]  # fmt: skip


@pytest.mark.parametrize(("found", "percents", "told"), NODES)
def test_what_a_node_says_gets_the_same_treatment(
    found: Node, percents: tuple[int, int], told: list[str]
) -> None:
    strategy = load(None).colocation(found)
    assert percents == (
        strategy.cpu_reclaim_threshold_percent,
        strategy.memory_reclaim_threshold_percent,
    )
    assert [str(each) for each in node_problems(found)] == told


@pytest.mark.parametrize("text", ["fast", "-1G"])
def test_a_bandwidth_that_is_none_is_told_of(text: str) -> None:
    meta = ObjectMeta(name="n", annotations={"node.koordinator.sh/network-bandwidth": text})
    (told,) = node_problems(Node(metadata=meta))
    assert (told.section, told.field) == ("node.koordinator.sh/network-bandwidth",) * 2
    assert str(told).startswith("annotations[node.koordinator.sh/network-bandwidth]: ")
    assert told.effect == "the node's NodeSLO has no systemStrategy"
    assert load(None).node_slo_spec(Node(metadata=meta)).system_strategy is None


def test_sections_without_effect() -> None:
    data: dict[str, Any] = {
        "colocation-confg": {},
        "Colocation-Config": {},
        "resource-treshold-config": {},
        "example.com": {},
    }
    near = [
        "data.Colocation-Config has no effect, did you mean colocation-config?",
        "data.colocation-confg has no effect, did you mean colocation-config?",
        "data.resource-treshold-config has no effect, did you mean resource-threshold-config?",
    ]
    assert sorted(lines(data)) == sorted([*near, "data.example.com has no effect"])
    assert sorted(lines(data, third_parties=True)) == sorted(near)


def test_a_misspelt_name_is_told_beside_a_wrong_value() -> None:
    told = lines({"colocation-config": {"enable": "yes", "enabled": True}})
    assert told == [
        "data.colocation-config.enable: got 'yes', expected true or false "
        "(the last good section stays)",
        "data.colocation-config.enabled has no effect, did you mean enable?",
    ]


def test_what_admission_alone_refuses_is_a_notice() -> None:
    data = {"colocation-config": '{"resourceDiffThreshold":2,"midStaticCPUReservedPercent":150}'}
    assert [(each.field, each.severity) for each in problems(data)] == [
        ("midStaticCPUReservedPercent", Severity.WARNING)
    ]
    assert [(each.field, each.severity) for each in problems(data, admission=True)] == [
        ("midStaticCPUReservedPercent", Severity.WARNING),
        ("resourceDiffThreshold", Severity.NOTICE),
    ]


def test_any_number_of_names_is_read_at_once() -> None:
    """Likely meanings are looked up for the first few alone."""
    many = {f"cpuReclaimThresholdPercnt{at}": 1 for at in range(20_000)}
    found = problems({"colocation-config": json.dumps(many), "x" * 100_000: "{}"})
    assert len(found) == 20_001
    assert sum(1 for each in found if each.expected) == 32
    assert max(len(str(each)) for each in found) < 400
