# SPDX-License-Identifier: Apache-2.0
"""slo-controller-config: defaults, overlay, selection, what survives bad input."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import load_manifests, to_document
from koord.api.codec import convert
from koord.api.kinds.cluster import ConfigMap
from koord.api.kinds.qos_strategy import ResourceQOSStrategy
from koord.api.kinds.slo_strategies import ResourceThresholdStrategy
from koord.api.protocol import keys
from koord.api.sloconfig import config, sections
from koord.api.sloconfig.checks import validate
from koord.api.sloconfig.defaults import default_strategy, no_quality, recommended_qos
from koord.api.sloconfig.example import example, example_data
from koord.api.sloconfig.overlay import overlay
from koord.api.sloconfig.problems import problems
from koord.api.sloconfig.sections import SECTIONS, parse_section
from koord.api.sloconfig.strategies import ColocationStrategy, CPUNormalizationStrategy
from koord.base.errors import KoordError
from tests.models import overlay as model
from tests.outcomes import refusal

from .samples import DATA, make_node

THRESHOLD_DEFAULT = {
    "enable": False, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset",
    "memoryEvictThresholdPercent": 70, "cpuEvictPolicy": "evictByRealLimit",
}  # fmt: skip
BURST_DEFAULT = {
    "policy": "none", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300,
    "cfsQuotaBurstPeriodSeconds": -1, "sharePoolThresholdPercent": 50,
}  # fmt: skip
COLOCATION_DEFAULT = {
    "enable": False, "metricAggregateDurationSeconds": 300, "metricReportIntervalSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m", "10m", "30m"]},
    "metricMemoryCollectPolicy": "usageWithoutPageCache",
    "cpuReclaimThresholdPercent": 60, "cpuCalculatePolicy": "usage",
    "memoryReclaimThresholdPercent": 65, "memoryCalculatePolicy": "usage",
    "overcommitRatioPercent": 30, "degradeTimeMinutes": 15, "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1, "midCPUThresholdPercent": 100, "midMemoryThresholdPercent": 100,
    "midUnallocatedPercent": 0, "midStaticCPUReservedPercent": 0,
    "midStaticMemoryReservedPercent": 0,
}  # fmt: skip

DEFAULTS = [
    (sections.COLOCATION, COLOCATION_DEFAULT),
    (sections.THRESHOLD, THRESHOLD_DEFAULT),
    (sections.QOS, {}),
    (sections.BURST, BURST_DEFAULT),
    (sections.SYSTEM, {"totalNetworkBandwidth": "0"}),
    (sections.HOST_APPLICATION, {}),
    (sections.NORMALIZATION, {"enable": False}),
    (sections.AMPLIFICATION, {"enable": False}),
]


@pytest.mark.parametrize(("key", "expected"), DEFAULTS)
def test_defaults(key: str, expected: dict[str, Any]) -> None:
    assert to_document(default_strategy(key)) == expected
    assert to_document(config.load(None).strategy(key, {})) == expected


def test_recommended_qualities() -> None:
    def row(name: str) -> tuple[Any, ...]:
        block = to_document(no_quality() if name == "none" else getattr(recommended_qos(), name))
        cpu, memory, cache = block["cpuQOS"], block["memoryQOS"], block["resctrlQOS"]
        return (cpu["groupIdentity"], cpu["coreExpeller"], memory["wmarkRatio"],
                memory["wmarkScalePermill"], memory["wmarkMinAdj"], cache["catRangeEndPercent"],
                cache["mbaPercent"], cpu["enable"])  # fmt: skip

    assert row("lsr_class") == (2, True, 95, 20, -25, 100, 100, False)
    assert row("ls_class") == (2, True, 95, 20, -25, 100, 100, False)
    assert row("be_class") == (-1, False, 95, 20, 50, 30, 100, False)
    assert row("system_class") == (0, False, 0, 50, 0, 100, 100, False)
    assert row("none") == (0, False, 0, 50, 0, 100, 100, False)


def load(**data: Any) -> config.SLOConfig:
    """A configuration from documents, ``_`` for ``-`` in the keys."""
    texts = {
        key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value)
        for key, value in data.items()
    }
    return config.load(texts)


def test_the_worked_example() -> None:
    loaded = load(
        resource_threshold_config={
            "clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 60},
            "nodeStrategies": [
                {"nodeSelector": {"matchLabels": {"xxx": "yyy"}}, "cpuSuppressThresholdPercent": 40}
            ],
        }
    )
    cluster = {**THRESHOLD_DEFAULT, "enable": True, "cpuSuppressThresholdPercent": 60}
    assert to_document(loaded.strategy(sections.THRESHOLD, {})) == cluster
    found = to_document(loaded.strategy(sections.THRESHOLD, {"xxx": "yyy"}))
    assert found == {**cluster, "cpuSuppressThresholdPercent": 40}


OVERLAYS: list[tuple[type[Any], Any, Any, Any]] = [
    # type, base, over, result
    (ResourceThresholdStrategy, {"enable": True}, {"enable": False}, {"enable": False}),
    (ResourceThresholdStrategy, {"cpuSuppressThresholdPercent": 65},
     {"cpuSuppressThresholdPercent": 0}, {"cpuSuppressThresholdPercent": 0}),
    (ResourceThresholdStrategy, {"cpuSuppressPolicy": "cpuset"}, {"cpuSuppressPolicy": ""},
     {"cpuSuppressPolicy": "cpuset"}),
    (ColocationStrategy, {"cpuCalculatePolicy": "usage"}, {"cpuCalculatePolicy": ""},
     {"cpuCalculatePolicy": ""}),
    (ColocationStrategy, {"metricAggregatePolicy": {"durations": ["5m", "10m"]}},
     {"metricAggregatePolicy": {"durations": ["1m"]}},
     {"metricAggregatePolicy": {"durations": ["1m"]}}),
    (ColocationStrategy, {"metricAggregatePolicy": {"durations": ["5m"]}},
     {"metricAggregatePolicy": {"durations": []}},
     {"metricAggregatePolicy": {"durations": ["5m"]}}),
    (ColocationStrategy, {"extensions": {"a": {"x": 1}, "b": 1}}, {"extensions": {"a": {"y": 2}}},
     {"extensions": {"a": {"y": 2}, "b": 1}}),
    (CPUNormalizationStrategy,
     {"ratioModel": {"m": {"baseRatio": 1.0, "turboEnabledRatio": 2.0}, "n": {"baseRatio": 1.5}}},
     {"ratioModel": {"m": {"baseRatio": 1.1}}},
     {"ratioModel": {"m": {"baseRatio": 1.1}, "n": {"baseRatio": 1.5}}}),
    (ResourceQOSStrategy, {"beClass": {"cpuQOS": {"enable": True, "groupIdentity": -1}}},
     {"beClass": {"cpuQOS": {"enable": False}, "resctrlQOS": {"mbaPercent": 0}}},
     {"beClass": {"cpuQOS": {"enable": False, "groupIdentity": -1},
                  "resctrlQOS": {"mbaPercent": 0}}}),
    (ResourceQOSStrategy,
     {"beClass": {"blkioQOS": {"blocks": [{"name": "a", "ioCfg": {"readIOPS": 1}}]}}},
     {"beClass": {"blkioQOS": {"blocks": [{"name": "b"}]}}},
     {"beClass": {"blkioQOS": {"blocks": [{"name": "b"}]}}}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "base", "over", "expected"), OVERLAYS)
def test_overlay(kind: type[Any], base: Any, over: Any, expected: Any) -> None:
    low, high = convert(base, kind, "base"), convert(over, kind, "over")
    assert to_document(overlay(low, high)) == expected
    assert to_document(low) == base


def some_strategy(rng: Random) -> dict[str, Any]:
    """A co-location strategy with some fields set."""
    choices: dict[str, list[Any]] = {
        "enable": [True, False],
        "degradeTimeMinutes": [0, 15],
        "cpuCalculatePolicy": ["", "usage"],
        "resourceDiffThreshold": [0.0, 0.1],
        "metricAggregatePolicy": [{"durations": ["5m"]}, {"durations": ["1m", "2m"]}, {}],
        "extensions": [{"a": 1}, {"a": {"b": 2}, "c": 3}],
    }
    fields = rng.sample(sorted(choices), rng.randrange(len(choices) + 1))
    return {field: rng.choice(choices[field]) for field in fields}


@given(st.integers(0, 2**32 - 1))
def test_overlay_agrees_with_the_model(seed: int) -> None:
    rng = Random(seed)
    base, over = some_strategy(rng), some_strategy(rng)
    typed = [convert(document, ColocationStrategy, "x") for document in (base, over)]
    written = [to_document(strategy) for strategy in typed]
    assert to_document(overlay(*typed)) == model.overlay(*written)


def test_the_first_matching_item_wins_and_bad_selectors_are_skipped() -> None:
    def item(percent: int, selector: Any) -> dict[str, Any]:
        return {"nodeSelector": selector, "cpuSuppressThresholdPercent": percent}

    bad = {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}
    document = {
        "nodeStrategies": [
            item(1, None), item(2, bad), item(3, {"matchLabels": {"a": "b"}}), item(4, {}),
        ]
    }  # fmt: skip
    loaded = load(resource_threshold_config=document)

    def percent(labels: dict[str, str]) -> int | None:
        strategy: ResourceThresholdStrategy = loaded.strategy(sections.THRESHOLD, labels)
        return strategy.cpu_suppress_threshold_percent

    assert (percent({"a": "b"}), percent({})) == (3, 4)
    assert loaded.errors == {}
    where = "data.resource-threshold-config.nodeStrategies"
    assert loaded.ignored[sections.THRESHOLD].field == f"{where}[0].nodeSelector"
    told = problems({sections.THRESHOLD: json.dumps(document)})
    assert [each.path for each in told] == [
        f"{where}[0].nodeSelector",
        f"{where}[1].nodeSelector.matchExpressions[0].operator",
    ]


def test_bandwidth_shows_through_unless_asked_otherwise() -> None:
    document = {
        "clusterStrategy": {"totalNetworkBandwidth": "10G"},
        "nodeStrategies": [
            {"nodeSelector": {"matchLabels": {"a": "b"}}, "minFreeKbytesFactor": 1},
            {"nodeSelector": {"matchLabels": {"a": "c"}}},
        ],
    }
    data = {sections.SYSTEM: json.dumps(document)}
    ours, peers = (config.load(data, zero_bandwidth=switch) for switch in (False, True))

    def bandwidth(loaded: config.SLOConfig, label: str) -> str:
        return str(loaded.strategy(sections.SYSTEM, {"a": label}).total_network_bandwidth)

    assert (bandwidth(ours, "b"), bandwidth(peers, "b")) == ("10G", "0")
    assert (bandwidth(ours, "c"), bandwidth(peers, "c")) == ("10G", "10G")


def test_host_applications_of_a_node_replace_the_clusters() -> None:
    selector = {"matchLabels": {"a": "b"}}
    document = {
        "applications": [{"name": "x"}, {"name": "y"}],
        "nodeConfigs": [{"nodeSelector": selector, "applications": [{"name": "z"}]}],
    }
    loaded = load(host_application_config=document)
    for labels, expected in (({}, ["x", "y"]), ({"a": "b"}, ["z"])):
        found = loaded.node_slo_spec(make_node(labels=labels)).host_applications
        assert [application.name for application in found] == expected


def test_bad_sections_keep_what_was_and_say_so() -> None:
    good = load(cpu_burst_config={"clusterStrategy": {"policy": "auto"}},
                colocation_config={"enable": True})  # fmt: skip
    for text in ("{", "[]", '{"clusterStrategy":{"policy":1}}', ""):
        again = config.load({sections.BURST: text, sections.COLOCATION: "{"}, good)
        assert set(again.errors) == {sections.BURST, sections.COLOCATION}
        assert again.strategy(sections.BURST, {}).policy == "auto"
        assert again.strategy(sections.COLOCATION, {}).enable
    assert config.load({sections.BURST: "{"}).strategy(sections.BURST, {}).policy == "none"
    assert config.load({}, good).strategy(sections.BURST, {}).policy == "none"


def test_an_empty_colocation_section_is_a_missing_one() -> None:
    loaded = load(colocation_config="")
    assert loaded.errors == {}
    assert to_document(loaded.strategy(sections.COLOCATION, {})) == COLOCATION_DEFAULT


def test_an_invalid_colocation_strategy_is_refused_an_invalid_item_replaced() -> None:
    refused = load(colocation_config={"enable": True, "degradeTimeMinutes": 0})
    assert str(refused.errors[sections.COLOCATION]) == (
        "slo-controller-config: data.colocation-config.degradeTimeMinutes: got 0, "
        "expected a number >= 1"
    )
    assert refused.strategy(sections.COLOCATION, {}).enable is False
    selector = {"matchLabels": {"a": "b"}}
    item = {"nodeSelector": selector, "enable": False, "midUnallocatedPercent": 101}
    loaded = load(colocation_config={"enable": True, "nodeConfigs": [item]})
    assert loaded.errors == {}
    assert str(loaded.ignored[sections.COLOCATION]) == (
        "slo-controller-config: data.colocation-config.nodeConfigs[0].midUnallocatedPercent: "
        "got 101, expected a number from 0 to 100"
    )
    assert loaded.strategy(sections.COLOCATION, {"a": "b"}).enable is True


@pytest.mark.parametrize(
    ("key", "fields", "admitted", "in_force"),
    [
        (sections.COLOCATION, {"resourceDiffThreshold": 1.5}, False, True),
        (sections.COLOCATION, {"resourceDiffThreshold": 0}, False, False),
        (sections.COLOCATION, {"midStaticCPUReservedPercent": 101}, False, True),
        (sections.COLOCATION, {"midStaticCPUReservedPercent": -1}, False, False),
        (sections.COLOCATION, {"metricMemoryCollectPolicy": ""}, True, False),
        (sections.COLOCATION, {"metricReportIntervalSeconds": 1}, True, True),
        (sections.BURST, {"clusterStrategy": {"cpuBurstPercent": 0}}, False, True),
        (sections.BURST, {"clusterStrategy": {"cpuBurstPercent": -1}}, False, False),
        *((sections.QOS, {"clusterStrategy": {"lsClass": {"memoryQOS": {name: percent}}}}, *which)
          for name in ("minLimitPercent", "lowLimitPercent", "throttlingPercent")
          for percent, which in ((101, (False, True)), (-1, (False, False)))),
    ],
)  # fmt: skip
def test_admission_is_stricter_than_the_manager(
    key: str, fields: dict[str, Any], admitted: bool, in_force: bool
) -> None:
    data = {key: json.dumps(fields)}
    assert (validate(data) == []) is admitted
    assert (config.load(data).errors == {}) is in_force


def test_a_nodes_own_words_count_most() -> None:
    loaded = load(colocation_config={"enable": True, "cpuReclaimThresholdPercent": 70})
    annotations = {
        keys.COLOCATION_STRATEGY: '{"CPUReclaimThresholdPercent":50,"memoryCalculatePolicy":'
        '"requestRatio","overcommitRatioPercent":40}'
    }
    own = loaded.colocation(make_node(annotations=annotations))
    assert (own.cpu_reclaim_threshold_percent, own.enable) == (50, True)
    assert (own.memory_calculate_policy, own.overcommit_ratio_percent) == ("requestRatio", 40)
    labels = {keys.CPU_RECLAIM_RATIO: "0.3", keys.MEMORY_RECLAIM_RATIO: "lots"}
    both = loaded.colocation(make_node(annotations=annotations, labels=labels))
    assert both.cpu_reclaim_threshold_percent == 30
    assert both.memory_reclaim_threshold_percent == 65
    bad = loaded.colocation(make_node(annotations={keys.COLOCATION_STRATEGY: "{"}))
    assert bad.cpu_reclaim_threshold_percent == 70


def test_a_node_slo_has_every_section() -> None:
    spec = to_document(config.load(None).node_slo_spec(make_node()))
    assert spec == {
        "resourceUsedThresholdWithBE": THRESHOLD_DEFAULT,
        "resourceQOSStrategy": {},
        "cpuBurstStrategy": BURST_DEFAULT,
        "systemStrategy": {"totalNetworkBandwidth": "0"},
    }
    annotated = make_node(annotations={keys.NETWORK_BANDWIDTH: "25G"})
    spec = to_document(config.load(None).node_slo_spec(annotated))
    assert spec["systemStrategy"] == {"totalNetworkBandwidth": "25G"}
    bad = make_node(annotations={keys.NETWORK_BANDWIDTH: "fast"})
    assert "systemStrategy" not in to_document(config.load(None).node_slo_spec(bad))


def test_keys_match_without_regard_to_case() -> None:
    text = (DATA / "releases" / "resource-qos-config.yaml").read_text()
    (found,) = load_manifests(text)
    assert isinstance(found, ConfigMap)
    parsed = parse_section(SECTIONS[sections.QOS], found.data[sections.QOS], found.title)
    assert to_document(parsed.cluster) == {
        "lsClass": {"resctrlQOS": {"enable": True, "catRangeStartPercent": 0,
                                   "catRangeEndPercent": 100, "mbaPercent": 100}},
        "beClass": {"resctrlQOS": {"enable": True, "catRangeStartPercent": 0,
                                   "catRangeEndPercent": 30, "mbaPercent": 100}},
    }  # fmt: skip
    shouted = '{"CLUSTERSTRATEGY":{"ENABLE":true},"NodeStrategies":[{"NODESELECTOR":{}}]}'
    parsed = parse_section(SECTIONS[sections.THRESHOLD], shouted, "c")
    assert parsed.cluster.enable is True
    assert parsed.nodes[0].selector is not None


def test_names_of_models_keep_their_case() -> None:
    document = {"RatioModel": {"Model X": {"BaseRatio": 1.5}}}
    strategy = load(cpu_normalization_config=document).strategy(sections.NORMALIZATION, {})
    model_x = strategy.ratio_model["Model X"]
    assert model_x.ratio(hyper_thread=False, turbo=False) == 1.5
    assert model_x.ratio(hyper_thread=True, turbo=True) is None


def test_errors_name_key_and_path() -> None:
    text = '{"nodeStrategies":[{"nodeSelector":{}},{"cpuSuppressThresholdPercent":"much"}]}'
    with pytest.raises(KoordError) as raised:
        parse_section(SECTIONS[sections.THRESHOLD], text, "ConfigMap a/b")
    assert str(raised.value) == (
        "ConfigMap a/b: data.resource-threshold-config.nodeStrategies[1]."
        "cpuSuppressThresholdPercent: got 'much', expected an integer"
    )


@given(st.sampled_from(sorted(SECTIONS)), st.text('{}[]":,0a\\e-', max_size=12))
def test_any_text_is_parsed_or_refused(key: str, text: str) -> None:
    refusal(parse_section, SECTIONS[key], text, "c")
    assert isinstance(validate({key: text}), list)


def test_the_example_is_complete_valid_and_in_step_with_the_types() -> None:
    (found,) = load_manifests(example())
    assert isinstance(found, ConfigMap)
    assert {key: json.loads(text) for key, text in found.data.items()} == {
        key: json.loads(text) for key, text in example_data().items()
    }
    assert set(found.data) == set(SECTIONS)
    assert validate(found.data) == []
    assert config.load(found.data).errors == {}
    text = example()
    for name in ("overcommitRatioPercent", "mbaPercent", "turboEnabledRatio", "relativePath"):
        assert f" {name}" in text


def test_the_example_says_that_the_static_share_is_offered() -> None:
    lines = [line.strip() for line in example().splitlines()]
    bounds = "a number from 0 to 100"
    cpu = "with static, share of the CPU that Mid offers"
    assert f"#   midStaticCPUReservedPercent: {cpu}; {bounds}" in lines
    memory = "with static, share of the memory that Mid offers"
    assert f"#   midStaticMemoryReservedPercent: {memory}; {bounds}" in lines
