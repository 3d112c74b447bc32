# SPDX-License-Identifier: Apache-2.0
"""CPU normalization and amplification against plain Python and literal examples."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.sloconfig.sections import AMPLIFICATION, NORMALIZATION
from koord.controllers.manager.noderesource.writers.node_patches import meta_patch
from tests.controllers.manager.noderesource.builders import (
    Bench,
    config,
    node,
    seen,
    topology,
    unjudged,
)
from tests.models import noderesource as model

SPEED = "node.koordinator.sh/cpu-normalization-ratio"
AMPLIFIED = "node.koordinator.sh/resource-amplification-ratio"
ENABLED = "node.koordinator.sh/cpu-normalization-enabled"
RATIOS = {"fast": {"baseRatio": 1.5, "hyperThreadEnabledRatio": 1.0, "turboEnabledRatio": 1.65,
                   "hyperThreadTurboEnabledRatio": 1.1}}  # fmt: skip


def info(cpu: str, hyper_thread: bool = False, turbo: bool = False) -> dict[str, Any]:
    return {"cpuModel": cpu, "hyperThreadEnabled": hyper_thread, "turboEnabled": turbo}


@pytest.mark.parametrize(
    ("hyper_thread", "turbo", "text"),
    [(False, False, "1.50"), (True, False, "1.00"), (False, True, "1.65"), (True, True, "1.10")],
)
def test_the_ratio_follows_model_and_switches(hyper_thread: bool, turbo: bool, text: str) -> None:
    settings = config(cpu_normalization_config={"enable": True, "ratioModel": RATIOS})
    nrt = topology(info=info("fast", hyper_thread, turbo))
    wanted = Bench("CPUNormalization").wanted(seen(settings=settings, topology=nrt))
    assert wanted.annotations == {SPEED: text}


def test_without_the_agents_report_the_annotation_stays() -> None:
    settings = config(cpu_normalization_config={"enable": True, "defaultRatio": 1.2})
    bench = Bench("CPUNormalization")
    wanted = bench.wanted(seen(node(annotations={SPEED: "1.44"}), settings))
    assert wanted.annotations == {}
    assert bench.failed == ["CPUNormalization"]


def test_what_was_never_readable_is_not_gone_by() -> None:
    bench = Bench("CPUNormalization")
    known = seen(missing=frozenset({"cpu-normalization-config"}))
    assert bench.wanted(known).annotations == {}
    assert bench.failed == ["CPUNormalization"]


def test_the_nodes_label_goes_before_the_configuration() -> None:
    settings = config(cpu_normalization_config={"enable": True, "defaultRatio": 1.2})
    off = seen(node(labels={ENABLED: "false"}), settings, topology=topology(info=info("x")))
    assert Bench("CPUNormalization").wanted(off).annotations == {SPEED: "1.00"}
    neither = seen(node(labels={ENABLED: "perhaps"}), settings)
    assert Bench("CPUNormalization").wanted(neither).annotations == {}


@pytest.mark.parametrize(
    ("old", "due"), [(None, True), ("1.00", True), ("1.19", True), ("1.20", False), ("x", True)]
)
def test_a_ratio_is_written_when_it_differs(old: str | None, due: bool) -> None:
    settings = config(cpu_normalization_config={"enable": True, "defaultRatio": 1.2})
    on = node(annotations={} if old is None else {SPEED: old})
    bench = Bench("CPUNormalization")
    wanted = bench.wanted(seen(on, settings, topology=topology(info=info("x"))))
    assert bench.plugins.meta_due(on, wanted) is due


ratio = st.none() | st.sampled_from([0.5, 0.99, 1.0, 1.2, 1.555, 2.345, 5.0, 5.01])


@given(
    enabled=st.booleans(),
    label=st.sampled_from([None, "1", "F", "nonsense"]),
    cpu=st.none() | st.sampled_from(["a", "b"]),
    switches=st.tuples(st.booleans(), st.booleans()),
    ratios=st.dictionaries(
        st.sampled_from(["a", "c"]),
        st.fixed_dictionaries(dict.fromkeys(RATIOS["fast"], ratio)),
        max_size=2,
    ),
    default=ratio,
)
def test_normalization_is_the_plain_models(
    enabled: bool,
    label: str | None,
    cpu: str | None,
    switches: tuple[bool, bool],
    ratios: dict[str, dict[str, float | None]],
    default: float | None,
) -> None:
    settings = unjudged(NORMALIZATION, enable=enabled, ratioModel=ratios, defaultRatio=default)
    on = node(labels={} if label is None else {ENABLED: label})
    nrt = topology(info=info(cpu, *switches)) if cpu is not None else topology()
    got = Bench("CPUNormalization").wanted(seen(on, settings, topology=nrt)).annotations
    truth = {"1": True, "F": False, None: enabled, "nonsense": None}[label]
    want = None if truth is None else model.normalization(truth, cpu, *switches, ratios, default)
    assert got == ({} if want is None else {SPEED: want})


@pytest.mark.parametrize(
    ("section", "speed", "text"),
    [
        ({"enable": True, "resourceAmplificationRatio": {"cpu": 1.22}}, None, '{"cpu":1.22}'),
        ({"enable": True, "resourceAmplificationRatio": {"cpu": 1.0}}, "2.00", '{"cpu":2.00}'),
        ({"enable": True, "resourceAmplificationRatio": {"memory": 1.5, "cpu": 1.5}}, "1.20",
         '{"cpu":1.80,"memory":1.50}'),
        ({"enable": False, "resourceAmplificationRatio": {"cpu": 3.0}}, "1.10", '{"cpu":1.10}'),
        ({"enable": False}, "1.00", None),
        ({"enable": True, "resourceAmplificationRatio": {"cpu": 0.5}}, None, None),
        ({"enable": True, "resourceAmplificationRatio": {"cpu": 1.5}}, "none", None),
    ],
)  # fmt: skip
def test_amplification_multiplies_with_the_nodes_speed(
    section: dict[str, Any], speed: str | None, text: str | None
) -> None:
    on = node(annotations={} if speed is None else {SPEED: speed})
    settings = unjudged(AMPLIFICATION, **section)
    wanted = Bench("ResourceAmplification").wanted(seen(on, settings))
    assert wanted.annotations == {AMPLIFIED: text}


def test_a_change_of_speed_counts_in_the_same_write() -> None:
    settings = config(cpu_normalization_config={"enable": True, "defaultRatio": 1.5})
    on = node(annotations={SPEED: "1.20"})
    wanted = Bench().wanted(seen(on, settings, topology=topology(info=info("x"))))
    assert wanted.annotations == {SPEED: "1.50", AMPLIFIED: '{"cpu":1.50}'}


@pytest.mark.parametrize("enabled", [True, False])
def test_what_nothing_asks_for_is_taken_away(enabled: bool) -> None:
    on = node(annotations={AMPLIFIED: '{"cpu":1.50}'})
    bench = Bench("ResourceAmplification")
    wanted = bench.wanted(seen(on), enabled)
    assert bench.plugins.meta_due(on, wanted)
    patch = meta_patch(on, wanted)
    assert patch is not None
    assert json.loads(patch.body)["metadata"]["annotations"] == {AMPLIFIED: None}


@given(
    enabled=st.booleans(),
    ratios=st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]),
                           st.sampled_from([-1.0, 0.0, 0.99, 1.0, 1.005, 1.3, 7.125])),
    speed=st.none() | st.sampled_from(["0.80", "1.00", "1.26"]),
)  # fmt: skip
def test_amplification_is_the_plain_models(
    enabled: bool, ratios: dict[str, float], speed: str | None
) -> None:
    settings = unjudged(AMPLIFICATION, enable=enabled, resourceAmplificationRatio=ratios)
    on = node(annotations={} if speed is None else {SPEED: speed})
    wanted = Bench("ResourceAmplification").wanted(seen(on, settings))
    text = wanted.annotations[AMPLIFIED]
    want = model.amplification(enabled, ratios, None if speed is None else float(speed))
    got = None if text is None else {k: f"{v:.2f}" for k, v in json.loads(text).items()}
    assert got == want
