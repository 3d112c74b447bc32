# SPDX-License-Identifier: Apache-2.0
"""In which order pods go: columns in, a permutation out. Imports nothing of the agent.

Rules: docs/reference/evictions.md#be-satisfaction,
docs/reference/evictions.md#victims-by-priority. Ties keep the order of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def by_priority(
    node: Ints, eviction_priority: Ints, priority: Ints, label_priority: Ints, weight: Ints
) -> Ints:
    """Rows by node, eviction priority, priority, priority label, and the heavier first.

    Args:
        node: row of the node that the pod runs on.
        eviction_priority: of the annotation, 0 without one.
        priority: of the pod, with its default.
        label_priority: of the label, the priority without one.
        weight: used or requested amount.
    """
    keys = (-weight, label_priority, priority, eviction_priority, node)
    return np.lexsort(keys).astype(np.int64)


def by_share(node: Ints, priority: Ints, used: Ints, requested: Ints) -> Ints:
    """Rows by node, lower priority, and the larger share of its request in use first.

    Args:
        node: row of the node that the pod runs on.
        priority: of the pod, with its default.
        used: 0 where it is not known.
        requested: 0 counts as a share of 0.
    """
    some = requested > 0
    share: Floats = np.where(some, used / np.where(some, requested, 1), 0.0)
    return np.lexsort((-share, priority, node)).astype(np.int64)
