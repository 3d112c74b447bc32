# SPDX-License-Identifier: Apache-2.0
"""Which offers have moved far enough to be written.

Rule: docs/reference/node-resources.md#threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from koord.controllers.manager.overcommit.amounts import CPU, MEMORY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import AmountColumns

ABSENT = -1


@overload
def beyond(before: float, after: float, share: float) -> bool: ...
@overload
def beyond(
    before: NDArray[np.floating], after: NDArray[np.floating], share: NDArray[np.float64]
) -> NDArray[np.bool_]: ...
def beyond(before: Any, after: Any, share: Any) -> Any:
    """Whether amounts move by more than a share of what they were: numbers or columns.

    Args:
        before, after: thousandths as doubles, as quantities are compared.
        share: ``resourceDiffThreshold``.
    """
    return abs(after - before) > before * share


def due(old: AmountColumns, new: AmountColumns, fraction: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows of which one amount has come, gone, or moved by more than a fraction of the old one.

    Args:
        old: int64 ``[2, rows]``, what the node says; :data:`ABSENT` where it says nothing.
        new: what it is to say, in the same way.
        fraction: float64 ``[rows]``, the settings' ``diff_threshold``.
    """
    there, wanted = old != ABSENT, new != ABSENT
    moved = beyond(old * 1000.0, new * 1000.0, fraction)
    changed: NDArray[np.bool_] = (there != wanted) | (there & wanted & moved)
    rows: NDArray[np.bool_] = changed[CPU] | changed[MEMORY]
    return rows
