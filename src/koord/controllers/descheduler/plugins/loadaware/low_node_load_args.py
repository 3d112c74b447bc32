# SPDX-License-Identifier: Apache-2.0
"""Arguments of LowNodeLoad, and the pools of nodes that come of them.

Rule: docs/reference/descheduling-plugins.md#arguments-of-lownodeload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field, structs

from koord.api.duration import Duration
from koord.api.kinds.meta import LabelSelector
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import check_selector
from koord.controllers.descheduler.plugins.selection_args import SelectionArgs
from koord.controllers.scheduler.config.plugin_args import ConfigStruct

if TYPE_CHECKING:
    from koord.controllers.scheduler.config.field_path import FieldPath

Percentages = dict[str, float]
DEFAULT_POOL = "__default_node_pool__"
"""The pool that the top level of the arguments makes."""
_MINUTE = Duration(60_000_000_000)


class AnomalyCondition(ConfigStruct, frozen=True):
    """For how many rounds in a row a node has to be high, and normal again; 0 is the default."""

    timeout: Duration = _MINUTE
    consecutive_abnormalities: int = 5
    consecutive_normalities: int = 3

    def check(self, at: FieldPath) -> None:
        """Counters are above 0."""
        at.inside("consecutiveAbnormalities").at_least(self.consecutive_abnormalities, 1)
        at.inside("consecutiveNormalities").at_least(self.consecutive_normalities, 1)


class LoadPool(ConfigStruct, frozen=True):
    """Nodes that are judged by thresholds of their own; what is None is taken from the top."""

    name: str = ""
    node_selector: LabelSelector | None = None
    use_deviation_thresholds: bool = False
    high_thresholds: Percentages | None = None
    low_thresholds: Percentages | None = None
    prod_high_thresholds: Percentages | None = None
    prod_low_thresholds: Percentages | None = None
    resource_weights: dict[str, int] | None = None
    anomaly_condition: AnomalyCondition | None = None

    def check(self, at: FieldPath) -> None:
        """Percentages are not negative and in order; counters and the selector can be."""
        check_selector(self.node_selector, at.inside("nodeSelector"))
        pairs = (
            ("lowThresholds", self.low_thresholds, "highThresholds", self.high_thresholds),
            ("prodLowThresholds", self.prod_low_thresholds,
             "prodHighThresholds", self.prod_high_thresholds),
            ("prodHighThresholds", self.prod_high_thresholds,
             "highThresholds", self.high_thresholds),
        )  # fmt: skip
        for key, lower, upper_key, upper in pairs:
            for name, percent in (lower or {}).items():
                spot = at.inside(key, f'"{name}"')
                spot.need(percent >= 0, percent, "a number of 0 or more")
                most = (upper or {}).get(name, percent)
                spot.need(percent <= most, percent, f"at most the {most:g} of {upper_key}")
        for name, percent in (self.high_thresholds or {}).items():
            spot = at.inside("highThresholds", f'"{name}"')
            spot.need(percent >= 0, percent, "a number of 0 or more")
        if self.anomaly_condition is not None:
            self.anomaly_condition.check(at.inside("anomalyCondition"))


class LowNodeLoadArgs(SelectionArgs, frozen=True):
    """Which nodes are too loaded, and which pods may leave them."""

    paused: bool = False
    dry_run: bool = False
    number_of_nodes: int = 0
    node_metric_expiration_seconds: int = 180
    node_fit: bool = True
    use_deviation_thresholds: bool = False
    high_thresholds: Percentages | None = None
    low_thresholds: Percentages | None = None
    prod_high_thresholds: Percentages | None = None
    prod_low_thresholds: Percentages | None = None
    resource_weights: dict[str, int] | None = None
    anomaly_condition: AnomalyCondition = field(default_factory=AnomalyCondition)
    detector_cache_timeout: Duration = Duration(300_000_000_000)
    node_pools: list[LoadPool] = []

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Counters of 0 are their defaults, those of a pool the ones of the top."""
        condition = _without_zeros(document.get("anomalyCondition"))
        pools = document.get("nodePools")
        made = dict(document)
        if isinstance(condition, dict):
            made["anomalyCondition"] = condition
        if isinstance(pools, list):
            made["nodePools"] = [_pool_document(pool, condition) for pool in pools]
        return made

    def check(self, at: FieldPath) -> None:
        """Everything is in range, that of pools with what they take from the top."""
        at.inside("numberOfNodes").at_least(self.number_of_nodes, 0)
        seconds = self.node_metric_expiration_seconds
        at.inside("nodeMetricExpirationSeconds").at_least(seconds, 1)
        super().check(at)
        top, *others = self.pools()
        top.check(at)
        for index, pool in enumerate(others):
            pool.check(at.inside("nodePools", index))

    def pools(self) -> list[LoadPool]:
        """The pool of the top level, then the others, with all that they take from it."""
        top = LoadPool(
            name=DEFAULT_POOL,
            node_selector=self.node_selector,
            use_deviation_thresholds=self.use_deviation_thresholds,
            high_thresholds=self.high_thresholds,
            low_thresholds=self.low_thresholds,
            prod_high_thresholds=self.prod_high_thresholds,
            prod_low_thresholds=self.prod_low_thresholds,
            resource_weights=self._weights(),
            anomaly_condition=self.anomaly_condition,
        )
        shared = (
            "high_thresholds", "low_thresholds", "prod_high_thresholds", "prod_low_thresholds",
            "resource_weights", "anomaly_condition",
        )  # fmt: skip
        return [top, *(_inheriting(pool, top, shared) for pool in self.node_pools)]

    def _weights(self) -> dict[str, int]:
        """1 for cpu, memory and what thresholds name, where nothing above 0 is given."""
        named = {"cpu", "memory", *(self.low_thresholds or {}), *(self.high_thresholds or {})}
        given = dict(self.resource_weights or {})
        return given | {name: 1 for name in sorted(named) if given.get(name, 0) <= 0}


def _inheriting(pool: LoadPool, top: LoadPool, fields: tuple[str, ...]) -> LoadPool:
    missing = {name: getattr(top, name) for name in fields if getattr(pool, name) is None}
    return structs.replace(pool, **missing)


def _without_zeros(condition: Any) -> Any:
    if not isinstance(condition, dict):
        return condition
    return {key: value for key, value in condition.items() if value not in (0, None)}


def _pool_document(pool: Any, top: Any) -> Any:
    if not isinstance(pool, dict) or not isinstance(pool.get("anomalyCondition"), dict):
        return pool
    counters = ("consecutiveAbnormalities", "consecutiveNormalities")
    inherited = {key: top[key] for key in counters if isinstance(top, dict) and key in top}
    return pool | {"anomalyCondition": inherited | _without_zeros(pool["anomalyCondition"])}
