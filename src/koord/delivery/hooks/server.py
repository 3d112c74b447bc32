# SPDX-License-Identifier: Apache-2.0
"""Serves the hook service on a socket, and keeps it and the proxy's file about it in place.

Rule: docs/reference/delivery.md#hook-server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from koord.base import faults, log
from koord.base.supervision import cause_of
from koord.delivery.hooks.messages import SERVICE
from koord.delivery.hooks.service import MOST_AT_A_TIME, STAGES, HookService
from koord.delivery.hooks.socket_file import SocketFile, make_way
from koord.delivery.policy import HookFailureError

if TYPE_CHECKING:
    from pathlib import Path

    from koord.delivery.hooks.registration import Registration
    from koord.delivery.hooks.service import HookServices

MOST_BYTES = 16 << 20
"""Of a message, as CRI has it."""

_LOOK_SECONDS = 10.0
_END_SECONDS = 2.0
_LOG = log.get("agent.hookserver")


@dataclass(frozen=True)
class ServerOptions:
    """Where hooks are served.

    Attributes:
        socket: the file.
        registration: what a proxy is told.
        look_seconds: how often it is looked whether both are still there.
        stays: whether a proxy goes on knowing of this agent when it ends.
    """

    socket: Path
    registration: Registration
    look_seconds: float = _LOOK_SECONDS
    stays: bool = True


class AgentHookServer:
    """One agent's, which proxies call.

    Args:
        options: see :class:`ServerOptions`.
        services: what the service asks.
    """

    def __init__(self, options: ServerOptions, services: HookServices) -> None:
        self._options, self._services = options, services
        self._service = HookService(services)
        self.serving, self.error = False, ""

    async def run(self) -> None:
        """Serves until cancelled; what stands in the way is looked at again and again."""
        while True:
            error = "the socket is another's, or gone"
            try:
                if self._options.registration.folder.is_dir():
                    await self._serve()
                else:
                    error = f"no directory {self._options.registration.folder}: no proxy is there"
            except Exception as failure:
                error = cause_of(failure)
            if error != self.error:
                fields = log.fields(error=error, socket=self._options.socket)
                _LOG.warning("hooks are not served to a proxy", extra=fields)
            self.error = error
            await asyncio.sleep(self._options.look_seconds)

    async def _serve(self) -> None:
        """Until the socket that callers find is none of this process's."""
        options = self._options
        await make_way(options.socket)
        server = _server(self._service)
        server.add_insecure_port(f"unix:{options.socket}")
        file = None
        try:
            faults.point("hookserver.serve")
            await server.start()
            file = SocketFile(options.socket)
            options.registration.write(anew=True)
            while file.is_current():
                options.registration.write()
                self.serving, self.error = True, ""
                await asyncio.sleep(options.look_seconds)
        finally:
            self.serving = False
            if not options.stays:
                options.registration.remove()
            if file is not None:
                file.remove()
            await server.stop(_END_SECONDS)

    def status(self) -> dict[str, Any]:
        """As ``koord node status`` shows it."""
        return {
            "socket": str(self._options.socket),
            "serving": self.serving,
            "stepsAside": self._services.steps_aside(),
            "stages": [str(stage) for stage in self._options.registration.stages],
            "error": self.error,
            **self._services.calls.status(),
        }


def _server(service: HookService) -> Any:
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.max_send_message_length", MOST_BYTES),
            ("grpc.max_concurrent_streams", 2 * MOST_AT_A_TIME),
            # A socket of another is not taken.
            ("grpc.so_reuseport", 0),
        ]
    )
    methods = {
        f"{stage}Hook": grpc.unary_unary_rpc_method_handler(partial(_answer, service, stage))
        for stage in STAGES
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    return server


async def _answer(service: HookService, stage: str, payload: bytes, context: Any) -> bytes:
    try:
        return await service.handle(stage, payload, context.time_remaining())
    except HookFailureError as error:
        await context.abort(grpc.StatusCode.UNKNOWN, str(error))
    raise AssertionError("abort raises")
