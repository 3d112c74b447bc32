# SPDX-License-Identifier: Apache-2.0
"""Arguments of MigrationController.

Rule: docs/reference/migration.md#arguments.
"""

from __future__ import annotations

import math
import re
from typing import Any

from msgspec import field

from koord.api.duration import Duration
from koord.api.kinds.meta import LabelSelector
from koord.api.kinds.migration import EVICT_DIRECTLY, RESERVATION_FIRST, DeleteOptions
from koord.api.schema import IntOrString
from koord.controllers.descheduler.plugins.kubernetes.default_evictor import PriorityThreshold
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import (
    Namespaces,
    check_selector,
    check_selector_text,
    check_words,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, PluginArgs

EVICTION, DELETE, SOFT_EVICTION = "Eviction", "Delete", "SoftEviction"
POLICIES = (EVICTION, DELETE, SOFT_EVICTION)
"""How a pod is evicted."""
WORKLOAD, NAMESPACE = "workload", "namespace"
OBJECT_KINDS = (WORKLOAD, NAMESPACE)
"""What the limiter of objects counts by."""
GATES = (
    "MaxUnavailablePerWorkload", "MaxMigratingPerWorkload", "MaxMigratingPerNode",
    "MaxMigratingPerNamespace", "MaxMigratingGlobally", "ExpectedReplicas", "PVC", "BarePods",
    "LocalStorage", "SystemCritical", "PriorityThreshold", "LabelSelector", "Namespaces",
    "NodeFit",
)  # fmt: skip
"""Checks that ``skipEvictionGates`` may leave out."""
_PERCENTAGE = re.compile(r"[0-9]{1,9}%")
_MOST = 2**31 - 1


class ObjectLimiterArgs(ConfigStruct, frozen=True):
    """How many pods of one workload, or namespace, may be evicted in a time."""

    duration: Duration = field(default_factory=lambda: Duration(0))
    max_migrating: IntOrString | None = None
    burst: int = 0


class ArbitrationArgs(ConfigStruct, frozen=True):
    """When waiting jobs are looked at; ``enabled`` is read and says nothing."""

    enabled: bool = True
    interval: Duration = field(default_factory=lambda: Duration.parse("500ms"))


def _limiters() -> dict[str, ObjectLimiterArgs]:
    return {WORKLOAD: ObjectLimiterArgs(duration=Duration.parse("5m"))}


class MigrationControllerArgs(PluginArgs, frozen=True):
    """Which pods may be moved, how many at a time, and how."""

    dry_run: bool = False
    max_concurrent_reconciles: int = 1
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: PriorityThreshold | None = None
    label_selector: LabelSelector | None = None
    namespaces: Namespaces | None = None
    node_fit: bool = False
    node_selector: str = ""
    skip_eviction_gates: list[str] = []
    max_migrating_globally: int | None = None
    max_migrating_per_node: int | None = 2
    max_migrating_per_namespace: int | None = None
    max_migrating_per_workload: IntOrString | None = None
    max_unavailable_per_workload: IntOrString | None = None
    skip_check_expected_replicas: bool = False
    object_limiters: dict[str, ObjectLimiterArgs] = field(default_factory=_limiters)
    default_job_mode: str = RESERVATION_FIRST
    default_job_ttl: Duration = field(
        default_factory=lambda: Duration.parse("5m"), name="defaultJobTTL"
    )
    scheduler_names: list[str] = field(default_factory=lambda: ["koord-scheduler"])
    evict_qps: float | str = field(default=10.0, name="evictQPS")
    evict_burst: int = 1
    eviction_policy: str = EVICTION
    default_delete_options: DeleteOptions | None = None
    arbitration_args: ArbitrationArgs = field(default_factory=ArbitrationArgs)

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """An empty list of schedulers, or map of limiters, is none: the defaults hold."""
        keys = ("schedulerNames", "objectLimiters", "defaultJobMode", "evictionPolicy")
        return {key: value for key, value in document.items() if value or key not in keys}

    def check(self, at: FieldPath) -> None:
        """Well formed and not negative; what it names exists."""
        check_words(self.skip_eviction_gates, GATES, at.inside("skipEvictionGates"))
        check_selector(self.label_selector, at.inside("labelSelector"))
        check_selector_text(self.node_selector, at.inside("nodeSelector"))
        if self.namespaces is not None:
            self.namespaces.check(at.inside("namespaces"))
        if self.priority_threshold is not None:
            self.priority_threshold.check(at.inside("priorityThreshold"))
        at.inside("maxConcurrentReconciles").at_least(self.max_concurrent_reconciles, 1)
        at.inside("defaultJobMode").one_of(
            self.default_job_mode, (RESERVATION_FIRST, EVICT_DIRECTLY)
        )
        at.inside("evictionPolicy").one_of(self.eviction_policy, POLICIES)
        _check_time(self.default_job_ttl, at.inside("defaultJobTTL"))
        _check_time(self.arbitration_args.interval, at.inside("arbitrationArgs", "interval"))
        self._check_limits(at)
        self._check_rates(at)

    def _check_limits(self, at: FieldPath) -> None:
        for key, limit in (
            ("maxMigratingGlobally", self.max_migrating_globally),
            ("maxMigratingPerNode", self.max_migrating_per_node),
            ("maxMigratingPerNamespace", self.max_migrating_per_namespace),
        ):
            at.inside(key).at_least(limit or 0, 0)
        check_amount(self.max_migrating_per_workload, at.inside("maxMigratingPerWorkload"))
        check_amount(self.max_unavailable_per_workload, at.inside("maxUnavailablePerWorkload"))
        for kind, limiter in self.object_limiters.items():
            spot = at.inside("objectLimiters")
            spot.one_of(kind, OBJECT_KINDS)
            _check_time(limiter.duration, spot.inside(kind, "duration"))
            check_amount(limiter.max_migrating, spot.inside(kind, "maxMigrating"))
            spot.inside(kind, "burst").at_least(limiter.burst, 0)

    def _check_rates(self, at: FieldPath) -> None:
        expected = "a number above 0, or its text"
        rate = self.evictions_per_second()
        at.inside("evictQPS").need(0 < rate < math.inf, self.evict_qps, expected)
        at.inside("evictBurst").at_least(self.evict_burst, 1)

    def evictions_per_second(self) -> float:
        """``evictQPS`` as a number; not one for a text that is none."""
        try:
            return float(self.evict_qps)
        except ValueError:
            return math.nan

    def skips(self, gate: str) -> bool:
        """Whether a check is left out."""
        return gate in self.skip_eviction_gates


def check_amount(amount: IntOrString | None, at: FieldPath) -> None:
    """Refuses what is neither a number of 0 or more nor a percentage."""
    if isinstance(amount, int):
        at.between(amount, 0, _MOST)
    elif amount is not None:
        at.need(
            bool(_PERCENTAGE.fullmatch(amount)), amount, "a number, or a percentage such as 10%"
        )


def _check_time(time: Duration, at: FieldPath) -> None:
    at.need(time.nanoseconds >= 0, str(time), "a duration of 0 or more, such as 5m")
