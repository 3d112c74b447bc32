# SPDX-License-Identifier: Apache-2.0
"""A typing error in a configuration never offers what a machine does not have; all by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from koord.api.sloconfig.config import load
from koord.controllers.manager.overcommit.explain.breakdown import account
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit import objects
from tests.models import overcommit as model

GIB = 1 << 30
# 32 cores and 128 GiB, of which the kubelet holds back 1 core and 2 GiB; the system uses
# 2 cores and 8 GiB, and nothing else runs.
IDLE = model.Node(
    capacity=(32_000, 128 * GIB), allocatable=(31_000, 126 * GIB), strategy={},
    system=(2_000, 8 * GIB), used=(2_000, 8 * GIB),
)  # fmt: skip


def offers(strategy: dict[str, Any], case: model.Node = IDLE) -> tuple[Any, Any]:
    """Batch and mid as (milli-cores, GiB), by way of the ConfigMap."""
    text = json.dumps({"enable": True, **strategy})
    node = objects.node(case)
    found = OvercommitCache()
    found.put_node(node, load({"colocation-config": text}).colocation(node))
    found.put_metric(objects.metric(case))
    found.recompute(objects.NOW)
    told = account(found, 0)
    assert told.batch is not None
    assert told.mid is not None
    for each in (told.batch.cpu, told.batch.memory, told.mid.cpu, told.mid.memory):
        assert sum(line.amount for line in each.lines) == each.offered
    pairs = [objects.offered(found, kind) or (0, 0) for kind in ("batch", "mid")]
    batch, mid = ((cpu, round(memory / GIB, 3)) for cpu, memory in pairs)
    return batch, mid


@pytest.mark.parametrize(
    ("strategy", "batch", "mid"),
    [
        # 165 percent of 128 GiB less 8 were 203; 60 percent of 32 cores less 2 are 17.2.
        ({"memoryReclaimThresholdPercent": 165}, (17_200, 120), (0, 0)),
        ({"memoryReclaimThresholdPercent": 100}, (17_200, 120), (0, 0)),
        # All that nobody asks for, but what is reserved.
        ({"cpuCalculatePolicy": "requestRatio", "memoryCalculatePolicy": "requestRatio",
          "overcommitRatioPercent": 100}, (31_000, 126), (0, 0)),
        # 75 percent fixed for mid, 24 cores and 96 GiB; batch would have 17.2 cores and 75.2 GiB.
        ({"midReclaimMode": "static", "midStaticCPUReservedPercent": 75,
          "midStaticMemoryReservedPercent": 75}, (7_000, 30), (24_000, 96)),
        ({"midReclaimMode": "static", "midStaticCPUReservedPercent": 750,
          "midStaticMemoryReservedPercent": 750}, (0, 0), (31_000, 126)),
    ],
)  # fmt: skip
def test_no_more_than_the_machine_has(strategy: dict[str, Any], batch: Any, mid: Any) -> None:
    assert offers(strategy) == (batch, mid)


def test_amplified_native_resources_are_another_thing() -> None:
    """Allocatable is what it was amplified to; raw, the kubelet holds back 1 core and 2 GiB."""
    amplified = replace(IDLE, allocatable=(62_000, 252 * GIB), raw=(31_000, 126 * GIB))
    fixed = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 100}
    assert offers(fixed, amplified) == ((0, 75.2), (31_000, 0))


def test_the_account_says_what_bounds_an_offer() -> None:
    strategy = {"midReclaimMode": "static", "midStaticMemoryReservedPercent": 100}
    node, found = objects.node(IDLE), OvercommitCache()
    text = json.dumps({"enable": True, **strategy})
    found.put_node(node, load({"colocation-config": text}).colocation(node))
    found.put_metric(objects.metric(IDLE))
    found.recompute(objects.NOW)
    told = account(found, 0)
    assert told.batch is not None
    assert told.mid is not None
    lines = {line.what: line.amount / GIB for line in told.batch.memory.lines}
    assert round(lines["besideMid"], 3) == -75.2
    assert [(line.what, line.amount // GIB) for line in told.mid.memory.lines] == [
        ("static", 128), ("besideReserved", -2)
    ]  # fmt: skip
