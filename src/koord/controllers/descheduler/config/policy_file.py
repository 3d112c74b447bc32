# SPDX-License-Identifier: Apache-2.0
"""The file of kubernetes-sigs/descheduler as it is written: DeschedulerPolicy.

Rule: docs/reference/descheduling.md#deschedulerpolicy.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from koord.controllers.descheduler.config.configuration_file import (
    ArgsOfPlugin,
    ChangedPlugins,
    DeschedulerProfile,
    NamedPlugin,
    PluginChanges,
)
from koord.controllers.scheduler.config.plugin_args import ConfigStruct

DEFAULT_EVICTOR, MIGRATION_CONTROLLER = "DefaultEvictor", "MigrationController"


class PluginNames(ConfigStruct, frozen=True):
    """What a profile changes at one extension point, by plain names."""

    enabled: list[str] = []
    disabled: list[str] = []


class PolicyPlugins(ConfigStruct, frozen=True):
    """What a profile changes at all of them."""

    presort: PluginNames = field(default_factory=PluginNames)
    sort: PluginNames = field(default_factory=PluginNames)
    deschedule: PluginNames = field(default_factory=PluginNames)
    balance: PluginNames = field(default_factory=PluginNames)
    filter: PluginNames = field(default_factory=PluginNames)
    # As it is written: in one word.
    pre_eviction_filter: PluginNames = field(default_factory=PluginNames, name="preevictionfilter")


class PolicyProfile(ConfigStruct, frozen=True):
    """A profile of that file."""

    name: str = ""
    plugin_config: list[ArgsOfPlugin] = []
    plugins: PolicyPlugins = field(default_factory=PolicyPlugins)

    def as_profile(self) -> DeschedulerProfile:
        """The same in Koordinator's words: the filter is DefaultEvictor unless it is disabled.

        Evictions go by DefaultEvictor, or by the MigrationController where the profile names that
        among its filters or configures it.
        """
        migrates = MIGRATION_CONTROLLER in (
            *self.plugins.filter.enabled,
            *(config.name for config in self.plugin_config),
        )
        chosen = self.plugins
        filters = [*chosen.filter.enabled, *chosen.pre_eviction_filter.enabled]
        off = {*chosen.filter.disabled, *chosen.pre_eviction_filter.disabled}
        if not off & {DEFAULT_EVICTOR, "*"}:
            filters.insert(0, DEFAULT_EVICTOR)
        evictor = MIGRATION_CONTROLLER if migrates else DEFAULT_EVICTOR
        return DeschedulerProfile(
            name=self.name,
            plugins=PluginChanges(
                deschedule=_changed(chosen.deschedule.enabled),
                balance=_changed(chosen.balance.enabled),
                filter=_changed(list(dict.fromkeys(filters))),
                evict=_changed([evictor]),
            ),
            plugin_config=self.plugin_config,
        )


class DeschedulerPolicyFile(ConfigStruct, frozen=True):
    """The whole file."""

    node_selector: str = ""
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None
    grace_period_seconds: int | None = None
    eviction_failure_event_notification: bool = False
    metrics_collector: dict[str, Any] | None = None
    metrics_providers: list[dict[str, Any]] = []
    profiles: list[PolicyProfile] = []


def _changed(names: list[str]) -> ChangedPlugins:
    """These plugins alone."""
    everything = [NamedPlugin(name="*")]
    return ChangedPlugins(enabled=[NamedPlugin(name=name) for name in names], disabled=everything)
