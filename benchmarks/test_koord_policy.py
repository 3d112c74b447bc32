# SPDX-License-Identifier: Apache-2.0
"""The koord policy against its plain model: a small cluster filled from nothing."""

from __future__ import annotations

from benchmarks.conftest import Gate
from tests.kernels.test_koord_policy import place_all, place_all_plainly
from tests.models.koord_policy import Node, Pod

NODES = [Node([96_000, 384], [1000] * 8, model) for model in ["T4", "G2", "G2", "P100"] * 5]
SHAPES = [
    Pod((8_000, 16)),
    Pod((3_000, 8), 1, 810),
    Pod((12_000, 32), 1, 470),
    Pod((11_000, 48), 1, 1000),
    Pod((4_000, 16), 1, 320, ("T4",)),
]
ARRIVALS = SHAPES * 40


def test_filling_a_cluster(gate: Gate) -> None:
    gate(
        "koord policy: 200 pods on 20 nodes",
        lambda: place_all(NODES, SHAPES, ARRIVALS),
        lambda: place_all_plainly(NODES, SHAPES, ARRIVALS),
        30,
    )
