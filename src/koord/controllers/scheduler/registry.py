# SPDX-License-Identifier: Apache-2.0
"""Plugins by name: koord's own, and those of other packages.

A package adds a plugin through an entry point of the group ``koord.scheduler.plugins``: the name of
the plugin, and the class. Classes are imported when a profile enables them, not before, and checked
then: the name, at least one extension point, the type of the arguments.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.errors import KoordError
from koord.base.plugin_entries import entries_by_name, loaded, require_known
from koord.controllers.scheduler.built_in_plugins import ABSORBED, ARGS, BUILT_IN, METHODS
from koord.controllers.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

    from koord.controllers.scheduler.framework.handle import Handle

GROUP = "koord.scheduler.plugins"
_PACKAGE = "koord.controllers.scheduler.plugins"


class Registry:
    """Finds, checks and makes plugins.

    Args:
        outside: entry points of other packages; those that are installed by default.

    Raises:
        KoordError: two plugins have one name.
    """

    def __init__(self, outside: Iterable[EntryPoint] | None = None) -> None:
        self._outside = entries_by_name(GROUP, {*BUILT_IN, *ABSORBED}, outside)
        self._classes: dict[str, type[Plugin]] = {}

    def register(self, plugin: type[Plugin]) -> None:
        """Adds or replaces a class under its own name: for programs that embed a scheduler.

        Raises:
            KoordError: it is no plugin.
        """
        self._classes[plugin.name] = _checked(plugin, plugin.name)

    def names(self) -> list[str]:
        """All names that a profile may enable, sorted."""
        return sorted({*BUILT_IN, *ABSORBED, *self._outside, *self._classes})

    def require(self, name: str, source: str, field: str) -> None:
        """Refuses an unknown name.

        Args:
            name: the plugin.
            source: the file that names it, for errors.
            field: where in the file.

        Raises:
            KoordError: it is none of :meth:`names`; the nearest of those is named.
        """
        require_known(name, self.names(), source, field)

    def is_absorbed(self, name: str) -> bool:
        """Whether koord does without a plugin what the original has one for."""
        return name in ABSORBED and name not in self._classes

    def plugin(self, name: str) -> type[Plugin]:
        """The class of a plugin, imported now if it was not before.

        Raises:
            KoordError: there is no such plugin, or its class is none.
        """
        if name not in self._classes:
            self.require(name, "plugins", "name")
            self._classes[name] = _checked(self._load(name), name)
        return self._classes[name]

    def points(self, name: str) -> frozenset[str]:
        """The extension points that a plugin takes part in; see :meth:`plugin`."""
        if self.is_absorbed(name):
            return frozenset()
        return points_of(self.plugin(name))

    def original_points(self, name: str) -> frozenset[str]:
        """The points that a built-in plugin takes part in at the original; empty for others."""
        if name in ABSORBED:
            return ABSORBED[name]
        return BUILT_IN[name].points if name in BUILT_IN else frozenset()

    def args_type(self, name: str) -> type[msgspec.Struct] | None:
        """The type of a plugin's arguments; None if it takes none."""
        if name in ARGS:
            return ARGS[name]
        if name in BUILT_IN or self.is_absorbed(name):
            return None
        return self.plugin(name).args_type

    def make(self, name: str, args: Any, handle: Handle) -> Plugin:
        """An instance of a plugin.

        Raises:
            KoordError: it cannot be had, or refuses its arguments.
        """
        plugin = self.plugin(name)
        try:
            return plugin(args, handle)
        except (ValueError, KeyError, OSError) as error:
            raise KoordError.wrap(f"plugin {name}", "args", error) from None

    def _load(self, name: str) -> object:
        entry = self._outside.get(name)
        if entry is None:
            module, _, attribute = BUILT_IN[name].path.partition(":")
            return getattr(import_module(f"{_PACKAGE}.{module}"), attribute)
        return loaded(entry)


def points_of(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points whose functions a class has."""
    return frozenset(
        point
        for point, methods in METHODS.items()
        if any(callable(getattr(plugin, method, None)) for method in methods)
    )


def _checked(plugin: object, name: str) -> type[Plugin]:
    source = f"plugin {name}" if name else "a plugin"
    if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
        raise KoordError(source, "", plugin, "a class that inherits koord's Plugin")
    if not name or plugin.name != name:
        expected = f"{name}, as it is registered" if name else "a name"
        raise KoordError(source, "name", plugin.name, expected)
    if not points_of(plugin):
        functions = sorted(method for methods in METHODS.values() for method in methods)
        raise KoordError(source, "", plugin.__qualname__, "one of " + ", ".join(functions))
    args: object = plugin.args_type
    if args is not None and not (isinstance(args, type) and issubclass(args, msgspec.Struct)):
        raise KoordError(source, "args_type", args, "a msgspec.Struct, or None")
    return plugin
