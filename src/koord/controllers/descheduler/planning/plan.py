# SPDX-License-Identifier: Apache-2.0
"""The plan of a round: which pods move where, in which order, what it gains, and who stays and why.

Rule: docs/reference/descheduling.md#a-planned-round.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import field

from koord.api.wirestruct import WireStruct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class StayReason(StrEnum):
    """Why a pod that a strategy wanted to move stays."""

    LIMIT = "Limit"
    BUDGET = "DisruptionBudget"
    NOWHERE = "FitsNowhere"
    NO_GAIN = "NoGain"
    PLANNED = "AlreadyMoves"
    ENDING = "AlreadyEnds"
    UNSERVED = "OtherScheduler"
    RESTS = "MovedBefore"


class PlannedStep(WireStruct, omit_defaults=False):
    """One move.

    Attributes:
        number: from 1, in the order in which steps are carried out.
        node: where the pod is.
        target: where it goes; empty in a round that is walked, where nobody has looked.
        requires: numbers of earlier steps without which it would not fit there.
        gain: by how many percentage points the load above thresholds falls, nodes and resources
            added up.
        together_with: the number of the step with which it is carried out or not at all, that of
            the pod of its gang that a strategy wanted; 0 for a step of its own.
    """

    number: int = 0
    namespace: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""
    target: str = ""
    strategy: str = ""
    reason: str = ""
    requires: list[int] = []
    gain: float = 0.0
    together_with: int = 0


class StayingPod(WireStruct, omit_defaults=False):
    """A pod that a strategy wanted to move and that stays."""

    namespace: str = ""
    name: str = ""
    node: str = ""
    strategy: str = ""
    reason: str = ""
    message: str = ""


class PlannedNode(WireStruct, omit_defaults=False):
    """A node before and after.

    Attributes:
        before: use in percent of what it offers, by resource.
        after: the same once all steps are done.
        leaving: pods that go.
        arriving: pods that come.
    """

    name: str = ""
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    leaving: int = 0
    arriving: int = 0


class RoundPlan(WireStruct, omit_defaults=False):
    """A round before it is carried out.

    Attributes:
        at: wall time for which it was worked out, in seconds since the Unix epoch.
        steps: in order.
        staying: pods that strategies wanted and that stay; those over a limit come last.
        nodes: all of the snapshot.
        thresholds: percent by resource above which load counts in gains.
        overload_before: percentage points above thresholds, nodes and resources added up.
        overload_after: the same once all steps are done.
        errors: of strategies that failed, and why nothing is planned where that is so.
        notes: what people should know besides.
    """

    at: float = 0.0
    steps: list[PlannedStep] = []
    staying: list[StayingPod] = []
    nodes: list[PlannedNode] = []
    thresholds: dict[str, float] = field(default_factory=dict)
    overload_before: float = 0.0
    overload_after: float = 0.0
    errors: list[str] = []
    notes: list[str] = []

    def remaining(self, refused: set[int]) -> list[PlannedStep]:
        """The steps that can still be done where some are refused: none that requires one of them.

        Args:
            refused: numbers of steps that were not carried out.
        """
        lost = set(refused)
        kept = []
        for steps in units(self.steps):
            if any(step.number in lost or lost.intersection(step.requires) for step in steps):
                lost.update(step.number for step in steps)
            else:
                kept += steps
        return kept


def units(steps: Iterable[PlannedStep]) -> Iterator[list[PlannedStep]]:
    """Steps that are carried out together or not at all, in their order."""
    for _, found in groupby(steps, lambda step: step.together_with or step.number):
        yield list(found)
