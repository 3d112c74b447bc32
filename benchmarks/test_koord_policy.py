# SPDX-License-Identifier: Apache-2.0
"""The koord policy against its plain model: one pod of each shape among 200 nodes."""

from __future__ import annotations

from benchmarks.conftest import Gate
from koord.kernels.placement import Placer
from tests.kernels.test_koord_policy import shape_of, table_of
from tests.models.koord_policy import Node, Pod, Policy

NODES = [Node([96_000, 384], [1000] * 8, model) for model in ["T4", "G2", "G2", "P100"] * 50]
SHAPES = [
    Pod((8_000, 16)),
    Pod((3_000, 8), 1, 810),
    Pod((12_000, 32), 1, 470),
    Pod((11_000, 48), 1, 1000),
    Pod((4_000, 16), 1, 320, ("T4",)),
]


def test_place_and_remove(gate: Gate) -> None:
    table = table_of(NODES)
    placer = Placer(table, "koord")
    ids = [shape_of(table, pod) for pod in SHAPES]
    policy = Policy(SHAPES)

    def ours() -> None:
        for shape in ids:
            placed = placer.place(shape)
            assert placed is not None
            table.remove(placed)

    def plain() -> None:
        for pod in SHAPES:
            policy.arrived(NODES, pod)
            assert policy.choose(NODES, pod) is not None

    gate("placement: koord policy, 5 pods among 200 nodes", ours, plain, 200)
