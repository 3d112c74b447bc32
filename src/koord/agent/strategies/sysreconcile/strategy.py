# SPDX-License-Identifier: Apache-2.0
"""Sets kernel settings of the whole node.

Rule: docs/reference/strategies.md#system-settings. What is not configured is not claimed, so it
keeps, or gets back, what it said before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.claim import Claim
from koord.agent.strategies import one_node, pod_resources, readings
from koord.agent.strategies.sysreconcile import decision
from koord.api.protocol.resources import MEMORY
from koord.base.errors import Code, KoordError
from koord.kernels.cgroup import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.slo_strategies import SystemStrategy

_FIELDS = {
    "watermark_scale_factor": "watermark_scale_factor",
    "reap_background": "memcg_reap_back_ground",
    "sched_group_identity_enabled": "sched_group_identity_enabled",
    "sched_idle_saver_wmark": "sched_idle_saver_wmark",
    "enabled": "page_cache_limit_enabled",
}
_REASON = "systemStrategy"


class SystemConfig:
    """Claims kernel settings of the node.

    It looks at the node's memory only, so no age of measurements matters.
    """

    name = "sysreconcile"
    gate = "SystemConfig"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.reconcile_interval_seconds

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; see the protocol."""
        strategy = readings.slo_spec(tick).system_strategy
        if strategy is None:
            raise KoordError("NodeSLO", "systemStrategy", None, "a strategy", Code.NOT_FOUND)
        memory = pod_resources.amount(readings.node(tick).status.capacity, MEMORY) or 0
        values, skipped = _values(strategy, memory)
        claims = [Claim(name, "", value, _REASON) for name, value in values.items()]
        claims += [
            Claim("sched_features", "", name if on else f"NO_{name}", _REASON)
            for name, on in sorted(strategy.sched_features.items())
        ]
        hands.executor.state(self.name, "node", claims)
        summary: dict[str, object] = {"set": values, "features": len(strategy.sched_features)}
        return {**summary, "out_of_range": skipped} if skipped else summary

    def stop(self, hands: Actuators) -> None:
        """Takes all claims back."""
        hands.executor.withdraw(self.name)


def _values(strategy: SystemStrategy, memory_bytes: int) -> tuple[dict[str, int], list[str]]:
    """Settings by file, and the fields that are out of range."""
    values: dict[str, int] = {}
    skipped: list[str] = []
    factor = strategy.min_free_kbytes_factor
    if factor is not None:
        least = one_node.amount(
            decision.min_free_kbytes(one_node.row(memory_bytes), one_node.row(factor))
        )
        if least == decision.UNSET:
            skipped.append("min_free_kbytes_factor")
        else:
            values["min_free_kbytes"] = least
    for resource, field in _FIELDS.items():
        value = getattr(strategy, field)
        if value is None:
            continue
        if _valid(resource, value):
            values[resource] = value
        else:
            skipped.append(field)
    return values, skipped


def _valid(resource: str, value: int) -> bool:
    file = CATALOGUE[resource].v1
    limits = file.range if file else None
    return limits is None or limits[0] <= value <= limits[1]
