# SPDX-License-Identifier: Apache-2.0
"""What every plugin is; the extension points are in ``points``.

Rule: docs/reference/descheduling.md#framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from koord.controllers.descheduler.framework.handle import DeschedulerHandle
    from koord.controllers.scheduler.config.plugin_args import PluginArgs


class DeschedulerPlugin:
    """What every plugin is.

    Args:
        args: its arguments, complete and checked.
        handle: the way to everything outside of the plugin.

    Raises:
        KoordError: arguments that cannot hold in this cluster.
    """

    name: ClassVar[str] = ""
    args_type: ClassVar[type[PluginArgs] | None] = None
    """The type of its arguments; None for a plugin without."""

    def __init__(self, args: Any, handle: DeschedulerHandle) -> None:
        self.args = args
        self.handle = handle
