# SPDX-License-Identifier: Apache-2.0
"""One leaf's change in a large tree against working the tree out anew with the plain model."""

from __future__ import annotations

from itertools import cycle

from benchmarks.conftest import Gate
from koord.kernels.quota import ROOT, GroupSpec, QuotaTree
from tests.models.quota import Child, water_fill

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "pods")
FANOUT = 21
LEAVES = FANOUT**3


def amounts(amount: int) -> dict[str, int]:
    return dict.fromkeys(RESOURCES, amount)


def three_levels() -> tuple[QuotaTree, str]:
    """9,723 groups that ask for more than there is on every level; and the name of one leaf."""
    tree = QuotaTree(amounts(80 * LEAVES))
    name = ""
    for i in range(FANOUT):
        tree.add(f"{i}", _spec(ROOT, FANOUT**2))
        for j in range(FANOUT):
            tree.add(f"{i}/{j}", _spec(f"{i}", FANOUT))
            for k in range(FANOUT):
                name = f"{i}/{j}/{k}"
                tree.add(name, _spec(f"{i}/{j}", 1))
                tree.add_request(name, amounts(50 + (i * 7 + j * 5 + k * 3) % 99))
    return tree, name


def _spec(parent: str, leaves: int) -> GroupSpec:
    return GroupSpec(parent, amounts(40 * leaves), amounts(200 * leaves), is_parent=leaves > 1)


def recompute(requests: list[int]) -> int:
    """One resource of the same tree: requests summed up, every level filled from the top."""
    limits = [min(request, 200) for request in requests]
    level1 = [sum(limits[i * FANOUT**2 : (i + 1) * FANOUT**2]) for i in range(FANOUT)]
    level2 = [sum(limits[i * FANOUT : (i + 1) * FANOUT]) for i in range(FANOUT**2)]
    totals = [80 * LEAVES]
    for leaves, asked in ((FANOUT**2, level1), (FANOUT, level2), (1, limits)):
        shares: list[int] = []
        for parent, total in enumerate(totals):
            own = asked[parent * FANOUT : (parent + 1) * FANOUT]
            rows = [Child(f"{i:02}", 200 * leaves, r, 40 * leaves) for i, r in enumerate(own)]
            shares += water_fill(total, rows).values()
        totals = shares
    return totals[-1]


def test_one_leaf_of_three_levels(gate: Gate) -> None:
    tree, leaf = three_levels()
    requests = [
        50 + (i * 7 + j * 5 + k * 3) % 99
        for i in range(FANOUT) for j in range(FANOUT) for k in range(FANOUT)
    ]  # fmt: skip
    steps = cycle((1, -1))

    def ours() -> int:
        tree.add_request(leaf, amounts(next(steps)))
        return tree.runtime(leaf)["cpu"]

    def reference() -> int:
        requests[-1] += next(steps)
        return recompute(requests)

    gate("quota: one leaf of 9,723 groups, 4 resources (model: 1)", ours, reference, 5000.0)


def test_one_of_ten_thousand_siblings(gate: Gate) -> None:
    """The wide case: all siblings share one pool, so all shares depend on each."""
    tree = QuotaTree(amounts(800_000))
    requests = {f"g{i}": 50 + i % 99 for i in range(10_000)}
    for name, request in requests.items():
        tree.add(name, _spec(ROOT, 1))
        tree.add_request(name, amounts(request))
    steps = cycle((1, -1))

    def ours() -> int:
        tree.add_request("g0", amounts(next(steps)))
        return tree.runtime("g0")["cpu"]

    def reference() -> int:
        requests["g0"] += next(steps)
        rows = [Child(name, 200, request, 40) for name, request in requests.items()]
        return water_fill(800_000, rows)["g0"]

    gate("quota: one of 10,000 siblings, 4 resources (model: 1)", ours, reference, 1000.0)
