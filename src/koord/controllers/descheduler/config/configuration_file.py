# SPDX-License-Identifier: Apache-2.0
"""Koordinator's file as it is written: DeschedulerConfiguration.

Rule: docs/reference/descheduling.md#configuration.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from koord.api.duration import Duration
from koord.api.kinds.meta import LabelSelector
from koord.controllers.scheduler.config.configuration_file import ClientConnection, LeaderElection
from koord.controllers.scheduler.config.plugin_args import ConfigStruct

LEASE, NAMESPACE = "koord-descheduler", "koordinator-system"
ADDRESS = "127.0.0.1:10251"
"""Where it listens unless it is told; the original's does on every address."""


class NamedPlugin(ConfigStruct, frozen=True):
    """A plugin by name."""

    name: str


class ChangedPlugins(ConfigStruct, frozen=True):
    """What a profile changes at one extension point."""

    enabled: list[NamedPlugin] = []
    disabled: list[NamedPlugin] = []


class PluginChanges(ConfigStruct, frozen=True):
    """What a profile changes at all of them."""

    deschedule: ChangedPlugins = field(default_factory=ChangedPlugins)
    balance: ChangedPlugins = field(default_factory=ChangedPlugins)
    filter: ChangedPlugins = field(default_factory=ChangedPlugins)
    evict: ChangedPlugins = field(default_factory=ChangedPlugins)


class ArgsOfPlugin(ConfigStruct, frozen=True):
    """A plugin's arguments, still as the file has them."""

    name: str
    args: dict[str, Any] | None = None


class DeschedulerProfile(ConfigStruct, frozen=True):
    """A profile, still as the file has it."""

    name: str = ""
    node_selector: LabelSelector | None = None
    plugins: PluginChanges = field(default_factory=PluginChanges)
    plugin_config: list[ArgsOfPlugin] = []


def default_leader_election() -> LeaderElection:
    """The Lease of the lead; the original's, so that the two never act at once."""
    return LeaderElection(resource_name=LEASE, resource_namespace=NAMESPACE)


class DeschedulerConfigurationFile(ConfigStruct, frozen=True):
    """The whole file."""

    leader_election: LeaderElection = field(default_factory=default_leader_election)
    client_connection: ClientConnection = field(default_factory=ClientConnection)
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    healthz_bind_address: str = ADDRESS
    metrics_bind_address: str = ADDRESS
    descheduling_interval: Duration = Duration(0)
    dry_run: bool = False
    node_selector: LabelSelector | None = None
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None
    profiles: list[DeschedulerProfile] = []
