# SPDX-License-Identifier: Apache-2.0
"""Why a pod fits nowhere: which plugin refused which rows, and the message that says so."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.framework.node_rejections import NodeRejections
from koord.controllers.scheduler.framework.rejection import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.rejection import Rejection

_PREEMPTION = "preemption: "


class Diagnosis:
    """What came of an attempt that found no node.

    Args:
        nodes: how many nodes there are.
        early: set if a PreFilter refused the pod as a whole.
        by_row: the first refusal of each row.
        narrowed: plugins whose PreFilter left nodes out.

    Attributes:
        also: plugins that refused nothing, but whose events may help the pod too; PostFilter
            plugins add themselves.
    """

    def __init__(
        self,
        nodes: int,
        early: Rejection | None,
        by_row: Mapping[int, Rejection],
        narrowed: tuple[str, ...] = (),
    ) -> None:
        self.nodes = nodes
        self.early = early
        self.by_row = by_row
        self.also: set[str] = set(narrowed)

    @property
    def plugins(self) -> set[str]:
        """Who refused, and who may help besides; their events may wake the pod."""
        if self.early is not None:
            return {self.early.plugin, *self.also} - {""}
        return {*self.also, *(rejection.plugin for rejection in self._present())} - {""}

    @property
    def error(self) -> bool:
        """Whether some plugin failed rather than refused."""
        if self.early is not None:
            return self.early.error
        return any(rejection.error for rejection in self._present())

    def resolvable(self) -> NDArray[np.intp]:
        """The rows where removing pods might help."""
        if isinstance(self.by_row, NodeRejections):
            return self.by_row.resolvable()
        rows = [row for row, why in self.by_row.items() if not why.unresolvable and not why.error]
        return np.array(rows, np.intp)

    def _present(self) -> Collection[Rejection]:
        if isinstance(self.by_row, NodeRejections):
            return self.by_row.present()
        return self.by_row.values()

    def message(self, post_filter: str = "") -> str:
        """``0/N nodes are available: 3 Insufficient cpu.``, then what PostFilter plugins say."""
        if self.early is not None:
            head = f"0/{self.nodes} nodes are available"
            text = f"{head}: {self.early.text}." if self.early.text else f"{head}."
        else:
            text = availability(self.nodes, self.counts())
        return f"{text} {post_filter}" if post_filter else text

    def counts(self) -> Counter[str]:
        """How many nodes refuse for each reason."""
        return counted(self.by_row)


def counted(by_row: Mapping[int, Rejection]) -> Counter[str]:
    """How many rows have each reason."""
    if isinstance(by_row, NodeRejections):
        return by_row.counts()
    # Most are one object many times.
    rejections = by_row.values()
    by_id = Counter(map(id, rejections))
    counts: Counter[str] = Counter()
    for rejection in rejections:
        count = by_id.pop(id(rejection), 0)
        for reason in rejection.reasons if count else ():
            counts[reason] += count
        if not by_id:
            break
    return counts


def joined(messages: Iterable[str]) -> str:
    """What several PostFilter plugins say, as one text; what two of them say stands there once.

    Parts are joined by a comma, as kube-scheduler joins them; after a full stop there is none. Of
    several plugins that preempt only the first says ``preemption:`` before it says why not.
    """
    text = ""
    for part in messages:
        new = part.removeprefix(_PREEMPTION) if _PREEMPTION in text else part
        if new and new not in text:
            gap = "" if not text else " " if text.endswith(".") else ", "
            text += gap + new
    return text


def availability(nodes: int, counts: Mapping[str, int]) -> str:
    """``0/N nodes are available: 2 this, 3 that.``: sorted as texts, the first of them.

    Rule: docs/reference/scheduling.md#messages. Kubernetes: FitError in pkg/scheduler/framework.
    """
    reasons = listed(sorted(f"{count} {reason}" for reason, count in counts.items()))
    head = f"0/{nodes} nodes are available"
    return f"{head}: {reasons}." if reasons else f"{head}."
