# SPDX-License-Identifier: Apache-2.0
"""``koord-runtime-proxy``: between a kubelet and its container runtime."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from koord.base import log
from koord.base.errors import MissingExtraError
from koord.cli.options import go_flags
from koord.cli.process.program import run_program
from koord.delivery.cri.options import RuntimeProxyOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.metrics import MetricRegistry
    from koord.cli.help.page import HelpPage
    from koord.delivery.cri.proxy import RuntimeProxy
    from koord.kube.daemon.lifecycle import Component

NAME = "koord-runtime-proxy"
_TEXT = """\
Stand between the kubelet and its container runtime, and ask hook servers.

Passes every call of CRI on to the runtime, and back. Before and after some, such as
the creation of a container, it asks a hook server (koordlet) what is to be another;
a file in --runtime-hook-config-dir names it. The kubelet connects to it by
--container-runtime-endpoint=unix:///var/run/koord-runtimeproxy/runtimeproxy.sock.
A hook server that is not there, slow or wrong holds up no pod, unless its file says
that pods are to fail then.

Exit status:
  0  ended in order
  1  failed
  2  wrong usage or input

Example: koord-runtime-proxy --remote-runtime-service-endpoint /run/crio/crio.sock
"""


def parse(arguments: Sequence[str]) -> tuple[RuntimeProxyOptions, int]:
    """Options and verbosity from the command line.

    Raises:
        KoordError: a flag, its value and what would be right.
        SystemExit: help was asked for.
    """
    parser = go_flags.parser(NAME, _TEXT, RuntimeProxyOptions, log.KLOG_FLAGS, cluster=False)
    given = vars(parser.parse_args(go_flags.two_dashes(arguments)))
    options = RuntimeProxyOptions(**{name: given[name] for name in vars(RuntimeProxyOptions())})
    options.check()
    return options, given["verbosity"]


def page() -> HelpPage:
    """The page of help."""
    return go_flags.page(NAME, _TEXT, RuntimeProxyOptions, cluster=False)


async def _run(options: RuntimeProxyOptions) -> int:
    from koord.base.clock import SystemClock
    from koord.base.metrics import registry
    from koord.base.supervision import Supervisor
    from koord.delivery.cri.proxy import GRACE_SECONDS, RuntimeProxy
    from koord.kube.daemon.lifecycle import Component, run_until_stopped

    metrics, clock = registry(), SystemClock()
    proxy = RuntimeProxy(options, metrics, clock, Supervisor("runtime_proxy", metrics, clock))
    try:
        parts = await _endpoints(options, metrics, proxy)
        await proxy.start()
        parts.append(Component("proxy", proxy.run))
        return await run_until_stopped(parts, grace_seconds=2 * GRACE_SECONDS)
    finally:
        await proxy.stop()


async def _endpoints(
    options: RuntimeProxyOptions, metrics: MetricRegistry, proxy: RuntimeProxy
) -> list[Component]:
    if not options.addr:
        return []
    from koord.cli.daemons.controller_program import listen
    from koord.kube.daemon.endpoints import Endpoints, document_page
    from koord.kube.daemon.lifecycle import Component

    host, port = options.listen()
    endpoints = Endpoints(
        [metrics], ready={"runtime": proxy.ready}, host=host, port=port,
        routes={"/status": document_page(proxy.status)},
    )  # fmt: skip
    await listen("--addr", options.addr, endpoints)
    return [Component("endpoints", endpoints.run)]


def main() -> None:
    """The console script; errors are one line, exit status 2 for input and 1 for failure."""
    run_program(_program)


def _program() -> int:
    options, verbosity = parse(sys.argv[1:])
    log.setup(verbosity)
    # What its library has to say of connections is in the calls' status.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    go_flags.warn("runtime-proxy", go_flags.without_effect(sys.argv[1:], log.KLOG_FLAGS))
    try:
        return asyncio.run(_run(options))
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "delivery") from None


if __name__ == "__main__":
    main()
