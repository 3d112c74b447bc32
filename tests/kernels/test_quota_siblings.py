# SPDX-License-Identifier: Apache-2.0
"""Many siblings changed one by one, against the plain model of the sharing.

With 64 siblings or more the tree keeps those that ask for more than their floor in order and looks
at few of them after a change; with more different weights than it keeps apart it looks at all.
"""

from __future__ import annotations

from random import Random

import pytest

from koord.kernels.quota import GroupSpec, QuotaTree
from tests.models.quota import Child, water_fill

SIBLINGS, STEPS = 70, 25


def check(tree: QuotaTree, total: int, children: dict[str, Child]) -> None:
    expected = water_fill(total, list(children.values()))
    assert {name: tree.runtime(name)["cpu"] for name in children} == expected


@pytest.mark.parametrize("weights", [1, 3, 100])
@pytest.mark.parametrize("most", [7, 100_000])
def test_one_change_after_another(weights: int, most: int) -> None:
    draw = Random(weights * most)
    total = SIBLINGS * most // 3
    tree, children = QuotaTree({"cpu": total}), dict[str, Child]()
    for index in range(SIBLINGS):
        child = Child(
            f"g{index}", 1 + draw.randrange(weights), 0, draw.randrange(most // 5 + 1),
            priority=int(draw.random() < 0.2),
        )  # fmt: skip
        children[child.name] = child
        tree.add(
            child.name,
            GroupSpec(min={"cpu": child.floor}, max={"cpu": 10 * most},
                      weight={"cpu": child.weight}, priority=child.priority),
        )  # fmt: skip
    for _ in range(3 * SIBLINGS // 2 + STEPS):
        child = children[f"g{draw.randrange(SIBLINGS)}"]
        asked = draw.randrange(most)
        tree.add_request(child.name, {"cpu": asked - child.request})
        children[child.name] = Child(
            child.name, child.weight, asked, child.floor, priority=child.priority
        )
        tree.runtime(child.name)
    check(tree, total, children)
    for _ in range(STEPS):
        total = draw.randrange(SIBLINGS * most // 5 + SIBLINGS, SIBLINGS * most)
        tree.set_total({"cpu": total})
        check(tree, total, children)
