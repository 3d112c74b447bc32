# SPDX-License-Identifier: Apache-2.0
"""Pods of one quota that are decided together and written at once.

Rule: docs/reference/admission.md#quota-admission.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import floor, log2
from typing import TYPE_CHECKING

from koord.api.protocol import annotation, keys
from koord.base.errors import KoordError
from koord.controllers.webhook.quota_admission.pod_charge import (
    Amounts,
    QuotaBudget,
    budget_of,
    charge_of,
    summed,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.quota import ElasticQuota

LEAST_RETRIES = 3
_CHARGES_KEPT = 16


@dataclass(eq=False)
class WaitingPod:
    """A pod whose request waits for its answer.

    Attributes:
        pod: which.
        request: uid of its admission request.
        answer: None where it is admitted, else the line that refuses it.
    """

    pod: Pod
    request: str
    answer: asyncio.Future[str | None]


@dataclass
class ChargeRound:
    """What one look at a quota decides.

    Attributes:
        budget: of the quota.
        charged: pods that fit, and cost something.
        free: pods that cost nothing.
        refused: lines by pod.
        delta: what ``charged`` costs together.
    """

    budget: QuotaBudget
    charged: list[WaitingPod] = field(default_factory=list)
    free: list[WaitingPod] = field(default_factory=list)
    refused: list[tuple[WaitingPod, str]] = field(default_factory=list)
    delta: Amounts = field(default_factory=dict)

    @property
    def used(self) -> Amounts:
        """What is used once the charged pods are."""
        return summed(self.budget.used, self.delta)


def decide(
    quota: ElasticQuota, waiting: Sequence[WaitingPod], wall_seconds: float
) -> ChargeRound | KoordError:
    """Decides pods one after the other, each beside those before it.

    Args:
        quota: as it is.
        waiting: in order.
        wall_seconds: the time.

    Returns:
        An error where the quota cannot be read.
    """
    try:
        budget = budget_of(quota)
    except KoordError as error:
        return error
    decided = ChargeRound(budget)
    for each in waiting:
        charge = charge_of(each.pod, budget.names, wall_seconds)
        if not charge:
            decided.free.append(each)
            continue
        refusal = budget.after(decided.delta).refusal(charge)
        if refusal is None:
            decided.charged.append(each)
            decided.delta = summed(decided.delta, charge)
        else:
            decided.refused.append((each, refusal))
    return decided


def decide_again(
    quota: ElasticQuota, before: ChargeRound, waiting: Sequence[WaitingPod], wall_seconds: float
) -> ChargeRound | KoordError:
    """Decides after a conflict: as before where the sum still fits, else pod by pod.

    Pods that were refused stay refused.
    """
    try:
        budget = budget_of(quota)
    except KoordError as error:
        return error
    if budget.names == before.budget.names and not budget.exceeded(before.delta):
        return replace(before, budget=budget)
    settled = {id(each) for each, _ in before.refused}
    decided = decide(quota, [each for each in waiting if id(each) not in settled], wall_seconds)
    if isinstance(decided, ChargeRound):
        decided.refused += before.refused
    return decided


def retries_for(charged: int, most: int) -> int:
    """How often a batch is tried again: once more for each doubling, up to a flag."""
    if charged <= 1:
        return LEAST_RETRIES
    return min(max(most, LEAST_RETRIES), LEAST_RETRIES + floor(log2(charged)))


def charges(quota: ElasticQuota) -> list[str]:
    """The batches that were charged last, newest first; what cannot be read is none."""
    try:
        found = annotation.read(quota, keys.QUOTA_CHARGES, list[str], empty_is_absent=True) or []
    except KoordError:
        return []
    return found[:_CHARGES_KEPT]


def charges_text(quota: ElasticQuota, batch: str) -> str:
    """The annotation once a batch is charged, too."""
    return annotation.text([batch, *charges(quota)][:_CHARGES_KEPT])
