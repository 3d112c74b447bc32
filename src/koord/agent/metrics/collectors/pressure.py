# SPDX-License-Identifier: Apache-2.0
"""Pressure stall information of pods and containers.

Rule: docs/reference/measuring.md#pressure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.host.kernel.features import Feature
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Keys, Samples

if TYPE_CHECKING:
    from koord.agent.metrics.cgroup_tables import CgroupRows
    from koord.agent.metrics.options import MetricsOptions

_FILES = {"cpu": "cpu.pressure", "mem": "memory.pressure", "io": "io.pressure"}
_DEGREES = ("some", "full")
_PRECISION = "10"
_Labelled = tuple[Keys, Keys]


class PressureCollector(Collector):
    """Percent of the last ten seconds in which some, or all, of the tasks stood still."""

    name = "pressure"
    gate = "PSICollector"
    needs = frozenset({Feature.PSI})

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.pressure
        self._rows: CgroupRows | None = None
        self._keys: dict[tuple[str, str], _Labelled] = {}

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; a cgroup one of whose three files cannot be read has no sample."""
        samples = Samples(now.now_ms)
        if not now.knows_pods:
            return samples
        readings = {word: now.read_cgroups(file) for word, file in _FILES.items()}
        rows = readings["cpu"].rows
        self._learn(rows)
        good = np.logical_and.reduce([reading.good for reading in readings.values()])
        for (word, degree), (pod_keys, container_keys) in self._keys.items():
            values = np.where(good, readings[word].table[f"{degree}_avg10"], np.nan)
            pods, containers = rows.split(values)
            samples.add(MetricKind.POD_PSI, pod_keys, pods)
            samples.add(MetricKind.CONTAINER_PSI, container_keys, containers)
        # The kernel writes no "full" line for CPUs before 5.13.
        full = np.where(good, readings["cpu"].table["full_supported"], np.nan)
        pods, containers = rows.split(full)
        samples.add(MetricKind.POD_PSI_CPU_FULL_SUPPORTED, rows.pod_keys, pods)
        keys = rows.container_pod_keys
        samples.add(MetricKind.CONTAINER_PSI_CPU_FULL_SUPPORTED, keys, containers)
        return samples

    def _learn(self, rows: CgroupRows) -> None:
        if rows is self._rows:
            return
        self._rows = rows
        for word in _FILES:
            for degree in _DEGREES:
                tail = (word, _PRECISION, degree)
                pods = tuple((*key, *tail) for key in rows.pod_keys)
                containers = tuple((*key, *tail) for key in rows.container_pod_keys)
                self._keys[word, degree] = (pods, containers)
