# SPDX-License-Identifier: Apache-2.0
"""Why the reservations that are for a pod are no use to it.

Rule: docs/reference/reservations.md#messages.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.scheduler.plugins.reservation.objects.reservation_affinity import (
    AffinityMismatch,
    described,
)
from koord.controllers.scheduler.plugins.reservation.state.reservation_index import owns

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.framework.diagnosis import Diagnosis
    from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
        ReservationIndex,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )
    from koord.controllers.scheduler.plugins.reservation.state.shape_matches import ShapeMatches

_OWN = "Reservation(s) "
# In this order; taints stand between the last two.
_MISSES = (
    AffinityMismatch.NAME,
    AffinityMismatch.AFFINITY,
    AffinityMismatch.UNSCHEDULABLE,
    AffinityMismatch.EXACT,
)


class ReservationDiagnosis(NamedTuple):
    """What a pod that fits nowhere is told of the reservations it may use.

    Attributes:
        message: joins the pod's condition and event; empty where there is nothing to say.
        event: of the pod's own event about reservations.
    """

    message: str
    event: str


class ReservationDiagnoser:
    """Says of a pod that fits nowhere why the reservations that it may use do not help.

    Args:
        book: all reservations.
    """

    def __init__(self, book: ReservationIndex) -> None:
        self._book = book

    def explain(
        self, pod: Pod, matches: ShapeMatches, diagnosis: Diagnosis
    ) -> ReservationDiagnosis:
        """Why a pod that fits nowhere got none of the reservations that are for it."""
        wanted = matches.request
        owned = self._owned(pod)
        if not owned and not wanted.required:
            return ReservationDiagnosis("", "")
        misses: Counter[AffinityMismatch] = Counter()
        taints: Counter[str] = Counter()
        hit: Counter[int] = Counter()
        for record in owned:
            miss = matches.mismatch(record)
            if miss is None:
                hit[record.row] += 1
            elif miss is AffinityMismatch.TAINT:
                taint = wanted.untolerated(record)
                taints[described(taint) if taint is not None else "{}"] += 1
            else:
                misses[miss] += 1
        name = []
        if wanted.name and hit:
            name = [f"{hit.total()} {_OWN}exactly matches the requested reservation name"]
        parts = [f"{misses[miss]} {_OWN}{miss.value}" for miss in _MISSES if misses[miss]]
        parts += [
            f"{taints[key]} {_OWN}{AffinityMismatch.TAINT.value} {key}" for key in sorted(taints)
        ]
        nodes = _by_node(hit, diagnosis)
        total = f"{len(owned)} {_OWN}matched owner total"
        details = [*name, *_of_reservations(diagnosis), *parts, *nodes]
        event = f"0/{len(owned)} reservations are available{_listed(details, bool(owned))}."
        return ReservationDiagnosis(", ".join([*name, *parts, *nodes, total]), event)

    def _owned(self, pod: Pod) -> list[ReservationInfo]:
        found = {**self._book.for_shape(pod), **self._book.for_pod(pod)}
        usable = [each for each in found.values() if each.matchable]
        return [each for each in usable if owns(each, pod, personal=True)]


def _listed(details: list[str], any_owned: bool) -> str:
    if not any_owned:
        return ": no reservation is for this pod"
    return f": {', '.join(details)}" if details else ""


def _by_node(hit: Counter[int], diagnosis: Diagnosis) -> list[str]:
    """How many reservations are no use because of their node, by the node's reason."""
    counts: Counter[str] = Counter()
    for row, matched in sorted(hit.items()):
        rejection = diagnosis.by_row.get(row)
        reasons = rejection.reasons if rejection is not None else ()
        left = matched - sum(reason.startswith(_OWN) for reason in reasons)
        if left > 0:
            for reason in reasons:
                if not reason.startswith(_OWN):
                    counts[reason] += left
    return [f"{counts[text]} {_OWN}for node reason that {text}" for text in sorted(counts)]


def _of_reservations(diagnosis: Diagnosis) -> list[str]:
    """What filters said of single reservations, counted; amounts are left to the condition."""
    counts: Counter[str] = Counter()
    for reason, count in diagnosis.counts().items():
        if reason.startswith(_OWN):
            counts[reason.partition(",")[0]] += count
    return sorted(f"{count} {reason}" for reason, count in counts.items())
