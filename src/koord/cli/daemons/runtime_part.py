# SPDX-License-Identifier: Apache-2.0
"""koordlet's ways to containers before they run: NRI, and where that is not, the hook server.

Both may be there, for a proxy that stands before a runtime with NRI: then NRI serves, and the hook
server's answers change nothing. Rule: docs/reference/delivery.md#both-at-once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.cli.daemons.hook_server_part import HookServerPart
from koord.cli.daemons.nri_part import NriPart

if TYPE_CHECKING:
    from koord.agent.app import Agent
    from koord.base.clock import Clock


class RuntimePart:
    """One agent's.

    Args:
        agent: whose hooks are served.
        clock: of what is told.

    Attributes:
        nri, server: each way, a loop of its own.
    """

    def __init__(self, agent: Agent, clock: Clock) -> None:
        self._agent = agent
        self.nri = NriPart(agent, clock)
        self.server = HookServerPart(agent, clock, lambda: self.nri.connected)
        agent.runtime_status = self.status

    def status(self) -> dict[str, Any]:
        """How hooks come to containers, for ``koord node status``."""
        found, server = self.nri.status(), self.server.status()
        # A directory that a proxy left says nothing: one that is there calls.
        if not self.nri.connected and server["serving"] and server["calls"]:
            found["way"] = "hook server"
        return {
            **found,
            "hookServer": server,
            **self._agent.creation.missing.status(),
        }
