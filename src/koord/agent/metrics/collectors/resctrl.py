# SPDX-License-Identifier: Apache-2.0
"""Cache and memory bandwidth that classes use.

Rule: docs/reference/measuring.md#cache-and-bandwidth-of-classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.host.kernel import resctrl
from koord.agent.host.kernel.features import Feature
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.counter_rates import CounterRates
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.agent.metrics.options import MetricsOptions

GROUPS = ("LSR", "LS", "BE")


class ResctrlCollector(Collector):
    """Bytes in the cache, and bytes a second to and from memory, by class and cache domain."""

    name = "resctrl"
    gate = "ResctrlCollector"
    needs = frozenset({Feature.RESCTRL_MONITOR})

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.resctrl
        self._rates = CounterRates(settings.resctrl)

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; raises KoordError where no class has a group."""
        at_seconds = now.clock.monotonic_seconds()
        found, refused = _read(now.machine.roots.resctrl)
        if refused and not found:
            raise refused
        samples = Samples(now.now_ms)
        held = {key: use.occupancy_bytes for key, use in found.items()}
        values = [np.nan if value is None else float(value) for value in held.values()]
        samples.add(MetricKind.RESCTRL_LLC, tuple(held), values)
        moved = {(*key, "local"): use.local_bytes for key, use in found.items()}
        moved |= {(*key, "total"): use.total_bytes for key, use in found.items()}
        good = np.array([value is not None for value in moved.values()], np.bool_)
        counts = np.array([value or 0 for value in moved.values()], np.int64)
        change = self._rates.advance(tuple(moved), counts, good, at_seconds)
        samples.add(MetricKind.RESCTRL_MB, tuple(moved), change.per_second())
        return samples


def _read(root: str) -> tuple[dict[tuple[str, str], resctrl.CacheUsage], KoordError | None]:
    found, refused = {}, None
    for group in GROUPS:
        try:
            for use in resctrl.read_use(root, group):
                found[group, str(use.cache_id)] = use
        except KoordError as error:
            refused = error
    return found, refused
