# SPDX-License-Identifier: Apache-2.0
"""How many pods of a workload may move, or be unavailable, at a time.

Rule: docs/reference/migration.md#limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.api.schema import IntOrString

_SMALL, _LARGE = 4, 10


def workload_limit(replicas: int, amount: IntOrString | None) -> int:
    """A limit for a workload of so many replicas; at most all of them.

    Args:
        replicas: that the workload wants.
        amount: a number, or a percentage that is rounded down; 0 of either is 1. None goes by the
            size: a tenth above 10 replicas, two from 4 on, else one.
    """
    if amount is None:
        found = _by_size(replicas)
    elif isinstance(amount, int):
        found = max(amount, 1)
    else:
        found = max(replicas * int(amount.removesuffix("%")) // 100, 1)
    return min(found, replicas)


def _by_size(replicas: int) -> int:
    if replicas > _LARGE:
        return replicas // 10
    return 2 if replicas >= _SMALL else 1
