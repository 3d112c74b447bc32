# SPDX-License-Identifier: Apache-2.0
"""What a pod costs its quota, and whether it fits.

Rule: docs/reference/admission.md#quota-admission.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import annotation, keys, quotas
from koord.api.requests import amount, effective
from koord.kernels.quota_report import quantity_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.quota import ElasticQuota

Amounts = dict[str, int]
"""cpu in milli-units, all else in units."""

COUNTED = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "kubernetes.io/batch-cpu",
        "kubernetes.io/batch-memory",
        "kubernetes.io/mid-cpu",
        "kubernetes.io/mid-memory",
        "koordinator.sh/gpu",
        "nvidia.com/gpu",
        "koordinator.sh/gpu.shared",
        "koordinator.sh/gpu-memory-ratio",
    }
)
"""A quota whose max names none of these lets every pod pass."""
_ENDED = ("Succeeded", "Failed")


class QuotaBudget(NamedTuple):
    """What a quota has and uses.

    Attributes:
        title: of the quota, for people.
        path: its namespace and name.
        names: the resources that its max names.
        limit: of the sum, by resource.
        used: so far.
    """

    title: str
    path: str
    names: frozenset[str]
    limit: Amounts
    used: Amounts

    def after(self, charge: Mapping[str, int]) -> QuotaBudget:
        """The same once something more is used."""
        return self._replace(used=summed(self.used, charge))

    def exceeded(self, charge: Mapping[str, int]) -> list[str]:
        """The resources of a charge that do not fit, sorted."""
        return sorted(
            name
            for name, asked in charge.items()
            if name in self.limit and self.used.get(name, 0) + asked > self.limit[name]
        )

    def refusal(self, charge: Mapping[str, int]) -> str | None:
        """Why a charge does not fit, in the original's words; None where it does."""
        wrong = self.exceeded(charge)
        if not wrong:
            return None
        parts = [
            ",".join(f"{name}={quantity_text(name, of[name])}" for name in wrong if name in of)
            for of in (charge, self.used, self.limit)
        ]
        asked, used, limited = parts
        return f"exceeded quota: {self.path}, requested: {asked}, used: {used}, limited: {limited}"


def budget_of(quota: ElasticQuota) -> QuotaBudget:
    """What a quota has and uses.

    Raises:
        KoordError: one of its annotations cannot be read.
    """
    limit = quotas.amounts(quota, keys.QUOTA_ADMISSION) or quota.spec.max
    meta = quota.metadata
    return QuotaBudget(
        quota.title,
        f"{meta.namespace}/{meta.name}",
        frozenset(quota.spec.max),
        _integers(limit),
        _integers(quotas.amounts(quota, keys.QUOTA_CHILD_REQUEST)),
    )


def used_text(used: Mapping[str, int]) -> str:
    """The annotation of what is used."""
    return annotation.text({name: quantity_text(name, used[name]) for name in sorted(used)})


def charge_of(pod: Pod, names: frozenset[str], wall_seconds: float) -> Amounts:
    """What a pod costs a quota; empty where it costs nothing.

    Args:
        pod: which.
        names: the resources that the quota's max names.
        wall_seconds: the time, for pods past their grace period.
    """
    if not names & COUNTED or not _lives(pod, wall_seconds):
        return {}
    return {name: asked for name, asked in effective(pod).items() if asked and name in names}


def summed(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    """Two charges together."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}


def _lives(pod: Pod, wall_seconds: float) -> bool:
    meta = pod.metadata
    if pod.status.phase in _ENDED:
        return False
    if meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return True
    ends = meta.deletion_timestamp + timedelta(seconds=meta.deletion_grace_period_seconds)
    return datetime.fromtimestamp(wall_seconds, UTC) <= ends


def _integers(quantities: ResourceList) -> Amounts:
    return {name: amount(name, quantity) for name, quantity in quantities.items()}
