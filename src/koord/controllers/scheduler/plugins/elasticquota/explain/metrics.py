# SPDX-License-Identifier: Apache-2.0
"""Quota figures as Prometheus series, under the original's names.

Rule: docs/reference/quota-scheduling.md#status.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from koord.base.metrics import registry
from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import (
    group_keys,
    group_usage,
)

if TYPE_CHECKING:
    from koord.base.metrics import MetricRegistry
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
        GroupKey,
        QuotaTrees,
    )

_FIELDS = {
    "runtime": "runtime",
    "request": "request",
    "child-request": "child_request",
    "guaranteed": "guaranteed",
    "allocated": "allocated",
    "non-preemptible-request": "non_preemptible_request",
    "non-preemptible-used": "non_preemptible_used",
    "used": "used",
}
_LABELS = ("name", "resource", "tree", "is_parent", "parent", "field")


class QuotaMetrics:
    """One series a group, resource and field; cpu in milli-units.

    Args:
        metrics: the component's registry.
    """

    def __init__(self, metrics: MetricRegistry | None = None) -> None:
        into = metrics or registry()
        self._status = into.gauge(
            "scheduler_elastic_quota_status", "Figures of elastic quotas.", _LABELS
        )
        self._exported: dict[tuple[str, ...], int] = {}

    @classmethod
    def of(cls, metrics: MetricRegistry) -> Self:
        """The series in a registry; where they are already another plugin's, nowhere."""
        try:
            return cls(metrics)
        except ValueError:
            return cls()

    def update(self, groups: QuotaTrees) -> None:
        """Brings all series up to date; those of groups that went go, too."""
        now: dict[tuple[str, ...], int] = {}
        for place in group_keys(groups):
            now.update(_series(groups, place))
        for labels in self._exported.keys() - now.keys():
            self._status.remove(*labels)
        for labels, amount in now.items():
            if self._exported.get(labels) != amount:
                self._status.labels(*labels).set(amount)
        self._exported = now


def _series(groups: QuotaTrees, place: GroupKey) -> Iterator[tuple[tuple[str, ...], int]]:
    now = group_usage(groups.tree(place.tree_id), place.group)
    spec = now.spec
    fields = {field: getattr(now, attribute) for field, attribute in _FIELDS.items()}
    fields |= {"min": spec.min, "max": spec.max, "sharedWeight": spec.weight or spec.max}
    source = groups.source(place.group)
    if source is not None and source.unschedulable:
        fields["unschedulable-resource"] = source.unschedulable
    is_parent = "true" if spec.is_parent else "false"
    for field, amounts in fields.items():
        for resource, amount in amounts.items():
            yield (place.group, resource, place.tree_id, is_parent, spec.parent, field), amount
