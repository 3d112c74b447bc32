# SPDX-License-Identifier: Apache-2.0
"""Amounts of CPU and memory as columns, and how shares of them are cut.

An :data:`AmountColumns` is int64 ``[2, rows]``: CPU in milli-cores, memory in bytes. Zones count
memory in thousandths of a byte, for shares of it are not whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from koord.api.protocol.resources import CPU as CPU_NAME
from koord.api.protocol.resources import MEMORY as MEMORY_NAME
from koord.api.requests import amount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.kernels.quantity import Quantity

AmountColumns = NDArray[np.int64]
PercentColumns = NDArray[np.int64]
CPU, MEMORY = 0, 1
NAMES = (CPU_NAME, MEMORY_NAME)

MOST = 2**46
"""What an amount counts as at most: 64 TiB or 70 million cores. No machine comes near, and what
the pods of a node ask for adds up within 64 bits, also in thousandths of a byte."""


def read(resources: Mapping[str, Quantity]) -> tuple[int, int]:
    """CPU and memory of a resource list, rounded up; 0 where it says nothing or less."""
    return _one(resources, CPU_NAME), _one(resources, MEMORY_NAME)


def zeros(rows: int) -> AmountColumns:
    """Nothing, for so many rows."""
    return np.zeros((2, rows), np.int64)


def share(of: AmountColumns, percent: PercentColumns) -> AmountColumns:
    """So many percent of each amount, the fraction made first: ``trunc(of * (percent / 100))``.

    In doubles, as the rules of batch and mid resources have it.
    """
    shares: AmountColumns = (of * (percent / 100)).astype(np.int64)
    return shares


def above_zero(amounts: AmountColumns) -> AmountColumns:
    """Amounts, those below zero as zero."""
    floored: AmountColumns = np.maximum(amounts, 0)
    return floored


def _one(resources: Mapping[str, Quantity], name: str) -> int:
    quantity = resources.get(name)
    if quantity is None:
        return 0
    found = amount(name, quantity)
    return found if 0 <= found <= MOST else min(max(found, 0), MOST)
