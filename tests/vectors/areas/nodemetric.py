# SPDX-License-Identifier: Apache-2.0
"""NodeMetric: the status that is reported from samples and from what was learned."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from random import Random
from typing import Any

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples
from koord.agent.metrics.storage.metric_cache import MetricCache
from koord.agent.prediction.usage_models import UsageModels
from koord.agent.report.reporters import MetricReporter
from koord.agent.states.effective_specs import effective_metric_spec
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.api import codec
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.objects import decode_as
from koord.base.clock import VirtualClock
from koord.kernels.quantity import Quantity, Rounding
from tests.vectors.agent.scene import node_of, slo_of, state
from tests.vectors.area import Difference
from tests.vectors.reports import nodemetric_cases

SEED = 20272
_COUNT = 320
_NOW_MS = 1_700_000_000_000


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Nodes with samples of half an hour."""
    return [nodemetric_cases.case(rng) for _ in range(_COUNT)]


def answer(case: dict[str, Any]) -> object:
    """The status without what is empty in it, and without its time; None for none."""
    for pod in case["pods"]:
        created = _NOW_MS // 1000 - case["ages"][pod["metadata"]["uid"]]
        at = datetime.fromtimestamp(created, UTC)
        pod["metadata"]["creationTimestamp"] = at.isoformat().replace("+00:00", "Z")
    received = decode_as({"metadata": {"name": "n"}, "spec": case["spec"]}, NodeMetric)
    snapshot = Snapshot(
        node=Timestamped(node_of(case)),
        pods=Timestamped(tuple(state(pod) for pod in case["pods"])),
        slo=Timestamped(None if case["slo"] is None else slo_of(case)),
        metric_spec=Timestamped(effective_metric_spec(received.spec)),
    )  # fmt: skip
    reporter = MetricReporter(
        None, _States(snapshot), _measured(case), _learned(case), None,  # type: ignore[arg-type]
        VirtualClock(_NOW_MS / 1000), cold_pages=case["coldPages"],
    )  # fmt: skip
    found = reporter.status()
    if found is None:
        return None
    told = codec.to_document(found)
    del told["updateTime"]
    return _pruned(json.loads(json.dumps(told)))


class _States:
    """What the agent knows of the cluster, once and for all."""

    def __init__(self, of: Snapshot) -> None:
        self._of = of

    def snapshot(self) -> Snapshot:
        return self._of

    def subscribe(self, *about: Any) -> None:
        raise NotImplementedError


def _pruned(of: Any) -> Any:
    """Without what is empty; a list keeps its places."""
    if isinstance(of, dict):
        kept = {key: _pruned(each) for key, each in of.items()}
        return {key: each for key, each in kept.items() if each is not None} or None
    if isinstance(of, list):
        return [_pruned(each) for each in of] or None
    return None if of == "" else of


def _measured(case: dict[str, Any]) -> MetricCache:
    rounds: dict[int, Samples] = {}
    oldest = max(
        each[0] for rows in case["series"].values() for row in rows for each in row["samples"]
    )
    for card in case["gpus"] or []:
        # koord measures how much memory a card has.
        labels = [str(card["minor"]), card["uuid"]]
        samples = [[at, card["bytes"]] for at in (oldest, 0)]
        row = {"labels": labels, "samples": samples}
        case["series"].setdefault(MetricKind.NODE_GPU_MEMORY_TOTAL.value, []).append(row)
    found: dict[int, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for kind, rows in case["series"].items():
        for row in rows:
            for age, value in row["samples"]:
                found[age][kind].append((tuple(row["labels"]), value))
    cache = MetricCache()
    for age in sorted(found, reverse=True):
        samples_at = rounds.setdefault(age, Samples(_NOW_MS - age))
        for kind, measured in found[age].items():
            keys = tuple(labels for labels, _ in measured)
            samples_at.add(MetricKind(kind), keys, [value for _, value in measured])
        cache.append(samples_at)
    return cache


def _learned(case: dict[str, Any]) -> UsageModels:
    models = UsageModels()
    for name, samples in case["learned"].items():
        for ago, cpu, memory in samples:
            models.add(name, cpu, memory, _NOW_MS - 1000 * int(ago))
    return models


def _unmeasured(case: Any, theirs: Any, ours: Any) -> bool:
    """Whether the original tells of a node without what it uses."""
    return ours is None and "nodeUsage" not in theirs["nodeMetric"]


def _same_buckets(case: Any, theirs: Any, ours: Any) -> Any:
    """Predicted amounts as koord has them, where no more than the last units differ."""
    copy = json.loads(json.dumps(theirs))
    for name in ("prodPeakMetric", "prodReclaimableMetric") if ours else ():
        told, own = (
            each.get(name, {}).get("resource", {}).get("resources", {}) for each in (copy, ours)
        )
        for resource in told.keys() & own.keys():
            one, other = (Quantity.parse(each[resource]) for each in (told, own))
            unit = Quantity.from_milli(1) if resource == "cpu" else Quantity.from_value(1)
            if abs(one.milli(Rounding.UP) - other.milli(Rounding.UP)) <= 3 * unit.milli(
                Rounding.UP
            ):
                told[resource] = own[resource]
    return copy


DIFFERENCES = {
    "measuring-histogram-buckets": Difference(
        "the original's buckets start a last bit elsewhere, and peaks are whole units of that",
        adjusted=_same_buckets,
    ),
    "reports-unmeasured-node": Difference(
        "the original reports a node that was not measured, as one that uses nothing",
        _unmeasured,
    ),
}  # fmt: skip

_NULL = "what is left is a NodeMetric that is null"
_STORE = "what is left are failures of the store of samples"
COVERAGE = {
    f"states_nodemetric.go:{name}": _STORE
    for name in (
        "collectNUMAResourceUsage", "collectNodeGPUMetric", "collectPodGPUMetric",
        "collectPodMetric", "doQuery", "fillGPUMetrics",
    )
} | {"states_nodemetric.go:updateMetricSpec": _NULL}  # fmt: skip
