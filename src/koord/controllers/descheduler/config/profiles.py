# SPDX-License-Identifier: Apache-2.0
"""Which plugins a profile runs, in which order, with which arguments.

Rule: docs/reference/descheduling.md#which-plugins-run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from koord.controllers.descheduler.framework.points import POINTS
from koord.controllers.descheduler.framework.registry import points_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.duration import Duration
    from koord.api.kinds.meta import LabelSelector
    from koord.controllers.descheduler.config.configuration_file import (
        ArgsOfPlugin,
        ChangedPlugins,
        DeschedulerProfile,
    )
    from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
    from koord.controllers.descheduler.framework.registry import PluginRegistry
    from koord.controllers.scheduler.config.field_path import FieldPath
    from koord.controllers.scheduler.config.plugin_args import PluginArgs

API_VERSION = "descheduler/v1alpha2"
ALL = "*"
DEFAULTS = {
    "deschedule": (), "balance": (),
    "filter": ("MigrationController",), "evict": ("MigrationController",),
}  # fmt: skip
"""Plugins that run where a profile says nothing, by extension point."""


@dataclass(frozen=True)
class ProfileConfiguration:
    """A profile, complete and checked.

    Args:
        name: of the profile.
        node_selector: nodes that its strategies look at; None for all.
        plugins: by extension point the names of plugins, in order.
        classes: by name the class of each plugin that stands at any point.
        args: by name the arguments of those that take any.
    """

    name: str
    node_selector: LabelSelector | None
    plugins: Mapping[str, Sequence[str]]
    classes: Mapping[str, type[DeschedulerPlugin]]
    args: Mapping[str, PluginArgs] = field(default_factory=dict)

    def at(self, point: str) -> Sequence[str]:
        """The plugins at an extension point, in order."""
        return self.plugins[point]


def resolve(
    profile: DeschedulerProfile, registry: PluginRegistry, at: FieldPath
) -> ProfileConfiguration:
    """What a profile of a file amounts to.

    Raises:
        KoordError: an unknown plugin, one that is there twice, one at a point that it has no part
            in, not exactly one evict plugin, or wrong arguments.
    """
    plugins: dict[str, list[str]] = {}
    classes: dict[str, type[DeschedulerPlugin]] = {}
    for point in POINTS:
        changed: ChangedPlugins = getattr(profile.plugins, point)
        spot = at.inside("plugins", point, "enabled")
        plugins[point] = _merged(DEFAULTS[point], changed)
        spot.distinct([ref.name for ref in changed.enabled], "plugin")
        for name in plugins[point]:
            classes[name] = _at_point(name, point, registry, spot)
    evictors = plugins["evict"]
    at.inside("plugins", "evict").need(len(evictors) == 1, evictors, "exactly one evict plugin")
    args = _args(profile.plugin_config, classes, registry, at.inside("pluginConfig"))
    return ProfileConfiguration(profile.name, profile.node_selector, plugins, classes, args)


def remembering(
    profiles: Sequence[ProfileConfiguration], interval: Duration
) -> tuple[ProfileConfiguration, ...]:
    """Profiles whose detectors remember for one interval at least: they would never fire else.

    Rule: docs/reference/descheduling.md#configuration.
    """
    return tuple(
        replace(
            profile, args={name: _lasting(args, interval) for name, args in profile.args.items()}
        )
        for profile in profiles
    )


def _lasting(args: PluginArgs, interval: Duration) -> PluginArgs:
    timeout = getattr(args, "detector_cache_timeout", None)
    if timeout is None or timeout >= interval:
        return args
    return msgspec.structs.replace(args, detector_cache_timeout=interval)


def _merged(defaults: Sequence[str], changed: ChangedPlugins) -> list[str]:
    """The defaults that are not disabled in their places, then what else is enabled."""
    disabled = {ref.name for ref in changed.disabled}
    kept = [name for name in defaults if not {name, ALL} & disabled]
    return kept + [ref.name for ref in changed.enabled if ref.name not in kept]


def _at_point(
    name: str, point: str, registry: PluginRegistry, at: FieldPath
) -> type[DeschedulerPlugin]:
    plugin = registry.plugin(name, at.source, at.path)
    points = points_of(plugin)
    expected = f"a plugin that takes part here; this one does at {', '.join(points)}"
    at.need(point in points, name, expected)
    return plugin


def _args(
    configs: Sequence[ArgsOfPlugin],
    classes: Mapping[str, type[DeschedulerPlugin]],
    registry: PluginRegistry,
    at: FieldPath,
) -> dict[str, PluginArgs]:
    """Arguments of the plugins that run; what a file says of others is checked all the same."""
    at.distinct([config.name for config in configs], "plugin")
    documents: dict[str, tuple[dict[str, Any], FieldPath]] = {}
    for index, config in enumerate(configs):
        registry.plugin(config.name, at.source, at.inside(index, "name").path)
        documents[config.name] = config.args or {}, at.inside(index, "args")
    args = {}
    for name in dict.fromkeys((*classes, *documents)):
        document, spot = documents.get(name, ({}, at.inside(f'"{name}"')))
        plugin = registry.plugin(name, at.source, at.path)
        found = _read(plugin, document, spot)
        if found is not None:
            args[name] = found
    return args


def _read(
    plugin: type[DeschedulerPlugin], document: dict[str, Any], at: FieldPath
) -> PluginArgs | None:
    body = dict(document)
    for key, expected in (("apiVersion", API_VERSION), ("kind", f"{plugin.name}Args")):
        value = body.pop(key, None)
        at.inside(key).need(value in (None, expected), value, expected)
    if plugin.args_type is None:
        at.need(not body, body, f"nothing: {plugin.name} takes no arguments")
        return None
    return plugin.args_type.read(body, at)
