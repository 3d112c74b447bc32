# SPDX-License-Identifier: Apache-2.0
"""Peak prediction: worked figures, the model of the rule, training, and files that survive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.reader import SeriesRows, Window
from koord.agent.prediction.checkpoints import Checkpoints
from koord.agent.prediction.reclaimable import ELIGIBLE, PredictedPod, predict
from koord.agent.prediction.training import train
from koord.agent.prediction.usage_models import (
    NODE,
    SYSTEM,
    PeakUsage,
    PredictionOptions,
    UsageModels,
    class_model,
)
from koord.agent.states.pod_state import PodState, pod_state
from koord.api.kinds.pod import Pod
from koord.api.objects import decode_as
from koord.api.protocol.priority import PriorityClass
from koord.base import faults
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import Driver
from tests.models import prediction as model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NOW_MS = 1_700_000_000_000
DAY = 24 * 3600.0
GIB = 2**30


class Fixed:
    """Peaks that a test chooses, in the place of trained models."""

    def __init__(self, peaks: Mapping[str, PeakUsage], margin_percent: int = 10) -> None:
        self.options = PredictionOptions(safety_margin_percent=margin_percent)
        self.peaks = peaks

    def peak(self, name: str, percentile: str) -> PeakUsage | None:
        assert percentile in ("p95", "p98")
        return self.peaks.get(name)


def prod(uid: str, cpu_milli: int, age_seconds: float = 2 * DAY) -> PredictedPod:
    return PredictedPod(uid, PriorityClass.PROD, age_seconds, False, PeakUsage(cpu_milli, GIB))


def with_system(peaks: dict[str, PeakUsage]) -> dict[str, PeakUsage]:
    return {
        SYSTEM: PeakUsage(0, 0),
        **{class_model(name): PeakUsage(0, 0) for name in ELIGIBLE},
        **peaks,
    }


def test_what_a_pod_asked_for_and_does_not_use_is_reclaimable() -> None:
    models: Any = Fixed(with_system({"a": PeakUsage(5000, 0)}))
    found = predict(models, [prod("a", 10_000)], PeakUsage(96_000, 100 * GIB))
    assert (found.reclaimable.cpu_milli, found.peak.cpu_milli) == (4500, 5500)


def test_young_pods_count_as_used_up() -> None:
    models: Any = Fixed(with_system({"a": PeakUsage(5000, 0)}))
    found = predict(models, [prod("a", 10_000, age_seconds=DAY)], PeakUsage(96_000, 100 * GIB))
    assert (found.reclaimable, found.peak) == (PeakUsage(0, 0), PeakUsage(10_000, GIB))


def test_a_class_without_a_model_is_an_error() -> None:
    models: Any = Fixed({SYSTEM: PeakUsage(0, 0)})
    with pytest.raises(KoordError, match="one trained before a prediction"):
        predict(models, [], PeakUsage(1000, GIB))


amounts = st.tuples(st.integers(0, 200_000), st.integers(0, 2**38))
pods = st.lists(
    st.fixed_dictionaries(
        {
            "uid": st.sampled_from("abcde"),
            "eligible": st.booleans(),
            "age": st.sampled_from([0.0, DAY, DAY + 1]),
            "ended": st.booleans(),
            "request": amounts,
        }
    ),
    max_size=6,
)


@given(pods, st.dictionaries(st.sampled_from("abcd"), amounts), amounts, st.data())
def test_prediction_equals_its_model(
    chosen: list[dict[str, Any]],
    peaks: dict[str, tuple[int, int]],
    allocatable: tuple[int, int],
    data: st.DataObject,
) -> None:
    # A margin of 25 % is exact in binary, so that the model may use fractions.
    names = [SYSTEM, *map(class_model, ELIGIBLE)]
    others = data.draw(st.lists(amounts, min_size=len(names), max_size=len(names)))
    known = {**peaks, **dict(zip(names, others, strict=True))}
    models: Any = Fixed({name: PeakUsage(*peak) for name, peak in known.items()}, 25)
    seen = [
        PredictedPod(
            pod["uid"],
            PriorityClass.PROD if pod["eligible"] else PriorityClass.BATCH,
            pod["age"],
            pod["ended"],
            PeakUsage(*pod["request"]),
        )
        for pod in chosen
    ]
    found = predict(models, seen, PeakUsage(*allocatable))
    expected = model.predict(chosen, peaks, others, allocatable, 25, DAY)
    assert (tuple(found.reclaimable), tuple(found.peak)) == expected


class Measured:
    """A metric cache that holds one 90th percentile a series."""

    def __init__(self, values: Mapping[MetricKind, Mapping[tuple[str, ...], float]]) -> None:
        self._values = values
        self.windows: set[Window] = set()

    def read(
        self,
        kind: MetricKind,
        window: Window,
        percentiles: Sequence[float] = (),
        match: Sequence[str | None] = (),
    ) -> SeriesRows:
        assert tuple(percentiles) == (0.9,)
        self.windows.add(window)
        found = self._values.get(kind, {})
        column = np.array(list(found.values()))
        count = np.ones(len(found), np.int64)
        return SeriesRows(list(found), column, column, count, count, count, column.reshape(-1, 1))

    def last_window(self, now_ms: int) -> Window:
        raise AssertionError("training reads its own window")


def state(name: str, priority: int) -> PodState:
    meta = {"name": name, "namespace": "d", "uid": name}
    document = {"metadata": meta, "spec": {"priority": priority}, "status": {"phase": "Running"}}
    return pod_state(decode_as(document, Pod), CgroupLayout(Driver.CGROUPFS))


def test_a_round_feeds_pods_classes_node_and_system() -> None:
    models = UsageModels()
    measured = Measured(
        {
            MetricKind.POD_CPU_USAGE: {("a",): 1.0, ("b",): 2.0, ("c",): 4.0},
            MetricKind.POD_MEMORY_USAGE: {("a",): 1e9, ("b",): 2e9},
            MetricKind.NODE_CPU_USAGE: {(): 5.0},
            MetricKind.NODE_MEMORY_USAGE: {(): 4e9},
        }
    )
    pods = [state("a", 9500), state("b", 5500), state("c", 9500)]
    train(models, measured, pods, NOW_MS)
    assert measured.windows == {Window(NOW_MS - 60_000, NOW_MS)}
    classes = [class_model(name) for name in PriorityClass]
    assert sorted(models.by_name) == sorted(["a", "b", NODE, SYSTEM, *classes])

    def cpu(name: str) -> float:
        peak = models.peak(name, "max")
        assert peak is not None
        return peak.cpu_milli / 1000

    # A percentile is the end of a bucket, at most 5 % and a first bucket above the value.
    for name, cores in (
        ("a", 1.0), (class_model("koord-prod"), 1.0), (class_model("koord-batch"), 2.0),
        (NODE, 5.0), (SYSTEM, 2.0), (class_model("koord-mid"), 0.0),
    ):  # fmt: skip
        assert cores <= cpu(name) <= cores * 1.05 + 0.03, name


def test_one_sample_of_a_tenth_of_a_core() -> None:
    models = UsageModels()
    models.add("a", 0.1, 0.0, NOW_MS)
    # Bucket 4 ends at 0.025 * (1.05^4 - 1) / 0.05 = 0.10775 cores.
    assert models.peak("a", "p60") == PeakUsage(107, 5 * 2**20)


def test_models_without_samples_are_forgotten_with_their_files(tmp_path: Path) -> None:
    models, files = UsageModels(), Checkpoints(tmp_path)
    files.restore(models, ())
    models.add("old", 1.0, 1e9, NOW_MS)
    assert files.step(models, NOW_MS) == ["old"]
    later = NOW_MS + 1_800_001
    models.add("new", 1.0, 1e9, later)
    assert files.step(models, later) == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_the_oldest_checkpoints_come_first_and_not_too_many(tmp_path: Path) -> None:
    models, files = UsageModels(PredictionOptions(checkpoints_per_step=2)), Checkpoints(tmp_path)
    for name in "abc":
        models.add(name, 1.0, 1e9, NOW_MS)
    steps = [files.step(models, NOW_MS + at * 60_000) for at in range(3)]
    assert steps == [["a", "b"], ["c"], []]
    assert files.step(models, NOW_MS + 600_000) == ["a", "b"]


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    models = UsageModels()
    for at in range(100):
        models.add("a", 0.5 + at / 100, 1e9 + at * 1e7, NOW_MS + at * 60_000)
    now_ms = NOW_MS + 6_000_000
    Checkpoints(tmp_path).step(models, now_ms)
    again = UsageModels()
    assert Checkpoints(tmp_path).restore(again, {"a"}) == ["a"]
    for percentile in ("p60", "p90", "p95", "p98", "max"):
        assert again.peak("a", percentile) == models.peak("a", percentile)
    assert again.by_name["a"].updated_ms == models.by_name["a"].updated_ms


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: text.replace('"totalWeight": ', '"totalWeight": 7'),
        lambda text: "[]",
        lambda text: json.dumps({"version": 1, "crc32": 0, "model": {}}),
    ],
)
def test_what_cannot_be_read_is_deleted(tmp_path: Path, damage: Any) -> None:
    models, files = UsageModels(), Checkpoints(tmp_path)
    models.add("a", 1.0, 1e9, NOW_MS)
    models.add("b", 1.0, 1e9, NOW_MS)
    files.step(models, NOW_MS)
    path = tmp_path / "a"
    text = path.read_text()
    assert damage(text) != text
    path.write_text(damage(text))
    (tmp_path / "b.tmp").write_text("half")
    (tmp_path / "stranger").write_text("{}")
    again = UsageModels()
    assert files.restore(again, {"a", "b"}) == ["b"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("where", ["agent.prediction.sync", "agent.prediction.rename"])
def test_a_write_that_is_cut_off_leaves_the_old_checkpoint(tmp_path: Path, where: str) -> None:
    models, files = UsageModels(), Checkpoints(tmp_path)
    models.add("a", 1.0, 1e9, NOW_MS)
    files.step(models, NOW_MS)
    before = (tmp_path / "a").read_bytes()
    models.add("a", 9.0, 9e9, NOW_MS + 600_000)
    plan = faults.FaultPlan(
        1, {where: faults.FaultRule(1.0, OSError(28, "No space left on device"))}
    )
    with faults.inject(plan), pytest.raises(OSError, match="No space"):
        files.step(models, NOW_MS + 600_000)
    assert (tmp_path / "a").read_bytes() == before
    again = UsageModels()
    assert files.restore(again, {"a"}) == ["a"]
