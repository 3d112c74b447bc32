# SPDX-License-Identifier: Apache-2.0
"""Kernel settings that a node's memory decides: columns in, columns out, one row a node.

Rule: docs/reference/strategies.md#system-settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

UNSET = -1
_LEAST_KBYTES, _MOST_KBYTES = 10_240, 10_485_760


def min_free_kbytes(memory_bytes: Ints, factor: Ints) -> Ints:
    """vm.min_free_kbytes, a factor in ten-thousandths of the memory; unset where out of range.

    Args:
        memory_bytes: of each node.
        factor: configured, or :data:`UNSET`.
    """
    value = memory_bytes // 1024 * factor // 10_000
    valid = (factor != UNSET) & (value >= _LEAST_KBYTES) & (value <= _MOST_KBYTES)
    return np.where(valid, value, UNSET)
