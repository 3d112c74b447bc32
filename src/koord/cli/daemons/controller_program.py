# SPDX-License-Identifier: Apache-2.0
"""What koord-manager, koord-webhook and koord-descheduler have in common as programs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from koord.base.errors import KoordError, MissingExtraError
from koord.cli.options import go_flags
from koord.cli.process.lease_client import lease_client
from koord.cli.process.program import begin_dry_run
from koord.controllers.manager.unused_flags import UNUSED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from koord.base.metrics import MetricRegistry
    from koord.controllers.webhook.program_options import WebhookProgramOptions
    from koord.kube.client import Client
    from koord.kube.daemon.endpoints import Endpoints
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.transport.messages import Transport


class ProgramOptions(Protocol):
    """A dataclass with a field a flag."""

    def check(self) -> None:
        """Refuses what cannot be meant, by a KoordError."""
        ...


OptionsT = TypeVar("OptionsT", bound=ProgramOptions)


class ConnectionSettings(NamedTuple):
    """How a program reaches the API server.

    Attributes:
        kubeconfig: None to look around.
        requests_per_second: that it may send.
        burst: how many at once.
        dry_run: whether nothing is written.
    """

    kubeconfig: Path | None
    requests_per_second: float
    burst: int
    dry_run: bool


class ClusterConnection(NamedTuple):
    """A program's ways to the API server.

    Attributes:
        client: paced as flags say; writes nothing in a dry run.
        transport: below it.
        renewal_client: opens the client of a thread that renews the Lease.
    """

    client: Client
    transport: Transport
    renewal_client: Callable[[], AbstractAsyncContextManager[Client]]


def parsed(
    name: str,
    text: str,
    kind: type[OptionsT],
    arguments: Sequence[str],
    unused: Collection[str] = UNUSED,
) -> tuple[OptionsT, Path | None, int]:
    """Options, kubeconfig and verbosity from the command line.

    Raises:
        KoordError: a flag, its value and what would be right.
        SystemExit: help was asked for.
    """
    parser = go_flags.parser(name, text, kind, unused)
    told = vars(parser.parse_args(go_flags.two_dashes(arguments)))
    options = kind(**{each: told[each] for each in vars(kind())})
    options.check()
    return options, told["kubeconfig"], told["verbosity"]


def connection_settings(
    options: WebhookProgramOptions, kubeconfig: Path | None
) -> ConnectionSettings:
    """How options say that the API server is reached."""
    rate, burst = float(options.rest_config_qps or 50), options.rest_config_burst or 100
    return ConnectionSettings(kubeconfig, rate, burst, options.dry_run)


async def connected(
    name: str,
    user_agent: str,
    settings: ConnectionSettings,
    metrics: MetricRegistry,
    parts: Callable[[ClusterConnection], Awaitable[list[Component]]],
    stop: asyncio.Event | None = None,
) -> int:
    """Runs the parts of a program until it is stopped; gives the exit status.

    Args:
        name: of the program, and the field manager of what it writes.
        user_agent: as the API server logs it.
        settings: how the API server is reached.
        metrics: of requests.
        parts: what runs.
        stop: set to stop without a signal.
    """
    from koord.kube.client import Client
    from koord.kube.daemon.lifecycle import run_until_stopped
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    transport = HttpTransport(load_cluster_config(settings.kubeconfig), user_agent=user_agent)
    client = Client(
        transport,
        name,
        requests_per_second=settings.requests_per_second,
        burst=settings.burst,
        registry=metrics,
        dry_run=begin_dry_run(settings.dry_run, metrics),
    )
    try:
        renewal_client = lease_client(settings.kubeconfig, name)
        connection = ClusterConnection(client, transport, renewal_client)
        return await run_until_stopped(await parts(connection), stop=stop)
    finally:
        await transport.close()


async def listen(flag: str, address: str, endpoints: Endpoints) -> None:
    """Has endpoints listen.

    Raises:
        KoordError: the address is taken.
    """
    try:
        await endpoints.start()
    except OSError as error:
        raise KoordError(flag, "", address, f"a free address ({error.strerror})") from None


def run(work: Coroutine[Any, Any, int]) -> int:
    """Runs a program; a package that is missing is told by the extra that has it.

    Raises:
        MissingExtraError: it is not installed.
    """
    from koord.kube.daemon import event_loop

    try:
        return event_loop.run(work)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None
