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
from koord.controllers.scheduler.framework import select

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.decider import Decision
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.framework.verdicts import Verdict

_LOG = log.get("scheduler")
_MOST = 10_000
_TRUE = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


class Switches:
    """All off at first.

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
        cycle, decider = decision.cycle, decision.cycle.decider
        verdict = decider.evaluator.kept(cycle.shape.id) if decider is not None else None
        if decider is None or verdict is None:
            return
        feasible = _feasible(decision, verdict)
        total, parts = select.totals(cycle, verdict, decider.plugins.score, feasible)
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


def _feasible(decision: Decision, verdict: Verdict) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The rows that were chosen from."""
    table, allowed = decision.cycle.table, decision.cycle.allowed
    fits = verdict.feasible[: table.size] & table.open[: table.size]
    fits[decision.row] = True
    return np.flatnonzero(fits if allowed is None else fits & allowed)


def _refused(decision: Decision) -> Mapping[int, Rejection]:
    if decision.diagnosis is not None:
        return decision.diagnosis.by_row
    cycle, decider = decision.cycle, decision.cycle.decider
    verdict = decider.evaluator.kept(cycle.shape.id) if decider is not None else None
    if decider is None or verdict is None:
        return {}
    return decider.evaluator.refusals(cycle, verdict)


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
