# SPDX-License-Identifier: Apache-2.0
"""Which plugins a profile runs, in which order, with which weights and arguments.

docs/reference/scheduling.md#plugins-of-a-profile: what the file says about one point goes before
what it says about all points (``multiPoint``), and that before the default set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.config.configuration_file import POINTS, PluginRef, PluginSet
from koord.controllers.scheduler.config.defaults import DEFAULT_PLUGINS
from koord.controllers.scheduler.config.plugin_args import API_VERSION, PluginArgs, read_struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import msgspec

    from koord.controllers.scheduler.config.configuration_file import (
        PluginConfig,
        PluginSets,
        ProfileFile,
    )
    from koord.controllers.scheduler.config.field_path import FieldPath
    from koord.controllers.scheduler.registry import Registry

ALL = "*"
_WEIGHT_KEY = "weight"
REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins that ``kubescheduler.config.k8s.io/v1`` refuses; NodeVolumeLimits does their work."""


@dataclass(frozen=True)
class Profile:
    """The plugins of the pods that name one scheduler.

    Args:
        scheduler_name: which.
        plugins: extension point to plugins, in order.
        weights: plugin to weight, for those at ``score``.
        args: plugin to typed arguments; plugins that take none are not in it.
    """

    scheduler_name: str
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)

    def at(self, point: str) -> tuple[str, ...]:
        """The plugins at an extension point, such as ``preFilter``, in order."""
        return self.plugins.get(point, ())

    def weight(self, name: str) -> int:
        """What a plugin's score is multiplied by."""
        return self.weights.get(name, 1)

    def plugin_names(self) -> list[str]:
        """All plugins, in the order in which a pod meets them first."""
        return list(dict.fromkeys(name for point in POINTS for name in self.at(point)))


def resolve(
    profile: ProfileFile, scheduler_name: str, registry: Registry, at: FieldPath
) -> Profile:
    """What a profile of a file amounts to.

    Raises:
        KoordError: an unknown plugin, one enabled twice, one at a point that it has no part in,
            not exactly one queue sort, nobody who binds, or wrong arguments.
    """
    spot = at.inside("plugins")
    _check_names(profile.plugins, registry, spot)
    everywhere = _merged(DEFAULT_PLUGINS, profile.plugins.multi_point)
    plugins = {}
    for point in POINTS:
        inner = spot.inside(point)
        plugins[point] = _expanded(point, profile.plugins.at(point), everywhere, registry, inner)
    _add_own_points(plugins, profile.plugins, registry)
    spot.inside("queueSort").need(
        len(plugins["queueSort"]) == 1, plugins["queueSort"], "one plugin"
    )
    spot.inside("bind").need(bool(plugins["bind"]), [], "at least one plugin")
    given = _given_args(profile.plugin_config, registry, at.inside("pluginConfig"))
    found = Profile(
        scheduler_name,
        {point: tuple(names) for point, names in plugins.items()},
        _weights(plugins["score"], profile.plugins.score, everywhere),
    )
    args = {
        name: given.get(name) or _default_args(name, registry, at.inside("pluginConfig"))
        for name in found.plugin_names()
    }
    present = {name: value for name, value in args.items() if value is not None}
    return Profile(scheduler_name, found.plugins, found.weights, present)


def _check_names(sets: PluginSets, registry: Registry, at: FieldPath) -> None:
    for point in ("multiPoint", *POINTS):
        chosen, spot = sets.at(point), at.inside(point)
        for index, ref in enumerate(chosen.enabled):
            inner = spot.inside("enabled", index)
            gone = "NodeVolumeLimits, which does its work since v1"
            inner.inside("name").need(ref.name not in REMOVED, ref.name, gone)
            registry.require(ref.name, at.source, inner.inside("name").path)
            inner.inside(_WEIGHT_KEY).at_least(ref.weight, 0)
        spot.inside("enabled").distinct([ref.name for ref in chosen.enabled], "plugin")


def _merged(default: Sequence[PluginRef], changed: PluginSet) -> list[PluginRef]:
    """A default list as a file changes it: replaced in place, taken out, added at the end."""
    disabled = {ref.name for ref in changed.disabled}
    enabled = {ref.name: ref for ref in changed.enabled}
    kept = [ref for ref in default if not {ref.name, ALL} & disabled]
    result = [enabled.get(ref.name, ref) for ref in kept]
    there = {ref.name for ref in result}
    return result + [ref for ref in changed.enabled if ref.name not in there]


def _expanded(
    point: str,
    chosen: PluginSet,
    everywhere: Sequence[PluginRef],
    registry: Registry,
    at: FieldPath,
) -> list[str]:
    """The plugins of one point: named here and everywhere, only everywhere, only here."""
    here = []
    for index, ref in enumerate(chosen.enabled):
        if point in registry.points(ref.name):
            here.append(ref.name)
        elif point not in registry.original_points(ref.name):
            known = ", ".join(p for p in POINTS if p in registry.points(ref.name))
            expected = f"a plugin that takes part here; this one does at {known}"
            at.inside("enabled", index, "name").refuse(ref.name, expected)
    disabled = {ref.name for ref in chosen.disabled}
    if ALL in disabled:
        return here
    shared = [
        ref.name
        for ref in everywhere
        if ref.name not in disabled and point in registry.points(ref.name)
    ]
    first = [name for name in here if name in shared]
    return first + [n for n in shared if n not in here] + [n for n in here if n not in shared]


def _add_own_points(plugins: dict[str, list[str]], sets: PluginSets, registry: Registry) -> None:
    """Lets built-in plugins take part where the original has no part for them.

    Files written for the original cannot name such points. A plugin that is disabled there, or that
    the file enables nowhere, is left out.
    """
    enabled = dict.fromkeys(name for point in POINTS for name in plugins[point])
    for name in enabled:
        original = registry.original_points(name)
        if not original:
            continue
        for point in POINTS:
            own = point in registry.points(name) and point not in original
            disabled = {ref.name for ref in sets.at(point).disabled}
            if own and name not in plugins[point] and not {name, ALL} & disabled:
                plugins[point].append(name)


def _weights(
    names: Sequence[str], chosen: PluginSet, everywhere: Sequence[PluginRef]
) -> dict[str, int]:
    """What the file says at ``score`` holds before what it says everywhere; 0 is 1."""
    weights: dict[str, int] = {}
    for ref in (*chosen.enabled, *everywhere):
        weights.setdefault(ref.name, ref.weight or 1)
    return {name: weights.get(name, 1) for name in names}


def _given_args(
    configs: Sequence[PluginConfig], registry: Registry, at: FieldPath
) -> dict[str, msgspec.Struct]:
    found: dict[str, msgspec.Struct] = {}
    at.distinct([config.name for config in configs], "plugin")
    for index, config in enumerate(configs):
        spot = at.inside(index)
        registry.require(config.name, at.source, spot.inside("name").path)
        if config.args is not None:
            args = _read_args(config.name, config.args, registry, spot.inside("args"))
            if args is not None:
                found[config.name] = args
    return found


def _read_args(
    name: str, document: dict[str, Any], registry: Registry, at: FieldPath
) -> msgspec.Struct | None:
    body = dict(document)
    for key, expected in (("apiVersion", API_VERSION), ("kind", f"{name}Args")):
        value = body.pop(key, None)
        at.inside(key).need(value in (None, expected), value, expected)
    kind = registry.args_type(name)
    if kind is None:
        at.need(not body, body, f"nothing: {name} takes no arguments")
        return None
    if issubclass(kind, PluginArgs):
        return kind.read(body, at)
    return read_struct(kind, body, at)


def _default_args(name: str, registry: Registry, at: FieldPath) -> msgspec.Struct | None:
    kind = registry.args_type(name)
    if kind is None:
        return None
    if issubclass(kind, PluginArgs):
        return kind()
    return read_struct(kind, {}, at)
