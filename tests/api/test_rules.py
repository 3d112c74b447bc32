# SPDX-License-Identifier: Apache-2.0
"""What a valid slo-controller-config is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from koord.api.crdgen import definitions
from koord.api.sloconfig import rules, sections
from koord.api.sloconfig.checks import validate
from koord.api.sloconfig.config import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def found(key: str, document: Any, **options: Any) -> list[str]:
    """The messages about one section, without the part that is always the same."""
    head = f"ConfigMap koordinator-system/slo-controller-config: data.{key}"
    messages = [str(error) for error in validate({key: json.dumps(document)}, **options)]
    assert all(message.startswith(head) for message in messages)
    return [message.removeprefix(head).lstrip(".: ") for message in messages]


def cluster(**fields: Any) -> dict[str, Any]:
    return {"clusterStrategy": fields}


def nodes(*items: dict[str, Any]) -> dict[str, Any]:
    return {"nodeStrategies": [
        {"nodeSelector": {"matchLabels": {"n": str(i)}}, **item} for i, item in enumerate(items)
    ]}  # fmt: skip


VALID = [
    (sections.THRESHOLD, cluster(memoryEvictThresholdPercent=80)),
    (sections.THRESHOLD, cluster(memoryEvictLowerPercent=35)),
    (sections.THRESHOLD, nodes({"memoryEvictLowerPercent": 69})),
    (sections.THRESHOLD, cluster(memoryAllocatableEvictThresholdPercent=120)),
    (sections.THRESHOLD, cluster(allocatableEvictPriorityThreshold=7999)),
    (sections.COLOCATION, {"resourceDiffThreshold": 1}),
    (sections.COLOCATION, {"cpuCalculatePolicy": "anything", "midReclaimMode": ""}),
    (sections.COLOCATION, {"cpuCalculatePolicy": "requestRatio", "overcommitRatioPercent": 0}),
    (sections.BURST, cluster(cpuBurstPercent=10000, cfsQuotaBurstPeriodSeconds=-1)),
    (sections.SYSTEM, cluster(watermarkScaleFactor=400, schedFeatures={"ID_BOOK_CPU": True})),
    (sections.NORMALIZATION, {"defaultRatio": 1, "ratioModel": {"m": {"baseRatio": 5.0}}}),
    (sections.AMPLIFICATION, {"resourceAmplificationRatio": {"cpu": 1.5}}),
    (sections.QOS, cluster(beClass={"networkQOS": {"ingressRequest": "10M", "egressLimit": 90}})),
]  # fmt: skip


@pytest.mark.parametrize(("key", "document"), VALID)
def test_valid(key: str, document: Any) -> None:
    assert found(key, document) == []
    loaded = load({key: json.dumps(document)})
    assert (loaded.errors, loaded.ignored) == ({}, {}), "the manager is no stricter"


INVALID = [
    (sections.THRESHOLD, cluster(memoryEvictThresholdPercent=70, memoryEvictLowerPercent=70),
     ["clusterStrategy.memoryEvictLowerPercent: got 70, expected less than "
      "memoryEvictThresholdPercent, 70"]),
    (sections.THRESHOLD, cluster(memoryEvictLowerPercent=71),
     ["clusterStrategy.memoryEvictLowerPercent: got 71, expected less than "
      "memoryEvictThresholdPercent, 70"]),
    (sections.THRESHOLD,
     {**cluster(memoryEvictLowerPercent=60), **nodes({"memoryEvictThresholdPercent": 50})},
     ["nodeStrategies[0].memoryEvictLowerPercent: got 60, expected less than "
      "memoryEvictThresholdPercent, 50"]),
    (sections.THRESHOLD, {**cluster(cpuSuppressThresholdPercent=101), **nodes({"enable": True})},
     ["clusterStrategy.cpuSuppressThresholdPercent: got 101, expected a number from 0 to 100"]),
    (sections.THRESHOLD, nodes({}, {"cpuSuppressPolicy": "cpu"}),
     ["nodeStrategies[1].cpuSuppressPolicy: got 'cpu', expected one of cpuset, cfsQuota"]),
    (sections.THRESHOLD, cluster(allocatableEvictPriorityThreshold=8000),
     ["clusterStrategy.allocatableEvictPriorityThreshold: got 8000, "
      "expected a number from 0 to 7999"]),
    (sections.COLOCATION, {"resourceDiffThreshold": 0},
     ["resourceDiffThreshold: got 0.0, expected a number above 0 to 1"]),
    (sections.COLOCATION, {"overcommitRatioPercent": 101, "midReclaimMode": "dynamic"},
     ["overcommitRatioPercent: got 101, expected a number from 0 to 100",
      "midReclaimMode: got 'dynamic', expected one of static"]),
    (sections.BURST, cluster(policy="some", cfsQuotaBurstPercent=99),
     ["clusterStrategy.policy: got 'some', expected one of none, cpuBurstOnly, "
      "cfsQuotaBurstOnly, auto",
      "clusterStrategy.cfsQuotaBurstPercent: got 99, expected a number >= 100"]),
    (sections.SYSTEM, cluster(watermarkScaleFactor=401, minFreeKbytesFactor=0),
     ["clusterStrategy.minFreeKbytesFactor: got 0, expected a number > 0",
      "clusterStrategy.watermarkScaleFactor: got 401, expected a number above 0 to 400"]),
    (sections.QOS, cluster(beClass={"cpuQOS": {"groupIdentity": 3},
                                    "resctrlQOS": {"catRangeStartPercent": 30,
                                                   "catRangeEndPercent": 30},
                                    "blkioQOS": {"blocks": [{"ioCfg": {"ioWeightPercent": 0}}]},
                                    "networkQOS": {"egressLimit": "fast", "ingressLimit": 101}}),
     ["clusterStrategy.beClass.cpuQOS.groupIdentity: got 3, expected a number from -1 to 2",
      "clusterStrategy.beClass.blkioQOS.blocks[0].ioCfg.ioWeightPercent: got 0, "
      "expected a number from 1 to 100",
      "clusterStrategy.beClass.resctrlQOS.catRangeStartPercent: got 30, "
      "expected less than catRangeEndPercent, 30",
      "clusterStrategy.beClass.networkQOS.ingressLimit: got 101, expected a number from 0 to 100",
      "clusterStrategy.beClass.networkQOS.egressLimit: quantity: got 'fast', expected "]),
    (sections.SYSTEM, cluster(totalNetworkBandwidth="-10G"),
     ["clusterStrategy.totalNetworkBandwidth: got '-10G', expected a quantity >= 0"]),
    (sections.QOS, cluster(lsClass={"networkQOS": {"egressLimit": "-5M"}}),
     ["clusterStrategy.lsClass.networkQOS.egressLimit: got '-5M', expected a quantity >= 0"]),
    (sections.NORMALIZATION, {"ratioModel": {"m": {"turboEnabledRatio": 0.9}}},
     ["ratioModel[m].turboEnabledRatio: got 0.9, expected a number from 1.0 to 5.0"]),
    (sections.AMPLIFICATION, {"resourceAmplificationRatio": {"cpu": 0.5}},
     ["resourceAmplificationRatio[cpu]: got 0.5, expected a number >= 1"]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "document", "messages"), INVALID)
def test_invalid(key: str, document: Any, messages: list[str]) -> None:
    said = found(key, document)
    assert len(said) == len(messages)
    for message, expected in zip(said, messages, strict=True):
        assert message.startswith(expected)


def test_every_rule_is_about_a_field_that_exists() -> None:
    for table in (rules.BOUNDS, rules.CHOICES):
        for kind, fields in table.items():
            names = {field.encode_name for field in msgspec.structs.fields(kind)}
            assert set(fields) <= names
    for kind, pairs in rules.PAIRS.items():
        names = {field.encode_name for field in msgspec.structs.fields(kind)}
        assert {name for pair in pairs for name in pair} <= names


def _beyond(schema: Any, leaf: Callable[[Any], Any]) -> Iterator[Any]:
    """Documents with one number each that a schema's bounds refuse."""
    for bound, step in (("minimum", -1), ("maximum", 1)):
        if bound in schema:
            yield leaf(schema[bound] + step)
    if schema.get("format") == "int64":
        yield from (leaf(-(2**63) - 1), leaf(2**63))
    for name, inner in schema.get("properties", {}).items():
        yield from _beyond(inner, lambda v, name=name: leaf({name: v}))  # type: ignore[misc]
    if "items" in schema:
        yield from _beyond(schema["items"], lambda value: leaf([value]))


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("resourceUsedThresholdWithBE", sections.THRESHOLD),
        ("resourceQOSStrategy", sections.QOS),
        ("cpuBurstStrategy", sections.BURST),
        ("systemStrategy", sections.SYSTEM),
    ],
)
def test_the_manager_refuses_what_the_definition_of_nodeslo_refuses(field: str, key: str) -> None:
    (version,) = definitions()["slo.koordinator.sh_nodeslos.yaml"]["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    tried = list(_beyond(spec["properties"][field], lambda value: cluster(**value)))
    assert tried
    assert not [each for each in tried if not load({key: json.dumps(each)}).errors]


@pytest.mark.parametrize("selector", [None, {}, {"matchLabels": {}}])
def test_a_node_strategy_needs_a_selector(selector: Any) -> None:
    (message,) = found(sections.BURST, {"nodeStrategies": [{"nodeSelector": selector}]})
    assert message.startswith("nodeStrategies[0].nodeSelector: got ")
    assert message.endswith("expected at least one condition")


def test_a_selector_must_be_well_formed() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    (message,) = found(sections.BURST, {"nodeStrategies": [{"nodeSelector": selector}]})
    assert message.startswith("nodeStrategies[0].nodeSelector.matchExpressions[0].operator")


def test_selectors_that_can_match_one_node_overlap() -> None:
    def items(*expressions: tuple[str, str, list[str]]) -> list[dict[str, Any]]:
        return [
            {"name": f"s{i}", "nodeSelector": {
                "matchExpressions": [{"key": key, "operator": operator, "values": values}]}}
            for i, (key, operator, values) in enumerate(expressions)
        ]  # fmt: skip

    apart = items(("a", "In", ["x"]), ("a", "NotIn", ["x"]))
    assert found(sections.COLOCATION, {"nodeConfigs": apart}) == []
    crossing = items(("a", "In", ["x", "y"]), ("b", "Exists", []))
    assert found(sections.COLOCATION, {"nodeConfigs": crossing}) == [
        "nodeConfigs[1].nodeSelector: got 's1', "
        "expected a selector that cannot match a node of s0 as well"
    ]


def test_names_on_demand() -> None:
    document = nodes({"name": "a"}, {"name": "a"}, {})
    assert found(sections.BURST, document) == []
    assert found(sections.BURST, document, need_names=True) == [
        "nodeStrategies[1].name: got 'a', expected a name, used once",
        "nodeStrategies[2].name: got '', expected a name, used once",
    ]


def _network(**requests: Any) -> dict[str, Any]:
    names = {"lsr": "lsrClass", "ls": "lsClass", "be": "beClass", "system": "systemClass"}
    return {names[c]: {"networkQOS": {"ingressRequest": v}} for c, v in requests.items()}


NETWORK = [
    (_network(lsr=50, ls=30, be=20), {}, []),
    (_network(lsr=50, ls=31, be=20), {}, ["percentages that add up to at most 100"]),
    (_network(ls=50, system=100), {}, []),
    (_network(ls="1G", be="200M"), {}, []),
    (_network(ls="1G", be="200M"), {"totalNetworkBandwidth": "2G"}, []),
    (_network(ls="1G", be="1200M"), {"totalNetworkBandwidth": "2G"},
     ["bandwidths that add up to at most 2G"]),
    (_network(ls=50, be="1G"), {}, ["percentages only, or bandwidths only, in all classes"]),
    (_network(ls=90, be=9), {"totalNetworkBandwidth": "1"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("classes", "system", "expected"), NETWORK)
def test_network_requests_together(
    classes: dict[str, Any], system: dict[str, Any], expected: list[str]
) -> None:
    data = {sections.QOS: json.dumps(cluster(**classes))}
    if system:
        data[sections.SYSTEM] = json.dumps(cluster(**system))
    errors = validate(data)
    assert [error.expected for error in errors] == expected
    for error in errors:
        assert error.field == (
            "data.resource-qos-config.clusterStrategy.*.networkQOS.ingressRequest"
        )


def test_the_bandwidth_of_the_same_nodes_counts() -> None:
    qos = nodes(_network(ls="3G"), _network(ls="3G"))
    system = nodes({"totalNetworkBandwidth": "2G"})
    data = {sections.QOS: json.dumps(qos), sections.SYSTEM: json.dumps(system)}
    assert [error.field for error in validate(data)] == [
        "data.resource-qos-config.nodeStrategies[0].*.networkQOS.ingressRequest"
    ]


def test_sections_that_do_not_parse_are_reported_with_the_others() -> None:
    data = {sections.BURST: "{", sections.SYSTEM: '{"clusterStrategy":{"memcgReapBackGround":2}}'}
    assert [error.field for error in validate(data)] == [
        "data.cpu-burst-config",
        "data.system-config.clusterStrategy.memcgReapBackGround",
    ]
