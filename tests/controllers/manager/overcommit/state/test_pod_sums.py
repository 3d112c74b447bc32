# SPDX-License-Identifier: Apache-2.0
"""What pods take is summed up when pods or zones change, and not when a strategy does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit import objects
from tests.controllers.manager.overcommit.cases import GIB
from tests.models import overcommit as model

PODS = [
    model.Pod("web", qos_label="LS", request=(9_000, 7 * GIB)),
    model.Pod("db", qos_label="LSE", request=(8_000, GIB), numa=[1]),
]
CASE = model.Node(
    (64_000, 128 * GIB), (64_000, 128 * GIB), {"enable": True},
    pods=PODS, metrics={"web": model.Metric((3_500, 5 * GIB))}, used=(5_000, 6 * GIB),
    zones=[model.Zone(number, (32_000, 64 * GIB)) for number in range(2)],
)  # fmt: skip
NAMES = ("a", "b", "c")
STRATEGY = {"enable": True, "cpuReclaimThresholdPercent": 40, "midUnallocatedPercent": 30}


def cache(case: model.Node) -> OvercommitCache:
    found = OvercommitCache()
    for name in NAMES:
        objects.put(found, case, name)
    found.recompute(objects.NOW)
    return found


def assert_same(one: OvercommitCache, other: OvercommitCache) -> None:
    for name in NAMES:
        row, at = one.row(name), other.row(name)
        assert np.array_equal(one.batch.amounts[:, row], other.batch.amounts[:, at])
        assert np.array_equal(one.mid.amounts[:, row], other.mid.amounts[:, at])
        assert np.array_equal(one.zone_amounts[..., row], other.zone_amounts[..., at])


def test_a_new_strategy_asks_for_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    found, fresh = cache(CASE), cache(replace(CASE, strategy=STRATEGY))

    def terms(*given: object) -> None:
        raise AssertionError("pods are looked at")

    monkeypatch.setattr(found.residents, "terms", terms)
    strategy = objects.strategy(STRATEGY)
    found.set_strategies(lambda node: strategy)
    assert len(found.recompute(objects.NOW)) == len(NAMES)
    assert_same(found, fresh)


def test_a_new_zone_divides_pods_anew() -> None:
    more = replace(CASE, zones=[*CASE.zones, model.Zone(2, (32_000, 64 * GIB))])
    found, fresh = cache(CASE), cache(more)
    for name in NAMES:
        found.put_topology(objects.topology(more, name))
    found.recompute(objects.NOW)
    assert_same(found, fresh)
