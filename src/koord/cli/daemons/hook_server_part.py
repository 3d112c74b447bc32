# SPDX-License-Identifier: Apache-2.0
"""koordlet's way to a proxy of the container runtime: the hook server, as soon as there is one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koord.agent.host.roots import on_host
from koord.base import log
from koord.base.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.app import Agent
    from koord.base.clock import Clock
    from koord.delivery.hooks.server import AgentHookServer

_LOOK_SECONDS = 10.0
_ENDPOINT = "/var/run/koordlet/koordlet.sock"
_LOG = log.get("agent.hookserver")


class HookServerPart:
    """One agent's; nothing of it is loaded before a proxy's folder is there.

    Args:
        agent: whose hooks are served.
        clock: of what it tells.
        steps_aside: whether hooks come another way.
    """

    def __init__(self, agent: Agent, clock: Clock, steps_aside: Callable[[], bool]) -> None:
        self._agent, self._clock, self._steps_aside = agent, clock, steps_aside
        self._server: AgentHookServer | None = None
        roots = agent.machine.roots
        self._socket, self._folder = Path(roots.hook_socket), Path(roots.hook_config)
        self._why = "a dry run changes no container" if agent.dry_run else ""

    @property
    def serving(self) -> bool:
        """Whether a proxy can call."""
        return self._server is not None and self._server.serving

    async def run(self) -> None:
        """Serves proxies until cancelled; without their folder looks for it now and then."""
        if self._why:
            return
        await self._agent.ready()
        while not self._folder.is_dir():
            await asyncio.sleep(_LOOK_SECONDS)
        try:
            server = self._make_server()
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("koord"):
                raise
            self._why = str(MissingExtraError(error.name, "delivery"))
            _LOG.warning("hooks are not served to a proxy", extra=log.fields(reason=self._why))
            return
        await server.run()

    def _make_server(self) -> AgentHookServer:
        from koord.agent.hooks.hook import HookStage
        from koord.agent.states.pod_arrivals import PodArrivals
        from koord.delivery.hooks.registration import Registration
        from koord.delivery.hooks.server import AgentHookServer, ServerOptions
        from koord.delivery.hooks.service import HookServices
        from koord.delivery.nri.call_log import CallLog
        from koord.delivery.policy import DeliveryPolicy

        agent, told = self._agent, self._agent.options
        pods = PodArrivals(agent.store, agent.pods.poke if agent.pods else _nothing)
        policy = DeliveryPolicy(told.hook_failures_count, told.disabled_stages())
        asked = agent.creation.stages
        stages = tuple(s for s in HookStage if s in asked and policy.serves(s))
        endpoint = told.runtime_hooks_host_endpoint or self._endpoint()
        registration = Registration(
            self._folder, endpoint, told.runtime_hooks_failure_policy, stages
        )
        services = HookServices(
            agent.creation, pods, agent.restate, CallLog(self._clock), self._steps_aside, policy
        )
        # Who is to leave no trace is not to be called, either.
        options = ServerOptions(self._socket, registration, stays=not told.restore_on_exit)
        self._server = AgentHookServer(options, services)
        return self._server

    def _endpoint(self) -> str:
        """The socket as a proxy on the host finds it."""
        return str(self._socket) if on_host() else _ENDPOINT

    def status(self) -> dict[str, Any]:
        """As ``koord node status`` shows it."""
        if self._server is not None:
            return self._server.status()
        why = self._why or f"no directory {self._folder}: no proxy is there"
        return {"socket": str(self._socket), "serving": False, "error": why}


def _nothing() -> None:
    """A watch tells of pods by itself."""
