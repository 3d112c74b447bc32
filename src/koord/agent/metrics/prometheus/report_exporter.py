# SPDX-License-Identifier: Apache-2.0
"""The Prometheus series of what was last reported: usage, and what prod pods will not use.

Rule: docs/reference/reports.md#prometheus-series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.nodemetric import ResourceMap
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.resources import CPU, MEMORY
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from koord.agent.metrics.prometheus.pod_exporter import MakeGauge
    from koord.api.kinds.nodemetric import NodeMetricStatus
    from koord.base.metrics import Metric

_MILLI = 1000
_AMOUNT = ("resource", "unit")
_NUMA = ("numa_node_id", *_AMOUNT)
_CLASS = ("priority", *_AMOUNT)
_PREDICTED = ("predictor", *_AMOUNT)
# The smaller of what two predictors leave, which is what is reported; in the original's word.
_JOINED = "minPredictor"
_PROD = PriorityClass.PROD.value
_NOTHING = ResourceMap(resources={CPU: Quantity(), MEMORY: Quantity()})


class ReportExporter:
    """Gauges over a NodeMetric's status; whoever owns them clears them.

    Args:
        gauge: declares one.
        node: the first label's value.
        usage: whether usage is told (gate NodeMetricPromMetrics).
    """

    def __init__(self, gauge: MakeGauge, node: str, *, usage: bool) -> None:
        self._node, self._usage = node, usage
        self._reclaimable = gauge(
            "koordlet_node_predicted_resource_reclaimable", "What may be lent.", _PREDICTED
        )
        self._peak = gauge(
            "koordlet_node_predicted_resource_peak", "What prod pods may come to use.", _PREDICTED
        )
        self._of_class = gauge(
            "koordlet_node_priority_resource_reclaimable", "What may be lent, by class.", _CLASS
        )
        self._failed = gauge(
            "koordlet_node_resource_priority_reclaimable_status",
            "0 where that could be predicted, else 1.", ("priority",),
        )  # fmt: skip
        if usage:
            name = "koordlet_node_metric"
            self._of_node = gauge(f"{name}_node_usage", "Usage as reported.", _AMOUNT)
            self._of_system = gauge(f"{name}_system_usage", "The system's, as reported.", _AMOUNT)
            self._of_numa = gauge(f"{name}_numa_node_usage", "Usage by NUMA node.", _NUMA)
            self._of_numa_system = gauge(f"{name}_numa_system_usage", "The system's.", _NUMA)

    def refresh(self, status: NodeMetricStatus | None) -> None:
        """Fills them; before the first report there is nothing to tell."""
        if status is None:
            return
        for gauge, predicted in (
            (self._reclaimable, status.prod_reclaimable_metric),
            (self._peak, status.prod_peak_metric),
        ):
            self._refresh_usage(gauge, predicted.resource if predicted else None, _JOINED)
        self._export_class(status)
        if not self._usage or status.node_metric is None:
            return
        self._refresh_usage(self._of_node, status.node_metric.node_usage)
        self._refresh_usage(self._of_system, status.node_metric.system_usage)
        for zone in status.node_metric.numa_usages:
            self._refresh_usage(self._of_numa, zone.node_usage, str(zone.numa_node_id))
            self._refresh_usage(self._of_numa_system, zone.system_usage, str(zone.numa_node_id))

    def _export_class(self, status: NodeMetricStatus) -> None:
        """What is not predicted is nothing, and the status says so."""
        predicted = status.prod_reclaimable_metric
        amounts = predicted.resource if predicted else None
        failed = amounts is None or not amounts.resources
        self._failed.labels(self._node, _PROD).set(float(failed))
        self._refresh_usage(self._of_class, _NOTHING if failed else amounts, _PROD)

    def _refresh_usage(self, gauge: Metric, amounts: ResourceMap | None, *labels: str) -> None:
        found = amounts.resources if amounts else {}
        if CPU in found:
            cores = found[CPU].milli(Rounding.DOWN) / _MILLI
            gauge.labels(self._node, *labels, CPU, "core").set(cores)
        if MEMORY in found:
            held = found[MEMORY].value(Rounding.DOWN)
            gauge.labels(self._node, *labels, MEMORY, "byte").set(held)
