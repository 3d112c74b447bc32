# SPDX-License-Identifier: Apache-2.0
"""Plugins by name: koord's own, and those of other packages.

A package adds a plugin through an entry point of the group ``koord.descheduler.plugins``: the name
of the plugin, and the class. Classes are imported when a profile enables or configures them, and
checked then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from koord.base.errors import KoordError
from koord.base.plugin_entries import entries_by_name, loaded, require_known
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.framework.points import POINTS
from koord.controllers.scheduler.config.plugin_args import PluginArgs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint

GROUP = "koord.descheduler.plugins"
_PACKAGE = "koord.controllers.descheduler"

BUILT_IN: Final[Mapping[str, str]] = {
    "CustomPriority": "plugins.custompriority.custom_priority",
    "DefaultEvictor": "plugins.kubernetes.default_evictor",
    "EvictPodsOnReservedResources": "plugins.reservednode.evict_pods_on_reserved_resources",
    "FragmentationAware": "plugins.fragmentationaware.fragmentation_aware",
    "HighNodeUtilization": "plugins.kubernetes.node_utilization",
    "LowNodeLoad": "plugins.loadaware.low_node_load",
    "LowNodeUtilization": "plugins.kubernetes.node_utilization",
    "MigrationController": "migration.migration_controller",
    "PodLifeTime": "plugins.kubernetes.pod_life_time",
    "RemoveDuplicates": "plugins.kubernetes.duplicates",
    "RemoveFailedPods": "plugins.kubernetes.failed_pods",
    "RemovePodsHavingTooManyRestarts": "plugins.kubernetes.too_many_restarts",
    "RemovePodsViolatingInterPodAntiAffinity": "plugins.kubernetes.inter_pod_anti_affinity",
    "RemovePodsViolatingNodeAffinity": "plugins.kubernetes.node_affinity",
    "RemovePodsViolatingNodeTaints": "plugins.kubernetes.node_taints",
    "RemovePodsViolatingTopologySpreadConstraint": "plugins.kubernetes.topology_spread",
    "ScaleDownBinPack": "plugins.scaledownbinpack.scale_down_bin_pack",
    "StarvedPods": "plugins.starvedpods.starved_pods",
}
"""Plugin to its module below ``koord.controllers.descheduler``; the class has its name."""


class PluginRegistry:
    """Finds and checks plugins.

    Args:
        outside: entry points of other packages; those that are installed by default.

    Raises:
        KoordError: two plugins have one name.
    """

    def __init__(self, outside: Iterable[EntryPoint] | None = None) -> None:
        self._outside = entries_by_name(GROUP, BUILT_IN, outside)
        self._classes: dict[str, type[DeschedulerPlugin]] = {}

    def register(self, plugin: type[DeschedulerPlugin]) -> None:
        """Adds or replaces a class under its own name: for programs that embed a descheduler.

        Raises:
            KoordError: it is no plugin.
        """
        self._classes[plugin.name] = _checked(plugin, plugin.name)

    def names(self) -> list[str]:
        """All names that a profile may use, sorted."""
        return sorted({*BUILT_IN, *self._outside, *self._classes})

    def plugin(self, name: str, source: str, field: str) -> type[DeschedulerPlugin]:
        """The class of a plugin, imported now if it was not before.

        Args:
            name: the plugin.
            source: the file that names it, for errors.
            field: where in the file.

        Raises:
            KoordError: there is no such plugin, the nearest is named; or its class is none.
        """
        if name in self._classes:
            return self._classes[name]
        require_known(name, self.names(), source, field)
        self._classes[name] = _checked(self._load(name), name)
        return self._classes[name]

    def _load(self, name: str) -> object:
        entry = self._outside.get(name)
        if entry is None:
            return getattr(import_module(f"{_PACKAGE}.{BUILT_IN[name]}"), name)
        return loaded(entry)


def points_of(plugin: type[DeschedulerPlugin]) -> list[str]:
    """The extension points whose methods a class has."""
    return [point for point, protocol in POINTS.items() if issubclass(plugin, protocol)]


def _checked(plugin: object, name: str) -> type[DeschedulerPlugin]:
    title = f"plugin {name}"
    if not (isinstance(plugin, type) and issubclass(plugin, DeschedulerPlugin)):
        raise KoordError(title, "", plugin, "a class that inherits DeschedulerPlugin")
    if plugin.name != name:
        raise KoordError(title, "name", plugin.name, f"{name}, as its entry point says")
    if not points_of(plugin):
        expected = "the methods of one extension point at least: " + ", ".join(POINTS)
        raise KoordError(title, "", plugin.__name__, expected)
    args = plugin.args_type
    if args is not None and not issubclass(args, PluginArgs):
        raise KoordError(title, "args_type", args, "a class that inherits PluginArgs, or None")
    return plugin
