# SPDX-License-Identifier: Apache-2.0
"""What strategies are made from: intervals, gates, and what only the agent as a whole has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.agent.feature_gates import feature_gates
from koord.agent.strategies.strategy_metrics import StrategyMetrics
from koord.base.metrics import registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.strategies.blkio.device_resolver import DeviceLookup
    from koord.base.feature_gates import FeatureGates


def _instruments() -> StrategyMetrics:
    return StrategyMetrics(registry(), "")


def _no_volume(namespace: str, claim: str) -> str:
    del namespace, claim
    return ""


@dataclass(frozen=True, slots=True)
class StrategyOptions:
    """Flags of koordlet that strategies read, with their defaults.

    Rule: docs/reference/measuring.md#intervals-and-flags. Outside strategies get the same object.

    Attributes:
        gates: the agent's feature gates.
        instruments: the Prometheus series of strategies.
        reconcile_interval_seconds: of everything that has no interval of its own.
        collect_interval_seconds: how often usage is measured.
        memory_evict_cool_seconds: pause after an eviction for want of memory.
        cpu_evict_cool_seconds: pause after an eviction for want of CPU.
        storage: lists block devices and mounts; None where nobody does.
        volume_of: the PersistentVolume of a claim by namespace and name; empty where it has none.
    """

    gates: FeatureGates = field(default_factory=feature_gates)
    instruments: StrategyMetrics = field(default_factory=_instruments)
    reconcile_interval_seconds: float = 1.0
    cpu_suppress_interval_seconds: float = 1.0
    cpu_evict_interval_seconds: float = 1.0
    memory_evict_interval_seconds: float = 1.0
    collect_interval_seconds: float = 1.0
    memory_evict_cool_seconds: float = 4.0
    cpu_evict_cool_seconds: float = 20.0
    storage: Callable[[], DeviceLookup] | None = None
    volume_of: Callable[[str, str], str] = _no_volume
