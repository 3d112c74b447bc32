# SPDX-License-Identifier: Apache-2.0
"""Random nodes with their pods, reports and strategies, as the model describes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.models import overcommit as model

GIB = 1 << 30
# Most nodes have something left to offer, some are overfull.
pairs = st.tuples(st.integers(0, 6_000), st.integers(0, 12 * GIB))
machines = st.tuples(st.integers(30_000, 128_000), st.integers(60 * GIB, 512 * GIB))
percents = st.integers(0, 100)
# Now and then a typing error.
shares = st.one_of(percents, percents, percents, st.integers(101, 2**40))
over = st.one_of(st.none(), st.integers(0, 130))
classes = st.sampled_from([None, *model.BANDS, "strange"])
said = st.sampled_from(["", *model.BANDS])

pods = st.builds(
    model.Pod,
    name=st.just(""),
    phase=st.sampled_from(["Running", "Running", "Running", "Pending", "Succeeded", "Failed"]),
    class_label=classes,
    priority=st.sampled_from([None, 0, 3500, 5500, 7500, 9500]),
    qos_label=st.sampled_from([None, None, "LSE", "LSR", "LS", "BE", "SYSTEM"]),
    kubernetes_qos=st.sampled_from(list(model.OF_KUBERNETES)),
    request=pairs,
    mid_request=st.sampled_from([(0, 0), (1500, GIB + 1)]),
    numa=st.one_of(st.none(), st.lists(st.integers(-1, 12), max_size=3, unique=True)),
)
metrics = st.builds(model.Metric, used=pairs, priority=said)
strategies = st.fixed_dictionaries(
    {"enable": st.sampled_from([True] * 15 + [False])},
    optional={
        "cpuReclaimThresholdPercent": st.one_of(st.integers(40, 100), shares),
        "memoryReclaimThresholdPercent": st.one_of(st.integers(40, 100), shares),
        "cpuCalculatePolicy": st.sampled_from(
            ["usage", "request", "maxUsageRequest", "requestRatio", "other"]
        ),
        "memoryCalculatePolicy": st.sampled_from(
            ["usage", "request", "maxUsageRequest", "requestRatio", "other"]
        ),
        "overcommitRatioPercent": percents,
        "degradeTimeMinutes": st.integers(1, 3),
        "midReclaimMode": st.sampled_from(["static", "dynamic"]),
        "midCPUThresholdPercent": percents,
        "midMemoryThresholdPercent": percents,
        "midUnallocatedPercent": percents,
        "midStaticCPUReservedPercent": shares,
        "midStaticMemoryReservedPercent": shares,
        "batchCPUThresholdPercent": st.one_of(st.integers(10, 100), shares),
        "batchMemoryThresholdPercent": st.one_of(st.integers(10, 100), shares),
    },
)


@st.composite
def zones(draw: st.DrawFn) -> list[model.Zone]:
    numbers = draw(st.lists(st.integers(0, 11), max_size=3, unique=True))
    told = draw(st.sampled_from(["all", "none", "some"]))
    found = []
    for number in numbers:
        telling = told == "all" or (told == "some" and draw(st.booleans()))
        found.append(model.Zone(number, draw(machines), draw(pairs) if telling else None))
    return found


@st.composite
def nodes(draw: st.DrawFn) -> model.Node:
    capacity = draw(machines)
    here = [
        replace(each, name=f"p{at}") for at, each in enumerate(draw(st.lists(pods, max_size=6)))
    ]
    counted = [each for each in here if each.phase in ("Running", "Pending")]
    measured = {each.name: draw(metrics) for each in counted if draw(st.booleans())}
    given: dict[str, Any] = draw(strategies)
    return model.Node(
        capacity=capacity,
        allocatable=draw(st.one_of(st.just(capacity), machines)),
        strategy=given,
        raw=draw(st.one_of(st.none(), st.just(capacity), machines)),
        reserved=draw(st.one_of(st.just((0, 0)), pairs)),
        reserved_cpus=draw(st.one_of(st.none(), st.integers(1, 9))),
        age_seconds=draw(st.sampled_from([0] * 20 + [None, 60, 61, 901])),
        body=draw(st.sampled_from([True] * 15 + [False])),
        system=draw(pairs),
        used=draw(st.one_of(st.none(), pairs)),
        reclaimable=draw(st.one_of(st.none(), pairs)),
        hosts=draw(st.lists(st.tuples(said, pairs), max_size=2)),
        pods=here,
        metrics=measured,
        dangling=draw(st.lists(metrics, max_size=2)),
        zones=draw(zones()),
    )
