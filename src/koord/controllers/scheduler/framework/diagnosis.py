# SPDX-License-Identifier: Apache-2.0
"""Why a pod fits nowhere: which plugin refused which rows, and the message that says so."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.framework.rejection import Rejection


class Diagnosis:
    """What came of an attempt that found no node.

    Args:
        nodes: how many nodes there are.
        early: set if a PreFilter refused the pod as a whole.
        by_row: the first refusal of each row.
    """

    def __init__(
        self, nodes: int, early: Rejection | None, by_row: Mapping[int, Rejection]
    ) -> None:
        self.nodes = nodes
        self.early = early
        self.by_row = by_row

    @property
    def plugins(self) -> set[str]:
        """Who refused; their events may wake the pod."""
        if self.early is not None:
            return {self.early.plugin}
        return {rejection.plugin for rejection in self.by_row.values()}

    @property
    def error(self) -> bool:
        """Whether some plugin failed rather than refused."""
        if self.early is not None:
            return self.early.error
        return any(rejection.error for rejection in self.by_row.values())

    def message(self, post_filter: str = "") -> str:
        """``0/N nodes are available: 3 Insufficient cpu, ...``: counted reasons, sorted as texts.

        Kubernetes: FitError in pkg/scheduler/framework (spec section 1.7).
        """
        if self.early is not None:
            reasons = self.early.text
        else:
            counts = Counter(
                reason for rejection in self.by_row.values() for reason in rejection.reasons
            )
            reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        head = f"0/{self.nodes} nodes are available"
        text = f"{head}: {reasons}." if reasons else f"{head}."
        return f"{text} {post_filter}" if post_filter else text
