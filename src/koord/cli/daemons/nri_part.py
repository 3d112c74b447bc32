# SPDX-License-Identifier: Apache-2.0
"""koordlet's way to a container runtime: NRI, as soon as there is a socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from koord.base import log
from koord.base.errors import MissingExtraError

if TYPE_CHECKING:
    from koord.agent.app import Agent
    from koord.base.clock import Clock
    from koord.delivery.nri.plugin_loop import NriLoop

_LOOK_SECONDS = 10.0
_LOG = log.get("agent.nri")


class NriPart:
    """One agent's; nothing of it is loaded before there is a runtime to talk to.

    Args:
        agent: whose hooks are served.
        clock: of what it tells.
    """

    def __init__(self, agent: Agent, clock: Clock) -> None:
        self._agent, self._clock = agent, clock
        self._loop: NriLoop | None = None
        options = agent.options
        base = Path(agent.machine.roots.var_run)
        self._socket = base / options.runtime_hooks_nri_socket_path
        self._why = ""
        if not options.enable_nri_runtime_hook:
            self._why = "--enable-nri-runtime-hook=false"
        elif agent.dry_run:
            self._why = "a dry run changes no container"

    @property
    def connected(self) -> bool:
        """Whether a runtime is served."""
        return self._loop is not None and self._loop.connected

    async def run(self) -> None:
        """Serves the runtime until cancelled; without a socket looks for one now and then."""
        if self._why:
            return
        await self._agent.ready()
        while not self._socket.exists():
            await asyncio.sleep(_LOOK_SECONDS)
        try:
            loop = self._make_loop()
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("koord"):
                raise
            self._why = str(MissingExtraError(error.name, "agent"))
            _LOG.warning("NRI is not served", extra=log.fields(reason=self._why))
            return
        await loop.run()

    def _make_loop(self) -> NriLoop:
        from koord.agent.states.pod_arrivals import PodArrivals
        from koord.delivery.nri.call_log import CallLog
        from koord.delivery.nri.plugin import PluginServices
        from koord.delivery.nri.plugin_loop import NriLoop, NriOptions
        from koord.delivery.policy import DeliveryPolicy

        agent, told = self._agent, self._agent.options
        pods = PodArrivals(agent.store, agent.pods.poke if agent.pods else _nothing)
        calls = CallLog(self._clock)
        policy = DeliveryPolicy(told.hook_failures_count, told.disabled_stages())
        services = PluginServices(agent.creation, pods, agent.restate, agent.recheck, calls, policy)
        options = NriOptions(
            str(self._socket),
            told.runtime_hooks_nri_plugin_name,
            told.runtime_hooks_nri_plugin_index,
            told.runtime_hooks_nri_connect_timeout,
            told.runtime_hooks_nri_backoff_duration,
            told.runtime_hooks_nri_backoff_factor,
            told.runtime_hooks_nri_backoff_steps,
            told.runtime_hooks_nri_backoff_cap,
        )
        self._loop = NriLoop(options, services, Random())
        return self._loop

    def status(self) -> dict[str, Any]:
        """How hooks come to containers, for ``koord node status``."""
        if self._loop is not None:
            return {"way": "NRI", **self._loop.status()}
        why = self._why or "no socket there"
        return {"way": "reconciler", "socket": str(self._socket), "error": why}


def _nothing() -> None:
    """A watch tells of pods by itself."""
