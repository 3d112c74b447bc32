# SPDX-License-Identifier: Apache-2.0
"""Collectors by name: koord's own, and those of other packages.

A package adds one through an entry point of the group ``koord.agent.collectors``: a name, and a
callable ``(settings) -> Collector``. Modules are imported when their collector is switched on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from koord.base import log
from koord.base.distributions import other_entry_points
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.metadata import EntryPoint

    from koord.agent.host.kernel.features import Features
    from koord.agent.metrics.collector import Collector
    from koord.agent.metrics.options import MetricsOptions
    from koord.base.feature_gates import FeatureGates

GROUP = "koord.agent.collectors"
_PACKAGE = "koord.agent.metrics.collectors"
_LOG = log.get("agent.metrics")

BUILT_IN = {
    "node": "node:NodeCollector",
    "numa": "numa:NUMACollector",
    "pods": "pods:PodsCollector",
    "throttling": "throttling:ThrottlingCollector",
    "best-effort": "best_effort:BestEffortCollector",
    "host-applications": "host_applications:HostApplicationsCollector",
    "system": "system:SystemCollector",
    "page-cache": "page_cache:PageCacheCollector",
    "cold-pages": "cold_pages:ColdPagesCollector",
    "pressure": "pressure:PressureCollector",
    "cpi": "cpi:CPICollector",
    "resctrl": "resctrl:ResctrlCollector",
    "gpu": "gpu:GPUCollector",
    "xpu": "inventory:XPUCollector",
    "rdma": "inventory:RDMACollector",
    "cpu-info": "inventory:ProcessorCollector",
    "numa-info": "inventory:NUMAInfoCollector",
    "storage": "inventory:StorageCollector",
}
"""In the order in which those run that are due together: each after what it builds on."""

_SWITCHES: dict[str, Callable[[MetricsOptions], bool]] = {
    "page-cache": lambda settings: settings.page_cache,
    "resctrl": lambda settings: settings.resctrl_enabled,
    "gpu": lambda settings: not settings.devices_from_files,
}
"""Flags beside the gates."""


def collectors(
    settings: MetricsOptions,
    gates: FeatureGates,
    features: Features,
    outside: Iterable[EntryPoint] | None = None,
) -> list[Collector]:
    """Makes every collector that is switched on and that this machine can serve.

    One whose interval is 0 is switched off.

    Args:
        settings: flags.
        gates: gates of the agent.
        features: of the machine; what is missing is told once.
        outside: entry points of other packages; those that are installed by default.

    Raises:
        KoordError: two collectors have one name, or one of another package cannot be made.
    """
    found = [built_in(name, settings) for name in BUILT_IN if _switched_on(name, settings)]
    found += _outside(settings, other_entry_points(GROUP) if outside is None else outside)
    found = [one for one in found if one.interval_seconds > 0]
    return [one for one in found if _enabled(one, gates) and _served(one, features)]


def built_in(name: str, settings: MetricsOptions) -> Collector:
    """One of koord's own, whatever gates and flags say; KeyError for a name of no collector."""
    module, _, kind = BUILT_IN[name].partition(":")
    made: Collector = getattr(import_module(f"{_PACKAGE}.{module}"), kind)(settings)
    return made


def _switched_on(name: str, settings: MetricsOptions) -> bool:
    return name not in _SWITCHES or _SWITCHES[name](settings)


def _outside(settings: MetricsOptions, points: Iterable[EntryPoint]) -> list[Collector]:
    made: dict[str, Collector] = {}
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        if point.name in BUILT_IN or point.name in made:
            raise KoordError(f"collector {point.value}", "name", point.name, "one not taken yet")
        made[point.name] = _checked(point, settings)
    return list(made.values())


def _checked(point: EntryPoint, settings: MetricsOptions) -> Collector:
    try:
        made: Any = point.load()(settings)
    except Exception as error:
        raise KoordError.wrap(f"collector {point.value}", point.name, error) from error
    for name in ("name", "gate", "interval_seconds", "collect"):
        if not hasattr(made, name):
            raise KoordError(f"collector {point.value}", name, "nothing", "what a Collector has")
    collector: Collector = made
    return collector


def _enabled(collector: Collector, gates: FeatureGates) -> bool:
    return not collector.gate or gates.enabled(collector.gate)


def _served(collector: Collector, features: Features) -> bool:
    for feature in sorted(collector.needs):
        if not features.has(feature):
            _LOG.info(f"collector {collector.name} is off: {features.missing[feature]}")
            return False
    return True
