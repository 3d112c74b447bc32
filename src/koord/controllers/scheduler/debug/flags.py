# SPDX-License-Identifier: Apache-2.0
"""Debug switches: what of every decision goes to the log while they are on.

``PUT /debug/flags/s`` with a number N logs the N best nodes with the score of each plugin, ``f``
every node that a filter refused, ``d`` what came of attempts that failed
(docs/reference/scheduling.md#what-is-served). One line an event.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.decision.decider import decider_of
from koord.controllers.scheduler.framework.feasibility import best_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.decision.decider import Decision
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.feasibility.entry import FeasibilityEntry
    from koord.controllers.scheduler.framework.rejection import Rejection

_LOG = log.get("scheduler")
_MOST = 10_000
_TRUE = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


class DebugFlags:
    """What of every decision is logged; nothing until a flag is set.

    Attributes:
        scores: how many of the best nodes are logged.
        filters: whether refused nodes are.
        diagnosis: whether failed attempts are.
    """

    def __init__(self) -> None:
        self.scores = 0
        self.filters = False
        self.diagnosis = False

    def set(self, flag: str, text: str) -> dict[str, int | bool]:
        """Sets a switch: ``s`` to a number, ``f`` and ``d`` to a truth.

        Returns:
            How all stand.

        Raises:
            KeyError: there is no such switch.
            KoordError: the text is no value of it.
        """
        where = f"/debug/flags/{flag}"
        value = text.strip()
        if flag == "s":
            if not (value.isascii() and value.isdigit() and int(value[:9]) <= _MOST):
                raise KoordError(where, "", value, f"a number from 0 to {_MOST}")
            self.scores = int(value)
        elif flag in ("f", "d"):
            on = _TRUE.get(value.lower())
            if on is None:
                raise KoordError(where, "", value, "true or false")
            if flag == "f":
                self.filters = on
            else:
                self.diagnosis = on
        else:
            raise KeyError(f"there is no switch {flag}, only s, f and d")
        return self.values()

    def values(self) -> dict[str, int | bool]:
        """How the switches stand."""
        return {"s": self.scores, "f": self.filters, "d": self.diagnosis}

    def observe(self, decision: Decision, message: str) -> None:
        """Logs what is wanted of a decision."""
        if self.scores and decision.row >= 0:
            self._log_scores(decision)
        if self.filters:
            self._log_filters(decision)
        if self.diagnosis and decision.diagnosis is not None:
            _log_diagnosis(decision, message)

    def _log_scores(self, decision: Decision) -> None:
        cycle = decision.cycle
        entry = _entry_of(cycle)
        if entry is None:
            return
        feasible = _feasible(decision, entry)
        total, parts = best_node.totals(cycle, entry, decider_of(cycle).plugins.score, feasible)
        order = np.lexsort((cycle.table.rank[feasible], -total))
        for place, index in enumerate(order[: self.scores].tolist(), 1):
            scores = {plugin: int(part[index]) for plugin, part in parts.items()}
            node = cycle.table.name(int(feasible[index]))
            found = {"pod": cycle.pod.key, "rank": place, "node": node, "total": int(total[index])}
            _LOG.info("scored", extra=log.fields(**found, **scores))

    def _log_filters(self, decision: Decision) -> None:
        for row, refused in _refused(decision).items():
            node = decision.cycle.table.name(row)
            _LOG.info(
                "filtered",
                extra=log.fields(
                    pod=decision.cycle.pod.key, node=node, plugin=refused.plugin,
                    reason=refused.text,
                ),
            )  # fmt: skip


def _feasible(decision: Decision, entry: FeasibilityEntry) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The rows that were chosen from."""
    table, allowed = decision.cycle.table, decision.cycle.allowed
    fits = entry.feasible[: table.size] & table.open[: table.size]
    fits[decision.row] = True
    return np.flatnonzero(fits if allowed is None else fits & allowed)


def _refused(decision: Decision) -> Mapping[int, Rejection]:
    if decision.diagnosis is not None:
        return decision.diagnosis.by_row
    cycle = decision.cycle
    entry = _entry_of(cycle)
    return decider_of(cycle).evaluator.rejections(cycle, entry) if entry is not None else {}


def _entry_of(cycle: Cycle) -> FeasibilityEntry | None:
    """What the plugins say of the pod's nodes; None for an attempt that no decider made."""
    if cycle.decider is None:
        return None
    decider = decider_of(cycle)
    kept = decider.evaluator.cached_entry(cycle)
    if kept is not None:
        return kept
    # Where nothing is kept it is worked out as it was before the pod had its place.
    with decider.accounts.what_if():
        if decider.accounts.get(cycle.pod.uid) is cycle.pod:
            decider.accounts.drop(cycle.pod)
        return decider.evaluator.entry(cycle)


def _log_diagnosis(decision: Decision, message: str) -> None:
    diagnosis = decision.diagnosis
    assert diagnosis is not None
    refusals = [diagnosis.early] if diagnosis.early else list(diagnosis.by_row.values())
    counts = Counter((refused.plugin, refused.text) for refused in refusals)
    text = "; ".join(f"{plugin}: {count} {why}" for (plugin, why), count in sorted(counts.items()))
    _LOG.info(
        "not scheduled",
        extra=log.fields(pod=decision.cycle.pod.key, message=message, refusals=text),
    )
