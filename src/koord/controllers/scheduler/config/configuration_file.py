# SPDX-License-Identifier: Apache-2.0
"""The configuration file as it is written: KubeSchedulerConfiguration, profiles, plugin sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from koord.api.duration import Duration
from koord.controllers.scheduler.config.plugin_args import ConfigStruct

if TYPE_CHECKING:
    from koord.controllers.scheduler.config.field_path import FieldPath

POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
"""The extension points, in the order in which a pod meets them."""


class PluginRef(ConfigStruct, frozen=True):
    """A plugin by name; the weight counts at ``score`` only, and 0 stands for 1."""

    name: str
    weight: int = 0


class PluginSet(ConfigStruct, frozen=True):
    """What a file changes at one extension point."""

    enabled: list[PluginRef] = []
    disabled: list[PluginRef] = []


class PluginSets(ConfigStruct, frozen=True):
    """What a file changes at all of them."""

    multi_point: PluginSet = field(default_factory=PluginSet)
    pre_enqueue: PluginSet = field(default_factory=PluginSet)
    queue_sort: PluginSet = field(default_factory=PluginSet)
    pre_filter: PluginSet = field(default_factory=PluginSet)
    filter: PluginSet = field(default_factory=PluginSet)
    post_filter: PluginSet = field(default_factory=PluginSet)
    pre_score: PluginSet = field(default_factory=PluginSet)
    score: PluginSet = field(default_factory=PluginSet)
    reserve: PluginSet = field(default_factory=PluginSet)
    permit: PluginSet = field(default_factory=PluginSet)
    pre_bind: PluginSet = field(default_factory=PluginSet)
    bind: PluginSet = field(default_factory=PluginSet)
    post_bind: PluginSet = field(default_factory=PluginSet)

    def at(self, point: str) -> PluginSet:
        """The set of a point by its name in the file."""
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in point)
        found: PluginSet = getattr(self, snake)
        return found


class PluginConfig(ConfigStruct, frozen=True):
    """A plugin's arguments, still as the file has them."""

    name: str
    args: dict[str, Any] | None = None


class ProfileFile(ConfigStruct, frozen=True):
    """A profile, still as the file has it."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: PluginSets = field(default_factory=PluginSets)
    plugin_config: list[PluginConfig] = []


class ClientConnection(ConfigStruct, frozen=True):
    """How the API server is reached."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0
    burst: int = 0


class LeaderElection(ConfigStruct, frozen=True):
    """Which Lease is to be held before pods are scheduled, and its times."""

    leader_elect: bool = True
    lease_duration: Duration = Duration(15_000_000_000)
    renew_deadline: Duration = Duration(10_000_000_000)
    retry_period: Duration = Duration(2_000_000_000)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"

    def check(self, at: FieldPath) -> None:
        """A Lease, and times in the order that keeps two from leading at once."""
        if not self.leader_elect:
            return
        lease, renew, retry = self.lease_duration, self.renew_deadline, self.retry_period
        for key, time in (("renewDeadline", renew), ("retryPeriod", retry)):
            at.inside(key).need(time.nanoseconds > 0, str(time), "a duration above 0")
        spot = at.inside("leaseDuration")
        spot.need(lease > renew, str(lease), f"more than renewDeadline, which is {renew}")
        spot = at.inside("renewDeadline")
        spot.need(renew > retry, str(renew), f"more than retryPeriod, which is {retry}")
        at.inside("resourceLock").one_of(self.resource_lock, ("leases",))
        names = {"resourceName": self.resource_name, "resourceNamespace": self.resource_namespace}
        for key, name in names.items():
            at.inside(key).need(bool(name), name, "a name")


class ConfigurationFile(ConfigStruct, frozen=True):
    """The whole file."""

    parallelism: int | None = None
    leader_election: LeaderElection = field(default_factory=LeaderElection)
    client_connection: ClientConnection = field(default_factory=ClientConnection)
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: list[ProfileFile] = []
    extenders: list[Any] = []
    delay_cache_until_active: bool = False
