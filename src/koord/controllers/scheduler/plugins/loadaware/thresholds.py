# SPDX-License-Identifier: Apache-2.0
"""Above which load no pod comes in: of the arguments, or of a node's own annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import nodes as node_protocol
from koord.base import log
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.node import Node
    from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs

_LOG = log.get("scheduler")


class Thresholds(NamedTuple):
    """Percentages by resource; 0 or absent does not check.

    Attributes:
        plain: of the present usage.
        prod: of what Prod pods use, for Prod pods; where any is set it goes before the others.
        aggregate: of an aggregate, in place of the present usage.
        aggregate_key: that aggregate's type and seconds; None where none is configured.
    """

    plain: Mapping[str, int]
    prod: Mapping[str, int]
    aggregate: Mapping[str, int]
    aggregate_key: tuple[str, int] | None

    @classmethod
    def of_args(cls, args: LoadAwareSchedulingArgs) -> Thresholds:
        """What holds for nodes that say nothing."""
        aggregated = args.aggregated
        if aggregated is None or not aggregated.usage_thresholds:
            return cls(args.usage_thresholds, args.prod_usage_thresholds, {}, None)
        duration = aggregated.usage_aggregated_duration
        seconds = duration.nanoseconds // 10**9 if duration is not None else 0
        key = (aggregated.usage_aggregation_type, int(seconds))
        return cls(
            args.usage_thresholds,
            args.prod_usage_thresholds,
            aggregated.usage_thresholds,
            key if key[0] else None,
        )

    def of(self, node: Node) -> Thresholds:
        """These, each part replaced whole by the node's own where it has one (section 4.1)."""
        try:
            own = node_protocol.usage_thresholds(node)
        except KoordError as error:
            _LOG.warning("ignored", extra=log.fields(node=node.title, error=str(error)))
            own = None
        if own is None:
            return self
        plain = own.usage_thresholds or self.plain
        prod = own.prod_usage_thresholds or self.prod
        part = own.aggregated_usage
        if part is None or not part.usage_thresholds or not part.usage_aggregation_type:
            return Thresholds(plain, prod, self.aggregate, self.aggregate_key)
        duration = part.usage_aggregated_duration
        seconds = duration.nanoseconds // 10**9 if duration is not None else 0
        key = (part.usage_aggregation_type, int(seconds))
        return Thresholds(plain, prod, part.usage_thresholds, key)
