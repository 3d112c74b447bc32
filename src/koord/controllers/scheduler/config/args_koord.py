# SPDX-License-Identifier: Apache-2.0
"""Arguments of LoadAwareScheduling, NodeNUMAResource, DeviceShare and the small scoring plugins.

Names, defaults and bounds are the original's: docs/reference/load.md#arguments,
docs/reference/numa.md#scoring, docs/reference/devices.md#default-order-of-cards and
docs/reference/load.md#noderesourcesfitplus. PrioritySort's are koord's own:
docs/reference/scheduling.md#turns-of-namespaces.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from koord.api.duration import Duration
from koord.api.protocol import resources as names
from koord.controllers.scheduler.config.args_kube_scheduler import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    ScoredResource,
    check_resources,
    cpu_and_memory,
    strategies_with_weights,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, PluginArgs, without_empty

FRAGMENTATION_AWARE = "FragmentationAware"
FULL_PCPUS, SPREAD_BY_PCPUS = "FullPCPUs", "SpreadByPCPUs"
DEFAULT_ESTIMATOR, HISTOGRAM_ESTIMATOR = "defaultEstimator", "workloadHistogram"
UNFAIR, BY_NAMESPACE = "none", "namespace"

_SCALING_PERCENT = {names.CPU: 85, names.MEMORY: 70}


class AggregatedArgs(ConfigStruct, frozen=True):
    """Percentiles instead of the present usage, for filter and for score."""

    usage_thresholds: dict[str, int] = {}
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Duration = Duration(0)
    score_aggregation_type: str = ""
    score_aggregated_duration: Duration = Duration(0)

    def check(self, at: FieldPath) -> None:
        """Known percentiles, no negative time; 0 is the longest one that is reported."""
        at.inside("usageThresholds").all_between(self.usage_thresholds, 0, 100)
        kinds = {
            "usageAggregationType": self.usage_aggregation_type,
            "scoreAggregationType": self.score_aggregation_type,
        }
        for key, kind in kinds.items():
            at.inside(key).one_of(kind or "avg", names.AGGREGATION_TYPES)
        check_duration(self.usage_aggregated_duration, at.inside("usageAggregatedDuration"))
        check_duration(self.score_aggregated_duration, at.inside("scoreAggregatedDuration"))


def check_duration(duration: Duration, at: FieldPath) -> None:
    """Refuses a negative one."""
    at.need(duration.nanoseconds >= 0, str(duration), "a duration of 0 or more")


class LoadAwareSchedulingArgs(PluginArgs, frozen=True):
    """Which nodes are too loaded, and how a pod's load is estimated before it is measured."""

    filter_expired_node_metrics: bool = True
    node_metric_expiration_seconds: int = 180
    enable_schedule_when_node_metrics_expired: bool = False
    resource_weights: dict[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    dominant_resource_weight: int = 0
    usage_thresholds: dict[str, int] = field(default_factory=lambda: {"cpu": 65, "memory": 95})
    prod_usage_thresholds: dict[str, int] = {}
    prod_usage_include_sys: bool = False
    score_according_prod_usage: bool = False
    estimator: str = DEFAULT_ESTIMATOR
    estimated_scaling_factors: dict[str, int] = field(default_factory=_SCALING_PERCENT.copy)
    estimated_seconds_after_pod_scheduled: int | None = None
    estimated_seconds_after_initialized: int | None = None
    allow_customize_estimation: bool = False
    aggregated: AggregatedArgs | None = None
    supported_resources: list[str] = []

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Empty maps are their defaults; a dominant weight stands instead of default weights."""
        found = without_empty(document, "resourceWeights", "usageThresholds", "estimator")
        if "resourceWeights" not in found and found.get("dominantResourceWeight"):
            found["resourceWeights"] = {}
        factors = found.get("estimatedScalingFactors")
        if isinstance(factors, dict):
            found["estimatedScalingFactors"] = _SCALING_PERCENT | factors
        return found

    def check(self, at: FieldPath) -> None:
        """Percentages in range, and a scaling factor for every resource that is weighed."""
        seconds = self.node_metric_expiration_seconds
        at.inside("nodeMetricExpirationSeconds").at_least(seconds, 1)
        at.inside("resourceWeights").all_between(self.resource_weights, 1, 100)
        at.inside("dominantResourceWeight").between(self.dominant_resource_weight, 0, 100)
        at.inside("usageThresholds").all_between(self.usage_thresholds, 0, 100)
        at.inside("prodUsageThresholds").all_between(self.prod_usage_thresholds, 0, 100)
        at.inside("estimatedScalingFactors").all_between(self.estimated_scaling_factors, 1, 100)
        for name in self.resource_weights:
            known = name in self.estimated_scaling_factors
            expected = "a resource that is in estimatedScalingFactors too"
            at.inside("resourceWeights").need(known, name, expected)
        at.inside("estimator").one_of(self.estimator, (DEFAULT_ESTIMATOR, HISTOGRAM_ESTIMATOR))
        for index, name in enumerate(self.supported_resources):
            at.inside("supportedResources", index).qualified_name(name)
        if self.aggregated is not None:
            self.aggregated.check(at.inside("aggregated"))


class AllocationStrategy(ConfigStruct, frozen=True):
    """Spreads (LeastAllocated) or packs (MostAllocated) by weighted resources."""

    type: str = LEAST_ALLOCATED
    resources: list[ScoredResource] = field(default_factory=cpu_and_memory)

    def check(
        self, at: FieldPath, kinds: tuple[str, ...] = (LEAST_ALLOCATED, MOST_ALLOCATED)
    ) -> None:
        """A type that the plugin has, and weights of 1 to 100."""
        at.inside("type").one_of(self.type, kinds)
        check_resources(self.resources, at.inside("resources"))


class NodeNUMAResourceArgs(PluginArgs, frozen=True):
    """How pods without a CPU bind policy of their own are bound, and how zones are scored.

    With ``compatible_topology_policies``, koord's own, only the names of NUMA topology policies
    count that Koordinator's scheduler recognises in a NodeResourceTopology.
    """

    default_cpu_bind_policy: str = FULL_PCPUS
    scoring_strategy: AllocationStrategy = field(default_factory=AllocationStrategy)
    numa_scoring_strategy: AllocationStrategy = field(default_factory=AllocationStrategy)
    compatible_topology_policies: bool = False

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Fills in resources and weights."""
        return strategies_with_weights(document, "scoringStrategy", "numaScoringStrategy")

    def check(self, at: FieldPath) -> None:
        """An empty policy binds no CPUs unless the pod asks."""
        policy = self.default_cpu_bind_policy or FULL_PCPUS
        at.inside("defaultCPUBindPolicy").one_of(policy, (FULL_PCPUS, SPREAD_BY_PCPUS))
        self.scoring_strategy.check(at.inside("scoringStrategy"))
        self.numa_scoring_strategy.check(at.inside("numaScoringStrategy"))


def _device_resources() -> list[ScoredResource]:
    counted = (names.GPU_MEMORY_RATIO, names.GPU_MEMORY, names.RDMA, names.FPGA)
    return [ScoredResource(name=name) for name in counted]


class DeviceStrategy(AllocationStrategy, frozen=True):
    """The same over devices; FragmentationAware is koord's own.

    It prefers nodes where the pod leaves the least GPU capacity that typical pods cannot use
    (Weng et al., USENIX ATC 2023); ``resources`` do not count then.
    """

    resources: list[ScoredResource] = field(default_factory=_device_resources)


class SharedResourceTemplates(ConfigStruct, frozen=True):
    """Where the templates for shared GPUs are, and which requests have to equal one."""

    config_map_namespace: str = "koordinator-system"
    config_map_name: str = "gpu-shared-resource-templates"
    matched_resources: list[str] = field(default_factory=lambda: [names.NPU_CORE])


class UnsupportedModel(ConfigStruct, frozen=True):
    """A GPU model that cannot be shared."""

    vendor: str
    model: str


class DeviceShareArgs(PluginArgs, frozen=True):
    """How devices are chosen."""

    allocator: str = ""
    scoring_strategy: DeviceStrategy = field(default_factory=DeviceStrategy)
    disable_device_numa_topology_alignment: bool = False
    gpu_shared_resource_templates_config: SharedResourceTemplates = field(
        default_factory=SharedResourceTemplates
    )
    gpu_share_unsupported_models: list[UnsupportedModel] = []

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Fills in resources and weights."""
        return strategies_with_weights(document, "scoringStrategy")

    def check(self, at: FieldPath) -> None:
        """A known strategy, names that are names."""
        kinds = (LEAST_ALLOCATED, MOST_ALLOCATED, FRAGMENTATION_AWARE)
        self.scoring_strategy.check(at.inside("scoringStrategy"), kinds)
        spot = at.inside("gpuSharedResourceTemplatesConfig", "matchedResources")
        for index, name in enumerate(self.gpu_shared_resource_templates_config.matched_resources):
            spot.inside(index).qualified_name(name)


class WeighedStrategy(ConfigStruct, frozen=True):
    """How one resource is scored, and how much it counts."""

    type: str
    weight: int


class NodeResourcesFitPlusArgs(PluginArgs, frozen=True):
    """A strategy a resource: pack GPUs and spread CPUs, for example."""

    resources: dict[str, WeighedStrategy] = {}

    def check(self, at: FieldPath) -> None:
        """Known strategies with a weight above 0."""
        for name, strategy in self.resources.items():
            at.inside("resources").qualified_name(name)
            spot = at.inside("resources", f'"{name}"')
            spot.inside("type").one_of(strategy.type, (LEAST_ALLOCATED, MOST_ALLOCATED))
            spot.inside("weight").at_least(strategy.weight, 1)


class ScarceResourceAvoidanceArgs(PluginArgs, frozen=True):
    """Resources that pods which do not ask for them should stay away from."""

    resources: list[str] = []

    def check(self, at: FieldPath) -> None:
        """Names are resource names."""
        for index, name in enumerate(self.resources):
            at.inside("resources", index).qualified_name(name)


class SchedulingHintArgs(PluginArgs, frozen=True):
    """How many preferred nodes of a pod are tried."""

    max_hint_nodes: int = 100

    def check(self, at: FieldPath) -> None:
        """The number of hinted nodes is at least one."""
        at.inside("maxHintNodes").at_least(self.max_hint_nodes, 1)


class PrioritySortArgs(PluginArgs, frozen=True):
    """Whose turn it is among pods of equal priority; kube-scheduler's plugin takes no arguments."""

    fairness: str = UNFAIR

    def check(self, at: FieldPath) -> None:
        """A known kind of fairness."""
        at.inside("fairness").one_of(self.fairness, (UNFAIR, BY_NAMESPACE))
