# SPDX-License-Identifier: Apache-2.0
"""DefaultBinder: writes a pod's node through the binding subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from koord.controllers.scheduler.framework.cycle import Cycle


class DefaultBinder(Plugin):
    """Binds every pod. Where there is no cluster, there is nothing to write."""

    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, node_name: str) -> bool:
        """Posts the Binding; its uid makes the API refuse if the pod was made anew meanwhile.

        Raises:
            ApiError: the API refused, or could not be reached.
        """
        client = self.handle.client
        if client is not None:
            await client.bind(cycle.pod.pod, node_name)
        return True
