# SPDX-License-Identifier: Apache-2.0
"""The metric of shared weights that admission filled in, under the original's name.

Rule: docs/reference/admission.md#metrics-of-reviews.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.quota import ElasticQuota
from koord.kernels.quantity import Format

if TYPE_CHECKING:
    from koord.controllers.webhook.framework.handler import HandlerDependencies

MOST_SERIES = 8_192
"""Of more the oldest quotas are told no more; one with more resources than that never is."""


class SharedWeights:
    """A gauge for each resource of each quota; it goes with the quota.

    Args:
        given: views and metrics.
    """

    def __init__(self, given: HandlerDependencies) -> None:
        self._gauge = given.metrics.gauge(
            "koord_manager_webhook_quota_shared_weight",
            "The shared weight of the quota", ("elasticquota_name", "resource_name"),
        )  # fmt: skip
        self._resources: dict[str, tuple[str, ...]] = {}
        self._series = 0
        view = given.views.view(ElasticQuota)
        view.on_change(None, None, lambda item, _: self._forget(item.metadata.name))

    def filled(self, item: ElasticQuota) -> None:
        """A new quota had no weight, and was given its max.

        Args:
            item: as it came.
        """
        name, most = item.metadata.name, item.spec.max
        self._forget(name)
        if not name or len(most) > MOST_SERIES:
            return
        while self._series + len(most) > MOST_SERIES:
            self._forget(next(iter(self._resources)))
        self._resources[name] = tuple(most)
        self._series += len(most)
        for resource, amount in most.items():
            # Not by an integer: koord-scheduler's own quotas have more than its thousandths hold.
            number = float(str(amount.with_format(Format.DECIMAL_EXPONENT)))
            self._gauge.labels(name, resource).set(number)

    def _forget(self, name: str) -> None:
        resources = self._resources.pop(name, ())
        self._series -= len(resources)
        for resource in resources:
            self._gauge.remove(name, resource)
