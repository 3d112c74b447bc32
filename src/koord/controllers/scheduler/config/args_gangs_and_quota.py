# SPDX-License-Identifier: Apache-2.0
"""Arguments of Reservation, ElasticQuota and Coscheduling.

Names, defaults and bounds are the original's:
docs/reference/reservations.md#life-of-a-reservation,
docs/reference/quota-scheduling.md#arguments, docs/reference/gangs.md#arguments-and-answers.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from koord.api.duration import Duration
from koord.api.protocol import gang
from koord.controllers.scheduler.config.args_koord import check_duration
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, PluginArgs, without_empty
from koord.kernels.quantity import Format, Quantity

# Above this, sums of a few quotas no longer fit into 64 bits.
CLUSTER_SCOPE, NAMESPACE_SCOPE = "cluster", "namespace"
SCOPES = (CLUSTER_SCOPE, NAMESPACE_SCOPE)
"""How far quotas and reservations reach: docs/reference/quota-scheduling.md#reach."""
_UNLIMITED = (2**63 - 1) // 5


class PreAllocationConfig(ConfigStruct, frozen=True):
    """Which running pods a reservation may take the place of."""

    enable_cluster_mode: bool = False
    cluster_label_key: str = "pod.koordinator.sh/is-pre-allocatable"
    cluster_priority_annotation_key: str = "pod.koordinator.sh/pre-allocatable-priority"
    prefer_no_pre_allocated_pods: bool = False


class ReservationSelectorIndexArgs(ConfigStruct, frozen=True):
    """Which labels of reservations are indexed for ``reservationSelector``."""

    enabled: bool = False
    key_prefixes: list[str] = []
    keys: list[str] = []


class ReservationArgs(PluginArgs, frozen=True):
    """Preemption, controllers and pre-allocation of reservations.

    ``reservationScope`` is koord's own: whether owners without a namespace are of all of them.
    """

    enable_preemption: bool = False
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    controller_workers: int = 1
    gc_duration_seconds: int = 86400
    gc_interval_seconds: int = 60
    disable_garbage_collection: bool = False
    resync_interval_seconds: int = 60
    pre_allocation_config: PreAllocationConfig = field(default_factory=PreAllocationConfig)
    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    reservation_selector_index: ReservationSelectorIndexArgs = field(
        default_factory=ReservationSelectorIndexArgs
    )
    reservation_scope: str = CLUSTER_SCOPE

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """A period of 0 is the default, and so is an empty key."""
        zeros = ("gcDurationSeconds", "gcIntervalSeconds", "resyncIntervalSeconds")
        found = without_empty(document, *zeros)
        inner = found.get("preAllocationConfig")
        if isinstance(inner, dict):
            keys = ("clusterLabelKey", "clusterPriorityAnnotationKey")
            found["preAllocationConfig"] = without_empty(inner, *keys)
        return found

    def check(self, at: FieldPath) -> None:
        """In range; only extended resources can be ignored."""
        percentage = self.min_candidate_nodes_percentage
        at.inside("minCandidateNodesPercentage").between(percentage, 0, 100)
        at.inside("minCandidateNodesAbsolute").at_least(self.min_candidate_nodes_absolute, 0)
        at.inside("controllerWorkers").at_least(self.controller_workers, 1)
        at.inside("gcDurationSeconds").at_least(self.gc_duration_seconds, 1)
        at.inside("gcIntervalSeconds").at_least(self.gc_interval_seconds, 1)
        at.inside("resyncIntervalSeconds").at_least(self.resync_interval_seconds, 1)
        at.inside("reservationScope").one_of(self.reservation_scope, SCOPES)
        for index, name in enumerate(self.ignored_resources):
            at.inside("ignoredResources", index).extended_resource(name)
        for index, group in enumerate(self.ignored_resource_groups):
            at.inside("ignoredResourceGroups", index).resource_group(group)
        inner = at.inside("preAllocationConfig")
        keys = self.pre_allocation_config
        inner.inside("clusterLabelKey").qualified_name(keys.cluster_label_key)
        annotation = keys.cluster_priority_annotation_key
        inner.inside("clusterPriorityAnnotationKey").qualified_name(annotation)


class HookPluginConf(ConfigStruct, frozen=True):
    """A hook of the quota tree: its name, who makes it, and with what."""

    key: str = ""
    factory_key: str = ""
    factory_args: str = ""


def _unlimited() -> dict[str, Quantity]:
    return {
        "cpu": Quantity.from_value(_UNLIMITED),
        "memory": Quantity.from_value(_UNLIMITED, Format.BINARY_SI),
    }


class ElasticQuotaArgs(PluginArgs, frozen=True):
    """The built-in quotas, checks, and what becomes of pods of a quota that uses too much.

    ``enableReclaim`` is koord's own: a pod within its quota that finds no node may take pods of
    quotas that use more than their share. So is ``quotaScope``: whether quotas reach pods of all
    namespaces.
    """

    delay_evict_time: Duration = Duration(120_000_000_000)
    revoke_pod_interval: Duration = Duration(1_000_000_000)
    default_quota_group_max: dict[str, Quantity] = field(default_factory=_unlimited)
    system_quota_group_max: dict[str, Quantity] = field(default_factory=_unlimited)
    quota_group_namespace: str = "koordinator-system"
    monitor_all_quotas: bool = False
    enable_check_parent_quota: bool = False
    enable_runtime_quota: bool = True
    enable_min_quota_scale: bool = True
    disable_default_quota_preemption: bool = True
    enable_reclaim: bool = False
    enable_queue_hint: bool = False
    quota_snapshot_update_interval: Duration = Duration(120_000_000_000)
    hook_plugins: list[HookPluginConf] = []
    quota_scope: str = CLUSTER_SCOPE

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Empty values are their defaults."""
        keys = ("defaultQuotaGroupMax", "systemQuotaGroupMax", "quotaGroupNamespace")
        return without_empty(document, *keys)

    def check(self, at: FieldPath) -> None:
        """Nothing is negative; a hook has a name."""
        check_duration(self.delay_evict_time, at.inside("delayEvictTime"))
        check_duration(self.revoke_pod_interval, at.inside("revokePodInterval"))
        spot = at.inside("quotaSnapshotUpdateInterval")
        interval = self.quota_snapshot_update_interval
        spot.need(interval.nanoseconds > 0, str(interval), "a duration above 0")
        greatest = {
            "defaultQuotaGroupMax": self.default_quota_group_max,
            "systemQuotaGroupMax": self.system_quota_group_max,
        }
        for key, amounts in greatest.items():
            for name, amount in amounts.items():
                spot = at.inside(key, f'"{name}"')
                spot.need(amount >= Quantity(), str(amount), "a quantity of 0 or more")
        at.inside("quotaScope").one_of(self.quota_scope, SCOPES)
        hooks = at.inside("hookPlugins")
        for index, hook in enumerate(self.hook_plugins):
            hooks.inside(index, "key").need(bool(hook.key), hook.key, "a name")
            spot = hooks.inside(index, "factoryKey")
            spot.need(bool(hook.factory_key), hook.factory_key, "the name of a factory")
        hooks.distinct([hook.key for hook in self.hook_plugins], "key")


class CoschedulingArgs(PluginArgs, frozen=True):
    """How long gangs wait, and what they may do meanwhile."""

    default_timeout: Duration = Duration(600_000_000_000)
    controller_workers: int = 1
    skip_check_schedule_cycle: bool = False
    enable_preemption: bool = False
    aware_network_topology: bool = False
    default_match_policy: str = gang.ONCE_SATISFIED

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """An empty policy is the default."""
        return without_empty(document, "defaultMatchPolicy")

    def check(self, at: FieldPath) -> None:
        """A known policy, no negative time."""
        check_duration(self.default_timeout, at.inside("defaultTimeout"))
        at.inside("controllerWorkers").at_least(self.controller_workers, 1)
        policies = (gang.ONCE_SATISFIED, gang.ONLY_WAITING, gang.WAITING_AND_RUNNING)
        at.inside("defaultMatchPolicy").one_of(self.default_match_policy, policies)
