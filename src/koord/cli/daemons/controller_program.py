# SPDX-License-Identifier: Apache-2.0
"""What koord-manager and koord-webhook have in common as programs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from koord.base.errors import KoordError, MissingExtraError
from koord.cli.options import go_flags
from koord.cli.process.lease_client import lease_client
from koord.cli.process.program import begin_dry_run
from koord.controllers.manager.unused_flags import UNUSED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from koord.base.metrics import MetricRegistry
    from koord.controllers.webhook.program_options import WebhookProgramOptions
    from koord.kube.client import Client
    from koord.kube.daemon.endpoints import Endpoints
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.transport.messages import Transport

OptionsT = TypeVar("OptionsT", bound="WebhookProgramOptions")


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
    name: str, text: str, kind: type[OptionsT], arguments: Sequence[str]
) -> tuple[OptionsT, Path | None, int]:
    """Options, kubeconfig and verbosity from the command line.

    Raises:
        KoordError: a flag, its value and what would be right.
        SystemExit: help was asked for.
    """
    parser = go_flags.parser(name, text, kind, UNUSED)
    told = vars(parser.parse_args(go_flags.two_dashes(arguments)))
    options = kind(**{each: told[each] for each in vars(kind())})
    options.check()
    return options, told["kubeconfig"], told["verbosity"]


async def connected(
    name: str,
    user_agent: str,
    options: WebhookProgramOptions,
    kubeconfig: Path | None,
    metrics: MetricRegistry,
    parts: Callable[[ClusterConnection], Awaitable[list[Component]]],
) -> int:
    """Runs the parts of a program until it is stopped; gives the exit status.

    Args:
        name: of the program, and the field manager of what it writes.
        user_agent: as the API server logs it.
        options: how fast to ask, and whether to write.
        kubeconfig: None to look around.
        metrics: of requests.
        parts: what runs.
    """
    from koord.kube.client import Client
    from koord.kube.daemon.lifecycle import run_until_stopped
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    transport = HttpTransport(load_cluster_config(kubeconfig), user_agent=user_agent)
    client = Client(
        transport,
        name,
        requests_per_second=float(options.rest_config_qps or 50),
        burst=options.rest_config_burst or 100,
        registry=metrics,
        dry_run=begin_dry_run(options.dry_run, metrics),
    )
    try:
        connection = ClusterConnection(client, transport, lease_client(kubeconfig, name))
        return await run_until_stopped(await parts(connection))
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
    try:
        return asyncio.run(work)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None
