# SPDX-License-Identifier: Apache-2.0
"""How far an offer may rise at once, where a strategy bounds that.

An offer falls at once: what is taken cannot be offered. It rises at once by what pods took that
went, or that were counted by their requests until they were measured; by what else usage falls, it
rises by no more than a share of the node with each report. So a usage that swings between reports
moves the offer by that share, not by the swing, and no offer is ever above the formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.manager.overcommit.amounts import share
from koord.controllers.manager.overcommit.objects.strategy_columns import UNSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import AmountColumns
    from koord.controllers.manager.overcommit.objects.strategy_columns import StrategyColumns

UNBOUNDED = 2**60
"""An allowance that no machine uses up."""


def rise_allowance(capacity: AmountColumns, settings: StrategyColumns) -> AmountColumns:
    """What a new report lets offers rise by."""
    percent = settings.batch_rise_percent
    bounded = share(capacity, np.maximum(percent, 0))
    found: AmountColumns = np.where(percent == UNSET, UNBOUNDED, bounded)
    return found


def limited_offer(
    formula: AmountColumns,
    before: AmountColumns,
    allowance: AmountColumns,
    fresh: NDArray[np.bool_],
) -> AmountColumns:
    """The offers in force.

    Args:
        formula: what could be offered.
        before: what was offered last.
        allowance: what offers may rise by.
        fresh: bool ``[rows]``, nodes that offered nothing before, for want of a report.
    """
    found: AmountColumns = np.where(fresh, formula, np.minimum(formula, before + allowance))
    return found
