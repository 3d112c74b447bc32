# SPDX-License-Identifier: Apache-2.0
"""Adds up scores and picks the best node; among equals the first by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.framework.plugin import Normalization, normalization_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.feasibility.entry import FeasibilityEntry


def best(
    cycle: Cycle,
    entry: FeasibilityEntry,
    scores: Sequence[tuple[Any, int]],
    mask: NDArray[np.bool_] | None = None,
) -> int:
    """The feasible row with the highest total, the first by name among equals; -1 for none.

    Args:
        cycle: the attempt.
        entry: on its shape, up to date.
        scores: the profile's.
        mask: bool by row: choose among these only, and normalise among these only.
    """
    board = entry.board
    if entry.custom:
        _rate_custom(cycle, entry, scores, mask)
    return board.best() if mask is None else board.best_of(mask)


def totals(
    cycle: Cycle,
    entry: FeasibilityEntry,
    scores: Sequence[tuple[Any, int]],
    feasible: NDArray[np.intp],
) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]]:
    """By feasible row, the weighted sum of normalised scores, and each plugin's part of it.

    What :func:`best` chooses by, spelled out, with what a plugin that was left out gives all nodes
    alike: for explain and for tests.
    """
    total = np.zeros(len(feasible), np.int64)
    parts: dict[str, NDArray[np.int64]] = {}
    for number, (plugin, weight) in enumerate(scores):
        raw = entry.raw(number)
        if raw is None:
            idle_score = getattr(plugin, "idle_score", 0)
            if not idle_score:
                continue
            part = np.full(len(feasible), idle_score, np.int64)
        elif plugin.normalization is Normalization.CUSTOM:
            part = plugin.normalize(cycle, raw[feasible], feasible)
        else:
            part = normalized(normalization_of(plugin, cycle.shape), raw[feasible])
        parts[plugin.name] = part * weight
        total += parts[plugin.name]
    return total, parts


def _rate_custom(
    cycle: Cycle,
    entry: FeasibilityEntry,
    scores: Sequence[tuple[Any, int]],
    mask: NDArray[np.bool_] | None,
) -> None:
    feasible = entry.feasible if mask is None else entry.feasible[: len(mask)] & mask
    rows = np.flatnonzero(feasible)
    for number, raw in entry.custom.items():
        entry.board.rate(number, rows, scores[number][0].normalize(cycle, raw[rows], rows))


def normalized(kind: Normalization, raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Raw scores of feasible rows as 0..100; see :class:`Normalization`."""
    if kind is Normalization.NONE or not len(raw):
        return raw
    if kind is Normalization.SPREAD:
        return _spread(raw)
    if kind is Normalization.MIN_MAX:
        least, most = int(raw.min()), int(raw.max())
        return (raw - least) * 100 // (most - least) if most > least else np.zeros_like(raw)
    most = int(raw.max())
    if most <= 0:
        return np.full_like(raw, 100 if kind is Normalization.REVERSED else 0)
    scaled = np.maximum(raw, 0) * 100 // most
    return 100 - scaled if kind is Normalization.REVERSED else scaled


def _spread(raw: NDArray[np.int64]) -> NDArray[np.int64]:
    counted = raw[raw >= 0]
    if not len(counted):
        return np.zeros_like(raw)
    least, most = int(counted.min()), int(counted.max())
    scaled = (most + least - raw) * 100 // most if most > 0 else np.full_like(raw, 100)
    return np.where(raw < 0, 0, scaled)
