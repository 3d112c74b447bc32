# SPDX-License-Identifier: Apache-2.0
"""The configuration that controllers go by, whatever people write into the ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from koord.api.kinds.cluster import ConfigMap
from koord.api.kinds.meta import ObjectMeta
from koord.api.sloconfig import sections
from koord.controllers.manager.sloconfig.config_cache import ConfigCache
from koord.controllers.scheduler.cache.local_views import LocalView
from tests.models import slo_config_cache
from tests.models.slo_config_cache import GOOD, TEXTS

KEY = "koordinator-system/slo-controller-config"


def config_map(data: dict[str, str], name: str = "slo-controller-config") -> ConfigMap:
    meta = ObjectMeta(name=name, namespace="koordinator-system", uid="u")
    return ConfigMap(metadata=meta, data=data)


class Bench:
    """A cache over a view that is fed by hand."""

    def __init__(self, *maps: ConfigMap, extenders: Sequence[str] = ()) -> None:
        self.view: LocalView[ConfigMap] = LocalView()
        for each in maps:
            self.view.put(each)
        self.events: list[tuple[str, str]] = []
        self.changes: list[frozenset[str]] = []
        self.cache = ConfigCache(self.view, self._tell, extenders=extenders)
        self.cache.subscribe(self.changes.append)
        self.cache.start()

    def _tell(self, about: Any, kind: str, reason: str, message: str) -> None:
        assert (type(about), kind) == (ConfigMap, "Warning")
        self.events.append((reason, message))


def test_without_a_config_map_defaults_hold_and_policies_stay() -> None:
    bench = Bench()
    assert bench.cache.available
    assert bench.cache.error_status
    assert bench.cache.config is not None
    assert bench.cache.config.strategy(sections.COLOCATION, {}).enable is False
    assert not bench.events


def test_another_config_map_is_not_ours() -> None:
    bench = Bench(config_map({sections.COLOCATION: "{"}, "other"))
    assert bench.cache.error_status, "there is none of ours"
    assert not bench.events
    bench.view.put(config_map({sections.COLOCATION: '{"enable":true}'}, "other"))
    assert len(bench.changes) == 1


def test_a_config_map_that_appears_ends_the_error_status_and_says_so() -> None:
    bench = Bench()
    bench.view.put(config_map({}))
    assert not bench.cache.error_status
    assert bench.changes[-1] == {sections.COLOCATION}, "policies that stayed may change now"


def test_a_config_map_that_goes_changes_nothing() -> None:
    bench = Bench(config_map({sections.COLOCATION: '{"enable":true}'}))
    before = list(bench.changes)
    bench.view.remove(KEY)
    assert bench.cache.config is not None
    assert bench.cache.config.strategy(sections.COLOCATION, {}).enable is True
    assert bench.changes == before


@pytest.mark.parametrize(
    ("key", "text", "reason", "field"),
    [
        (sections.COLOCATION, '{"cpuReclaimThresholdPercent":-1}', "ColocationCfgUnmarshalFailed",
         "data.colocation-config.cpuReclaimThresholdPercent"),
        (sections.THRESHOLD, '{"clusterStrategy":{"enable":1}}', "SLOCfgUnmarshalFailed",
         "data.resource-threshold-config.clusterStrategy.enable"),
        (sections.SYSTEM, "{", "SLOCfgUnmarshalFailed", "data.system-config"),
        (sections.NORMALIZATION, "{", "CPUNormalizationCfgUnmarshalFailed",
         "data.cpu-normalization-config"),
        (sections.AMPLIFICATION, '{"enable":"x"}', "ResourceAmplificationCfgUnmarshalFailed",
         "data.resource-amplification-config.enable"),
        (sections.COLOCATION, '{"metricMemoryCollectPolicy":"x"}', "ColocationCfgUnmarshalFailed",
         "data.colocation-config.metricMemoryCollectPolicy: got 'x', expected one of usageWith"),
        (sections.THRESHOLD, '{"clusterStrategy":{"cpuSuppressThresholdPercent":700}}',
         "SLOCfgUnmarshalFailed", "data.resource-threshold-config.clusterStrategy."
         "cpuSuppressThresholdPercent: got 700, expected a number from 0 to 100"),
        (sections.HOST_APPLICATION, '{"applications":[{"name":"a","qos":"LSX"}]}',
         "SLOCfgUnmarshalFailed", "data.host-application-config.applications[0].qos: "
         "got 'LSX', expected one of LSE, LSR, LS, BE, SYSTEM"),
        (sections.BURST, '{"nodeStrategies":[{"policy":"nonsense"}]}', "SLOCfgUnmarshalFailed",
         "data.cpu-burst-config.nodeStrategies[0].policy: got 'nonsense', expected one of none,"),
        (sections.BURST, '{"clusterStrategy":{"cfsQuotaBurstPercent":9223372036854775808}}',
         "SLOCfgUnmarshalFailed", "data.cpu-burst-config.clusterStrategy.cfsQuotaBurstPercent: "
         "got 9223372036854775808, expected an integer of 64 bits"),
        (sections.QOS, '{"clusterStrategy":{"beClass":{"memoryQOS":{"wmarkRatio":5000}}}}',
         "SLOCfgUnmarshalFailed", "data.resource-qos-config.clusterStrategy.beClass.memoryQOS."
         "wmarkRatio: got 5000, expected a number from 0 to 100"),
        (sections.SYSTEM, '{"clusterStrategy":{"watermarkScaleFactor":40000}}',
         "SLOCfgUnmarshalFailed", "data.system-config.clusterStrategy.watermarkScaleFactor: "
         "got 40000, expected a number above 0 to 400"),
        (sections.NORMALIZATION, '{"defaultRatio":9}', "CPUNormalizationCfgUnmarshalFailed",
         "data.cpu-normalization-config.defaultRatio: got 9.0, expected a number from 1.0 to 5.0"),
        (sections.AMPLIFICATION, '{"resourceAmplificationRatio":{"cpu":0.5}}',
         "ResourceAmplificationCfgUnmarshalFailed", "data.resource-amplification-config."
         "resourceAmplificationRatio[cpu]: got 0.5, expected a number >= 1"),
    ],
)  # fmt: skip
def test_a_wrong_section_is_told_once_with_its_field(
    key: str, text: str, reason: str, field: str
) -> None:
    bench = Bench(config_map({key: text}))
    assert not bench.cache.has(key)
    assert len(bench.events) == 1
    assert bench.events[0][0] == reason
    assert field in bench.events[0][1]
    bench.view.put(config_map({key: text, sections.HOST_APPLICATION: "{}"}))
    assert len(bench.events) == 1, "nothing new is wrong"
    bench.view.put(config_map({key: "[" + text}))
    assert len(bench.events) == 2


def test_a_ratio_that_nobody_can_have_meant_is_followed_and_told() -> None:
    text = '{"enable":true,"resourceAmplificationRatio":{"cpu":50}}'
    bench = Bench(config_map({sections.AMPLIFICATION: text}))
    assert bench.cache.has(sections.AMPLIFICATION)
    reason, message = bench.events[0][:2]
    assert reason == "SLOCfgValueImplausible"
    assert message.endswith(
        "data.resource-amplification-config.resourceAmplificationRatio[cpu]: got 50.0, expected "
        "a ratio of at most 10: a node cannot keep what it offers beyond that (in effect)"
    )


@pytest.mark.parametrize(
    ("key", "text", "field"),
    [
        (sections.COLOCATION, '{"enable":true,"nodeConfigs":[{"nodeSelector":{"matchLabels":'
         '{"a":"b"}},"enable":false,"degradeTimeMinutes":0}]}',
         "data.colocation-config.nodeConfigs[0].degradeTimeMinutes: got 0, expected a number >= 1"),
        (sections.THRESHOLD, '{"clusterStrategy":{"enable":true},"nodeStrategies":[{"enable":'
         'false,"nodeSelector":{"matchExpressions":[{"key":"a","operator":"Bad"}]}}]}',
         "data.resource-threshold-config.nodeStrategies[0].nodeSelector.matchExpressions[0]."
         "operator: got 'Bad', expected one of In, NotIn, Exists, DoesNotExist"),
    ],
)  # fmt: skip
def test_a_node_strategy_that_does_not_count_is_told_of_and_the_rest_is_in_force(
    key: str, text: str, field: str
) -> None:
    bench = Bench(config_map({key: text}))
    assert bench.cache.has(key)
    assert not bench.cache.error_status
    assert bench.cache.config is not None
    assert bench.cache.config.strategy(key, {"a": "b"}).enable is True
    assert len(bench.events) == 1
    assert field in bench.events[0][1]
    bench.view.put(config_map({key: text, sections.HOST_APPLICATION: "{}"}))
    assert len(bench.events) == 1, "nothing new is wrong"
    bench.view.put(config_map({}))
    bench.view.put(config_map({key: text}))
    assert len(bench.events) == 2, "wrong again"


def test_a_section_that_was_never_good_is_not_available() -> None:
    bench = Bench(config_map({sections.COLOCATION: "{"}))
    assert not bench.cache.has(sections.COLOCATION)
    bench.view.put(config_map({sections.COLOCATION: "{}"}))
    assert bench.cache.has(sections.COLOCATION)
    assert sections.COLOCATION in bench.changes[-1], "who waited for it is told"


def test_typing_errors_are_told_of_once_a_section_and_sort() -> None:
    colocation = json.dumps({
        "enable": True, "memoryReclaimThresholdPercent": 165, "cpuReclaimThresholdPercnt": 70,
        "degradeTimeMinute": 5,
    })  # fmt: skip
    data = {sections.COLOCATION: colocation, "resource-treshold-config": "{}"}
    bench = Bench(config_map(data))
    head = "ConfigMap koordinator-system/slo-controller-config: data."
    assert bench.events == [
        (
            "SLOCfgValueSubstituted",
            f"{head}colocation-config.memoryReclaimThresholdPercent: got 165, "
            "expected a number from 0 to 100 (taken as 100)",
        ),
        (
            "SLOCfgNameUnknown",
            f"{head}colocation-config.cpuReclaimThresholdPercnt has no effect, "
            "did you mean cpuReclaimThresholdPercent?; data.colocation-config.degradeTimeMinute "
            "has no effect, did you mean degradeTimeMinutes?",
        ),
        (
            "SLOCfgNameUnknown",
            f"{head}resource-treshold-config has no effect, "
            "did you mean resource-threshold-config?",
        ),
    ]
    assert bench.cache.config is not None
    found = bench.cache.config.strategy(sections.COLOCATION, {})
    assert found.memory_reclaim_threshold_percent == 100
    bench.view.put(config_map({**data, sections.BURST: "{}"}))
    assert len(bench.events) == 3, "nothing new is wrong"
    bench.view.put(config_map({sections.COLOCATION: colocation, "sytem-config": "{}"}))
    assert len(bench.events) == 4
    assert "did you mean system-config?" in bench.events[3][1]


def test_many_mistakes_are_one_event_of_bounded_length() -> None:
    fields = {f"cpuReclaimThresholdPercnt{at}": 1 for at in range(5_000)}
    others = {f"unknown-{at}-" + "x" * 5_000: "{}" for at in range(100)}
    bench = Bench(config_map({sections.COLOCATION: json.dumps(fields), **others}))
    assert [reason for reason, _ in bench.events] == ["SLOCfgNameUnknown"] * 2
    assert all(len(message) < 1024 for _, message in bench.events)
    assert bench.events[0][1].endswith("; and 4996 more")
    assert bench.events[1][1].endswith("; and 96 more")


def test_a_section_that_an_extender_may_read_is_no_mistake() -> None:
    data = {"acme-config": "{}", "sytem-config": "{}"}
    assert len(Bench(config_map(data)).events) == 1
    events = Bench(config_map(data), extenders=["acme"]).events
    assert [message.rpartition("data.")[2] for _, message in events] == [
        "sytem-config has no effect, did you mean system-config?"
    ]


def test_sections_of_third_parties_are_told_of() -> None:
    bench = Bench(config_map({"a": "1", "b": "1"}))
    bench.view.put(config_map({"a": "2", "c": "1"}))
    assert bench.changes[-1] == {"a", "b", "c"}
    assert bench.cache.data == {"a": "2", "c": "1"}


class Histories(RuleBasedStateMachine):
    """Any history of the ConfigMap: each section is its last good one, told of when it changed."""

    @initialize(data=st.none() | st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(TEXTS[key]) for key in GOOD}))  # fmt: skip
    def begin(self, data: dict[str, str] | None) -> None:
        self.model = slo_config_cache.Model()
        self.bench = Bench(*([config_map(data)] if data is not None else []))
        self._compare(self.model.sync(data))
        self.data = data

    @rule(key=st.sampled_from(sorted(GOOD)), draw=st.data())
    def write(self, key: str, draw: st.DataObject) -> None:
        data = dict(self.data or {})
        text = draw.draw(st.none() | st.sampled_from(TEXTS[key]))
        data.pop(key, None) if text is None else data.update({key: text})
        self.bench.view.put(config_map(data))
        if data != self.data:
            self._compare(self.model.sync(data))
        self.data = data

    @rule()
    def delete(self) -> None:
        self.bench.view.remove(KEY)
        self.data = None

    def _compare(self, changed: set[str]) -> None:
        told = (
            {key for key in self.bench.changes[-1] if key in GOOD} if self.bench.changes else set()
        )
        assert not changed or told == changed
        self.bench.changes.clear()

    @invariant()
    def holds(self) -> None:
        cache = self.bench.cache
        assert cache.config is not None
        for key in GOOD:
            assert cache.has(key) == (key in self.model.good)
            assert cache.config.sections[key] == self.model.value(key)
        assert cache.error_status == self.model.error_status
        assert len(self.bench.events) == len(self.model.complaints)
        assert not self.bench.changes


TestHistories = Histories.TestCase
