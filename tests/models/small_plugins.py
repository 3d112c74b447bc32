# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesFitPlus and ScarceResourceAvoidance, node by node.

Rule: docs/reference/load.md#noderesourcesfitplus.
"""

from __future__ import annotations

Amounts = dict[str, int]


def fit_plus(
    strategies: dict[str, tuple[str, int]],
    asked: Amounts,
    counted: Amounts,
    used: Amounts,
    capacity: Amounts,
) -> int:
    """The score of a node.

    Args:
        strategies: by resource, its strategy and weight.
        asked: what the pod requests.
        counted: the same with least amounts of CPU and memory.
        used: what is in use, CPU and memory counted likewise.
        capacity: what the node has.
    """
    total = weights = 0
    for resource, (strategy, weight) in strategies.items():
        if asked.get(resource, 0) <= 0:
            continue
        have = capacity.get(resource, 0)
        after = used.get(resource, 0) + counted.get(resource, 0)
        if have == 0:
            score = 0
        elif strategy == "MostAllocated":
            score = min(after, have) * 100 // have
        else:
            score = (have - after) * 100 // have if after <= have else 0
        total += score * weight
        weights += weight
    return total // weights if weights else 100


def scarce(scarce_names: set[str], asked: Amounts, capacity: Amounts) -> int:
    """The score of a node; ``pods`` is in neither of the amounts."""
    offered = {name for name, amount in capacity.items() if amount > 0}
    left = offered - {name for name, amount in asked.items() if amount > 0}
    hit = left & scarce_names
    if not left or not hit:
        return 100
    return (len(left) - len(hit)) * 100 // len(left)
