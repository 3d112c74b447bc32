# SPDX-License-Identifier: Apache-2.0
"""The worked examples of docs/reference/overcommit.md, number by number."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.controllers.manager.overcommit.objects import ledger, offered
from tests.controllers.manager.overcommit.test_model import zones
from tests.models import overcommit as model

GB = 10**9


def cores(number: float, gigabytes: float) -> model.Pair:
    return int(number * 1000), int(gigabytes * GB)


PODS = [
    model.Pod("a", qos_label="LS", request=cores(20, 20)),
    model.Pod("b", qos_label="BE", request=cores(10, 10)),
    model.Pod("c", phase="Pending", request=cores(20, 40)),
    model.Pod("d", phase="Succeeded", request=cores(10, 10)),
]
METRICS = {
    "a": model.Metric(cores(11, 11)),
    "b": model.Metric(cores(10, 10)),
    "c": model.Metric(cores(22, 22)),
}
STRATEGY = {
    "enable": True, "cpuReclaimThresholdPercent": 65, "memoryReclaimThresholdPercent": 65,
}  # fmt: skip
NODE = model.Node(
    cores(100, 120), cores(100, 120), STRATEGY, system=cores(7, 12), used=cores(50, 55),
    pods=PODS, metrics=METRICS,
)  # fmt: skip


def saying(**more: Any) -> dict[str, Any]:
    return {**STRATEGY, **more}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (NODE, cores(25, 33)),
        (replace(NODE, strategy=saying(memoryCalculatePolicy="request")), cores(25, 18)),
        (replace(NODE, strategy=saying(cpuCalculatePolicy="request")), cores(25, 33)),
        (replace(NODE, reserved_cpus=20), cores(12, 33)),
        (replace(NODE, reserved=cores(20, 0), reserved_cpus=10), cores(22, 33)),
        # Kubelet's reservation: the larger of it and the annotation's.
        (replace(NODE, allocatable=cores(70, 120), reserved_cpus=20), cores(2, 33)),
        (replace(NODE, strategy=saying(batchCPUThresholdPercent=20)), cores(20, 33)),
    ],
)  # fmt: skip
def test_batch(case: model.Node, expected: model.Pair) -> None:
    assert offered(ledger(case), "batch") == expected


@pytest.mark.parametrize(
    ("requested", "expected"), [(100, 8_400), (80, 14_400), (128, 0), (140, 0)]
)
def test_the_guides_ratio_of_what_is_not_requested(requested: int, expected: int) -> None:
    ratio = saying(cpuCalculatePolicy="requestRatio")
    pods = [
        model.Pod("a", qos_label="LS", request=cores(requested, 1)),
        model.Pod("be", qos_label="BE", request=cores(50, 1)),
        model.Pod("mid", class_label="koord-mid", qos_label="LS", mid_request=cores(9, 1)),
    ]
    case = model.Node(cores(128, 100), cores(128, 100), ratio, pods=pods)
    offer = offered(ledger(case), "batch")
    assert offer is not None
    assert offer[0] == expected


def test_two_zones() -> None:
    """docs/reference/overcommit.md#worked-example-zones.

    50 - 17.5 - 3.5 - 27 = 2 cores and 50 - 17.5 - 3.5 - 17 = 12, 14 in all; by request
    62 - 21.7 - 35 = 5.3 GB and 58 - 20.3 - 25 = 12.7 GB.
    """
    pods = [
        model.Pod("a", qos_label="LSR", request=cores(20, 10), numa=[0]),
        model.Pod("b", qos_label="LS", request=cores(20, 20), numa=[0, 1]),
        model.Pod("c", qos_label="LS", request=cores(20, 30)),
    ]
    metrics = {
        "a": model.Metric(cores(10, 0)),
        "b": model.Metric(cores(12, 0)),
        "c": model.Metric(cores(22, 0)),
    }
    case = model.Node(
        cores(100, 120), cores(100, 120), saying(memoryCalculatePolicy="request"),
        system=cores(7, 12), pods=pods, metrics=metrics,
        zones=[model.Zone(0, cores(50, 62)), model.Zone(1, cores(50, 58))],
    )  # fmt: skip
    found = ledger(case)
    expected = {0: (2_000, 5_300_000_000), 1: (12_000, 12_700_000_000)}
    assert zones(found) == {n: (Fraction(c), Fraction(m)) for n, (c, m) in expected.items()}
    assert offered(found, "batch") == cores(14, 18)


@pytest.mark.parametrize(("percent", "expected"), [(0, (0, 0)), (50, cores(40, 80))])
def test_mid(percent: int, expected: model.Pair) -> None:
    """docs/reference/overcommit.md#mid-resources.

    Nothing reclaimable, 80 cores and 160 GB that nobody asked for.
    """
    case = model.Node(
        cores(100, 210), cores(100, 200), saying(midUnallocatedPercent=percent),
        used=cores(30, 50), reclaimable=(0, 0),
        pods=[model.Pod("a", class_label="koord-prod", request=cores(20, 40))],
    )  # fmt: skip
    assert offered(ledger(case), "mid") == expected


def test_lse_keeps_its_cpu_and_lsr_lends_it() -> None:
    for qos, left in (("LSE", 100 - 35 - 40), ("LSR", 100 - 35 - 4)):
        case = model.Node(
            cores(100, 100), cores(100, 100), STRATEGY,
            pods=[model.Pod("a", qos_label=qos, request=cores(40, 10))],
            metrics={"a": model.Metric(cores(4, 5))},
        )  # fmt: skip
        assert offered(ledger(case), "batch") == cores(left, 100 - 35 - 5)


def test_mid_pods_under_request() -> None:
    """What a mid pod asks for under the names of mid counts.

    Rule: docs/reference/overcommit.md#pods-that-count.
    """
    pod = model.Pod("m", class_label="koord-mid", qos_label="LS", mid_request=cores(10, 20))
    case = model.Node(
        cores(100, 100), cores(100, 100), saying(memoryCalculatePolicy="request"), pods=[pod]
    )
    assert offered(ledger(case), "batch") == cores(100 - 35 - 10, 100 - 35 - 20)


def test_amplified_nodes_count_as_they_are() -> None:
    """What the kubelet reserves shows only against raw allocatable.

    Rule: docs/reference/overcommit.md#node-capacity-and-reservation.
    """
    case = model.Node(
        cores(100, 100), cores(188, 90), STRATEGY, raw=cores(94, 90), system=cores(1, 1)
    )
    assert offered(ledger(case), "batch") == cores(100 - 35 - 6, 100 - 35 - 10)
