# SPDX-License-Identifier: Apache-2.0
"""In which order best-effort pods go for want of memory: columns in, a permutation out.

Rule: docs/reference/evictions.md#node-memory-usage. How much is to be released is in
``eviction/release_amounts.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def best_effort_order(node: Ints, priority: Ints, used_bytes: Ints, name_rank: Ints) -> Ints:
    """Rows in the order of eviction: node, lower priority, more memory; idle ones by name, last.

    Args:
        node: row of the node that the pod runs on.
        priority: of the pod, also 0; its default where it has none.
        used_bytes: 0 where it is not known.
        name_rank: place of the pod's name among all, ascending; idle pods go in reverse.
    """
    idle_rank = np.where(used_bytes == 0, -name_rank, 0)
    return np.lexsort((idle_rank, -used_bytes, priority, node)).astype(np.int64)
