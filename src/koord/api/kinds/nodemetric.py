# SPDX-License-Identifier: Apache-2.0
"""NodeMetric: what the agent of a node has measured and predicts."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from koord.api.duration import Duration
from koord.api.kinds.device import DeviceInfo
from koord.api.kinds.meta import Object, ResourceList
from koord.api.schema import REQUIRED, FreeForm, Int32, Schema, Time
from koord.api.wirestruct import WireStruct, emitted

WITHOUT_PAGE_CACHE: Final = "usageWithoutPageCache"
WITH_PAGE_CACHE: Final = "usageWithPageCache"
WITH_HOT_PAGES: Final = "usageWithHotPageCache"


class NodeAggregatePolicy(WireStruct):
    """Over which windows the agent aggregates usage."""

    durations: list[Duration] = []


class NodeMetricCollectPolicy(WireStruct):
    """How the agent collects and reports.

    Attributes:
        aggregateDurationSeconds: window of the plain averages.
        reportIntervalSeconds: time between two reports.
        nodeMemoryCollectPolicy: which page cache counts as used memory.
    """

    aggregate_duration_seconds: int | None = None
    report_interval_seconds: int | None = None
    node_aggregate_policy: NodeAggregatePolicy | None = None
    node_memory_collect_policy: Annotated[
        str | None,
        Schema(enum=(WITH_HOT_PAGES, WITHOUT_PAGE_CACHE, WITH_PAGE_CACHE)),
    ] = None


class NodeMetricSpec(WireStruct):
    """What the manager asks the agent to report."""

    metric_collect_policy: NodeMetricCollectPolicy | None = None


class ResourceMap(WireStruct):
    """Amounts by resource name, and devices with their amounts."""

    resources: ResourceList = {}
    devices: list[DeviceInfo] = []


class AggregatedUsage(WireStruct):
    """Usage over one window by statistic: avg, p50, p90, p95, p99."""

    usage: dict[str, ResourceMap] = {}
    duration: Duration | None = None


class NUMAUsage(WireStruct):
    """Usage of one NUMA node."""

    numa_node_id: Annotated[Int32, REQUIRED] = emitted(int)
    node_usage: ResourceMap | None = None
    system_usage: ResourceMap | None = None


class ClassSummary(WireStruct):
    """Sums over a group of pods, filled for readers that want one line a class."""

    usage: ResourceList = {}
    request: ResourceList = {}
    limit: ResourceList = {}


class NodeMetricInfo(WireStruct):
    """Usage of the node: all of it, and what neither pods nor host applications account for.

    Attributes:
        usage: read-only summary of nodeUsage.
        request: read-only sum of the pods' requests.
        limit: read-only sum of the pods' limits.
    """

    node_usage: ResourceMap | None = None
    aggregated_node_usages: list[AggregatedUsage] = []
    system_usage: ResourceMap | None = None
    aggregated_system_usages: list[AggregatedUsage] = []
    numa_usages: list[NUMAUsage] = []
    usage: ResourceList = {}
    request: ResourceList = {}
    limit: ResourceList = {}


class PodMetricInfo(WireStruct):
    """Usage of one pod."""

    name: str = ""
    namespace: str = ""
    pod_usage: ResourceMap | None = None
    priority: str = ""
    qos: str = ""
    extensions: FreeForm = {}


class HostApplicationMetricInfo(WireStruct):
    """Usage of one host application."""

    name: str = ""
    usage: ResourceMap | None = None
    priority: str = ""
    qos: str = ""


class Prediction(WireStruct):
    """A predicted amount."""

    resource: ResourceMap | None = None


class PodName(WireStruct):
    """Which pod a summary is about."""

    namespace: str = ""
    name: str = ""


class ContainerSummary(WireStruct):
    """Usage and bounds of one container in a summary."""

    name: str = ""
    usage: ResourceList = {}
    request: ResourceList = {}
    limit: ResourceList = {}


class PodSummary(WireStruct):
    """The containers of one pod in a summary."""

    pod_ref: PodName | None = None
    containers: list[ContainerSummary] = []


class NodeMetricStatus(WireStruct):
    """What the agent reports.

    Attributes:
        prodReclaimableMetric: what Prod pods request and will not use.
        prodPeakMetric: predicted peak of Prod pods, system usage and margin included.
        beMetric: read-only summary of the BE pods.
        lsMetric: read-only summary of the LS pods.
        podMetrics: read-only summary by pod and container.
    """

    update_time: Time | None = None
    node_metric: NodeMetricInfo | None = None
    pods_metric: list[PodMetricInfo] = []
    host_application_metric: list[HostApplicationMetricInfo] = []
    prod_reclaimable_metric: Prediction | None = None
    prod_peak_metric: Prediction | None = None
    be_metric: ClassSummary | None = None
    ls_metric: ClassSummary | None = None
    pod_metrics: list[PodSummary] = []


class NodeMetric(Object):
    """The measured load of the node of the same name."""

    spec: NodeMetricSpec = field(default_factory=NodeMetricSpec)
    status: NodeMetricStatus = field(default_factory=NodeMetricStatus)
