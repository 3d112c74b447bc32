# SPDX-License-Identifier: Apache-2.0
"""``koord-manager``: the manager as a program of its own."""

from __future__ import annotations

import asyncio
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from koord.base import log
from koord.base.errors import KoordError, MissingExtraError
from koord.cli import flags
from koord.cli.programs import begin_dry_run, look_seldom, reachable, run_program
from koord.controllers.manager.options import ManagerOptions
from koord.controllers.manager.unused_flags import UNUSED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from koord.base.clock import Clock
    from koord.cli.components import Cluster
    from koord.cli.help.page import Page
    from koord.controllers.manager.metrics import ManagerMetrics
    from koord.kube.client import Client
    from koord.kube.election import LeaderElector, Timing
    from koord.kube.lifecycle import Component
    from koord.kube.serving import Endpoints

NAME = "koord-manager"
USER_AGENT = "koordinator-manager"
_TEXT = """\
Offer what is idle on nodes to batch and mid pods, and tell agents what to do.

What agents report and how they protect services is told them in objects of the
API; roots of quota trees are kept, too.

Without --kubeconfig KUBECONFIG, the pod's service account and ~/.kube/config are tried.
Several may run; one leads, and one with --dry-run works beside it without writing.
Lists: a name, * for all, -name for not that one.

Exit status:
  0  ended in order
  1  failed, or lost the lead
  2  wrong usage or input

Example: koord-manager --controllers '*,-quotaprofile' --kubeconfig ~/.kube/config
"""


def parse(arguments: Sequence[str]) -> tuple[ManagerOptions, Path | None, int]:
    """Options, kubeconfig and verbosity from the command line.

    Raises:
        KoordError: a flag, its value and what would be right.
        SystemExit: help was asked for.
    """
    parser = flags.parser(NAME, _TEXT, ManagerOptions, UNUSED)
    told = vars(parser.parse_args(flags.two_dashes(arguments)))
    options = ManagerOptions(**{name: told[name] for name in vars(ManagerOptions())})
    options.check()
    return options, told["kubeconfig"], told["verbosity"]


def page() -> Page:
    """The page of help."""
    return flags.page(NAME, _TEXT, ManagerOptions)


async def _run(options: ManagerOptions, kubeconfig: Path | None) -> int:
    from koord.controllers.manager.metrics import ManagerMetrics
    from koord.kube.client import Client
    from koord.kube.config import ClusterConfig
    from koord.kube.http import HttpTransport
    from koord.kube.lifecycle import run_until_stopped

    metrics = ManagerMetrics()
    transport = HttpTransport(ClusterConfig.load(kubeconfig), user_agent=USER_AGENT)
    client = Client(
        transport,
        NAME,
        requests_per_second=float(options.rest_config_qps or 50),
        burst=options.rest_config_burst or 100,
        registry=metrics.controllers,
        dry_run=begin_dry_run(options.dry_run, metrics.controllers),
    )
    try:
        return await run_until_stopped(await _parts(client, options, metrics))
    finally:
        await transport.close()


async def _parts(
    client: Client, options: ManagerOptions, metrics: ManagerMetrics
) -> list[Component]:
    from koord.base.clock import SystemClock
    from koord.controllers.manager.app import App, supervise
    from koord.controllers.manager.extenders import installed
    from koord.controllers.manager.serving import ManagerEndpoints
    from koord.kube.events import EventRecorder
    from koord.kube.lifecycle import Component

    clock = SystemClock()
    recorder = EventRecorder(client, NAME, clock=clock, metrics=metrics.controllers)
    serving = ManagerEndpoints(metrics, *options.metrics_listen())
    health = ManagerEndpoints(metrics, *options.health_listen())
    await _listen("--metrics-addr", options.metrics_addr, serving)
    await _listen("--health-probe-addr", options.health_probe_addr, health)
    elector = None
    if options.enable_leader_election and client.dry_run is None:
        elector = _elector(client, options, reachable(serving.url), metrics)
    supervisor = supervise(metrics, clock)
    app = App(client, options, clock, recorder, elector, metrics, installed(), supervisor)
    for endpoints in (serving, health):
        endpoints.attach(app)
    return [
        Component("metrics", serving.run),
        Component("health", health.run),
        Component("events", partial(supervisor.keep, "events", recorder.run)),
        Component("manager", app.run, app.ready),
        Component("collector", look_seldom),
    ]


async def _listen(flag: str, address: str, endpoints: Endpoints) -> None:
    try:
        await endpoints.start()
    except OSError as error:
        raise KoordError(flag, "", address, f"a free address ({error.strerror})") from None


def in_process(cluster: Cluster) -> Component:
    """The manager as a part of ``koord up``; without a ConfigMap it offers nothing but devices.

    Cards can be shared there at once, since nobody is to look for a gate on a laptop.
    """
    from koord.cli import former
    from koord.cli.components import keep_leading, lead_timing
    from koord.controllers.manager.app import App
    from koord.controllers.manager.metrics import ManagerMetrics
    from koord.controllers.manager.serving import ManagerEndpoints
    from koord.kube.lifecycle import Component

    options = ManagerOptions(feature_gates="EnableSyncGPUSharedResource=true")
    client, recorder = cluster.client(NAME), cluster.recorder(NAME)
    ready = asyncio.Event()

    async def life() -> None:
        metrics = ManagerMetrics()
        endpoints = ManagerEndpoints(metrics, "127.0.0.1", 0)
        await endpoints.start()
        timing = lead_timing()
        elector = _elector(
            client, options, endpoints.url, metrics, timing, cluster.lead_clock, former.identity()
        )
        app = App(client, options, cluster.clock, recorder, elector, metrics)
        endpoints.attach(app)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(app.run())
                await app.ready()
                ready.set()
        finally:
            await endpoints.stop()

    return Component("manager", partial(keep_leading, "manager", life), ready.wait)


def _elector(
    client: Client,
    options: ManagerOptions,
    url: str,
    metrics: ManagerMetrics,
    timing: Timing | None = None,
    clock: Clock | None = None,
    identity: str = "",
) -> LeaderElector:
    from koord.cli.scheduler import ENDPOINT
    from koord.controllers.manager.app import LEASE
    from koord.kube.election import LeaderElector, Timing

    return LeaderElector(
        client,
        LEASE,
        options.leader_election_namespace,
        identity or f"{socket.gethostname()}_{uuid4()}",
        timing=timing or Timing(),
        annotations={ENDPOINT: url},
        clock=clock,
        metrics=metrics.controllers,
    )


def main() -> None:
    """The console script; errors are one line, exit status 2 for input and 1 for failure."""
    run_program(_program)


def _program() -> int:
    options, kubeconfig, verbosity = parse(sys.argv[1:])
    log.setup(verbosity)
    flags.warn("manager", flags.without_effect(sys.argv[1:], UNUSED))
    flags.warn_of_gates("manager", options.gates())
    try:
        return asyncio.run(_run(options, kubeconfig))
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None


if __name__ == "__main__":
    main()
