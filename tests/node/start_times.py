# SPDX-License-Identifier: Apache-2.0
"""How long containers take to be made and started, several ways in turn."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.node.cri import CriClient, CriPod


class Way(NamedTuple):
    """Who is asked to make containers, and where.

    Attributes:
        client: who.
        sandbox: of the pod, as that one knows it.
        pod: which.
    """

    client: CriClient
    sandbox: str
    pod: CriPod


def in_turn(
    ways: dict[str, Way], starts: int, command: list[str], **resources: Any
) -> dict[str, list[float]]:
    """Milliseconds of creation and start; each container ends before the next is made.

    Whoever is first changes each time, so that what one leaves to be done is a burden to all alike.
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(starts):
        names = list(ways)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            way = ways[name]
            began = time.perf_counter()
            container = way.client.create(way.sandbox, way.pod, command, **resources)
            way.client.start(container)
            taken[name].append(1000 * (time.perf_counter() - began))
            way.client.end(container)
    return taken


def compared(taken: dict[str, list[float]], base: str) -> dict[str, dict[str, float]]:
    """Of each way its times, and beside the base: medians' ratio, and the median of differences.

    The two of a difference were measured one after the other: the rest of the machine is in both.
    """
    return {
        name: {
            "starts": len(times),
            **{key: round(of(times), 1) for key, of in _FIGURES.items()},
            "ratio": round(statistics.median(times) / statistics.median(taken[base]), 3),
            "more": round(statistics.median(map(float.__sub__, times, taken[base])), 2),
        }
        for name, times in taken.items()
    }


def _quantile(share: float) -> Callable[[list[float]], float]:
    return lambda times: sorted(times)[max(0, math.ceil(share * len(times)) - 1)]


_FIGURES: dict[str, Callable[[list[float]], float]] = {
    "p10": _quantile(0.10), "median": statistics.median, "p99": _quantile(0.99),
}  # fmt: skip
