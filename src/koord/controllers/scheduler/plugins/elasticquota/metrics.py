# SPDX-License-Identifier: Apache-2.0
"""Quota figures as Prometheus series, under the original's names.

Rule: docs/reference/quota-scheduling.md#status.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from koord.base.metrics import registry
from koord.controllers.scheduler.plugins.elasticquota.figures import every_place, figures

if TYPE_CHECKING:
    from koord.base.metrics import Registry
    from koord.controllers.scheduler.plugins.elasticquota.groups import Place, QuotaGroups

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

    def __init__(self, metrics: Registry | None = None) -> None:
        into = metrics or registry()
        self._status = into.gauge(
            "scheduler_elastic_quota_status", "Figures of elastic quotas.", _LABELS
        )
        self._told: dict[tuple[str, ...], int] = {}

    @classmethod
    def of(cls, metrics: Registry) -> Self:
        """The series in a registry; where they are already another plugin's, nowhere."""
        try:
            return cls(metrics)
        except ValueError:
            return cls()

    def update(self, groups: QuotaGroups) -> None:
        """Brings all series up to date; those of groups that went go, too."""
        now: dict[tuple[str, ...], int] = {}
        for place in every_place(groups):
            now.update(_series(groups, place))
        for labels in self._told.keys() - now.keys():
            self._status.remove(*labels)
        for labels, amount in now.items():
            if self._told.get(labels) != amount:
                self._status.labels(*labels).set(amount)
        self._told = now


def _series(groups: QuotaGroups, place: Place) -> Iterator[tuple[tuple[str, ...], int]]:
    now = figures(groups.tree(place.tree_id), place.group)
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
