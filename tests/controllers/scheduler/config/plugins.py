# SPDX-License-Identifier: Apache-2.0
"""A registry of plugins that do nothing, with the extension points of the original's."""

from __future__ import annotations

from typing import Any

import msgspec

from koord.controllers.scheduler.built_in_plugins import BUILT_IN, METHODS
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.registry import Registry


def plugin_class(
    name: str, *points: str, args_type: type[msgspec.Struct] | None = None
) -> type[Plugin]:
    """A plugin that takes part at some points."""
    body: dict[str, Any] = {METHODS[point][0]: lambda self, *_: None for point in points}
    return type(name, (Plugin,), body | {"name": name, "args_type": args_type})


def registry(*more: type[Plugin]) -> Registry:
    """koord's plugins by name, without importing one, and some more."""
    found = Registry([])
    for name, built_in in BUILT_IN.items():
        found.register(plugin_class(name, *sorted(built_in.points)))
    for plugin in more:
        found.register(plugin)
    return found
