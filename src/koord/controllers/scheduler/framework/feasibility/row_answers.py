# SPDX-License-Identifier: Apache-2.0
"""What plugins without kernels say of all rows, for a search that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.kernels import placement_board

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.feasibility.plugin_answers import PluginAnswers
    from koord.kernels.placement_board import LoadCheck, LoadRating, RowBits, RowLoad


class RowAnswers(NamedTuple):
    """By row of the table.

    Attributes:
        masks: who may be chosen: False refuses.
        ratings: weight, native normalisation and raw scores.
        bit_masks, preferences: the same as bits, as
            :data:`koord.kernels.placement_board.RowBounds` takes them.
        load_checks, loads: what it works out itself, in the same way.
    """

    masks: list[NDArray[np.bool_]]
    ratings: list[tuple[int, int, NDArray[np.int64]]]
    bit_masks: list[RowBits]
    preferences: list[tuple[int, Sequence[tuple[int, RowBits]]]]
    load_checks: list[LoadCheck]
    loads: list[RowLoad]

    @staticmethod
    def where(allowed: NDArray[np.bool_] | None = None) -> RowAnswers:
        """Of nobody yet.

        Args:
            allowed: the rows that come into question; None for all.
        """
        return RowAnswers([] if allowed is None else [allowed], [], [], [], [], [])

    def add_mask(self, cycle: Cycle, plugin: PluginAnswers) -> None:
        """What a Filter plugin says; nothing where it lets all pass."""
        if plugin.load is not None:
            self.load_checks.append(plugin.load(cycle))
            return
        bits = plugin.bits_of_all_rows(cycle)
        if bits is None:
            mask = plugin.of_all_rows(cycle)
            if not mask.all():
                self.masks.append(mask)
        elif bits is False:
            self.masks.append(np.zeros(cycle.table.size, np.bool_))
        elif bits is not True:
            self.bit_masks.append(bits)

    def add_rating(self, cycle: Cycle, plugin: PluginAnswers, weight: int, kind: int) -> None:
        """What a Score plugin says.

        Args:
            cycle: the attempt.
            plugin: the plugin.
            weight: of its score.
            kind: how that is normalised.
        """
        if plugin.load is not None and kind == placement_board.NONE:
            rating: LoadRating = plugin.load(cycle)
            self.loads.append((weight, *rating))
            return
        bits = plugin.bits_of_all_rows(cycle) if kind == placement_board.DEFAULT else None
        if bits is None:
            self.ratings.append((weight, kind, plugin.of_all_rows(cycle)))
        else:
            self.preferences.append((weight, bits))
