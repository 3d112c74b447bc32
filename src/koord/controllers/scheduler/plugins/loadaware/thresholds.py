# SPDX-License-Identifier: Apache-2.0
"""Above which load no pod comes in: of the arguments, or of a node's own annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import nodes as node_protocol
from koord.base import log
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.duration import Duration
    from koord.api.kinds.node import Node
    from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs

_LOG = log.get("scheduler")
_NONE: Mapping[str, int] = {}

AggregateKey = tuple[str, int]
"""Statistic and nanoseconds of an aggregate; 0 for the longest that is reported."""


def aggregate_key(statistic: str, duration: Duration | None) -> AggregateKey | None:
    """Which aggregate is meant, None for none."""
    if not statistic:
        return None
    return statistic, duration.nanoseconds if duration is not None else 0


class Thresholds(NamedTuple):
    """Percentages by resource; 0 or absent does not check.

    Rule: docs/reference/load.md#arguments.

    Attributes:
        plain: of the present usage.
        prod: of what Prod pods use, for Prod pods; where any is set they go before the others.
        aggregate: of an aggregate, in place of the present usage.
        key: that aggregate; None where none is configured.
    """

    plain: Mapping[str, int]
    prod: Mapping[str, int]
    aggregate: Mapping[str, int]
    key: AggregateKey | None

    @classmethod
    def of_args(cls, args: LoadAwareSchedulingArgs) -> Thresholds:
        """What holds for nodes without thresholds of their own."""
        part, key = args.aggregated, None
        if part is not None and part.usage_thresholds:
            key = aggregate_key(part.usage_aggregation_type, part.usage_aggregated_duration)
        return cls(
            args.usage_thresholds,
            args.prod_usage_thresholds,
            part.usage_thresholds if part is not None and key is not None else _NONE,
            key,
        )

    def of(self, node: Node) -> Thresholds:
        """These, each part replaced whole by the node's own where it has one."""
        try:
            own = node_protocol.usage_thresholds(node)
        except KoordError as error:
            _LOG.warning("ignored", extra=log.fields(node=node.title, error=str(error)))
            return self
        if own is None:
            return self
        plain = own.usage_thresholds or self.plain
        prod = own.prod_usage_thresholds or self.prod
        part = own.aggregated_usage
        if part is not None and part.usage_thresholds:
            key = aggregate_key(part.usage_aggregation_type, part.usage_aggregated_duration)
            if key is not None:
                return Thresholds(plain, prod, part.usage_thresholds, key)
        return Thresholds(plain, prod, self.aggregate, self.key)
