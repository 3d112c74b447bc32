# SPDX-License-Identifier: Apache-2.0
"""``koord-scheduler``: the scheduler as a program of its own."""

from __future__ import annotations

import asyncio
import errno
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from uuid import uuid4

import typer

from koord.base import log
from koord.base.errors import KoordError, MissingExtraError
from koord.cli.help.verbs import DURATION, App, VersionOption
from koord.cli.programs import begin_dry_run, look_seldom, reachable
from koord.cli.values import seconds, whole_number

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.base.gates import FeatureGates
    from koord.cli.components import Cluster
    from koord.controllers.scheduler.config.load import SchedulerConfiguration
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.controllers.scheduler.registry import Registry
    from koord.kube.client import Client
    from koord.kube.election import LeaderElector, Timing
    from koord.kube.lifecycle import Component

NAME = "koord-scheduler"
# Bindings on their way to the API server at once.
_CONNECTIONS = 128
# Events that may wait while bindings are written.
_EVENTS = 8192
# What `koord up` keeps for pods that ask for it.
SCARCE = (
    "nvidia.com/gpu",
    *(f"koordinator.sh/{name}" for name in
      ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared")),
)  # fmt: skip
# The annotation of the Lease that says where the leader answers questions.
ENDPOINT = "koord.sh/endpoint"


class Wishes(NamedTuple):
    """What the command line says beside files."""

    address: str
    port: int
    feature_gates: str
    leader_elect: bool | None
    timeout_seconds: float
    api_check_seconds: float
    dry_run: bool = False


_Port = Annotated[
    int,
    typer.Option(
        "--port",
        metavar="P",
        parser=whole_number("--port", 0, 65_535),
        help="serve health, metrics and explanations on it; 0 for any free one",
    ),
]


_Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="KubeSchedulerConfiguration")
]
_Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="how to reach the cluster")
]
_Address = Annotated[
    str, typer.Option("--bind-address", metavar="IP", help="serve health and metrics there")
]
_Gates = Annotated[
    str, typer.Option("--feature-gates", metavar="GATE=BOOL,...", help="switch features")
]
_LeaderElect = Annotated[
    bool | None,
    typer.Option("--leader-elect/--no-leader-elect", help="overrides the configuration"),
]
_Timeout = Annotated[
    float,
    typer.Option(
        "--scheduling-timeout",
        metavar=DURATION,
        parser=seconds("--scheduling-timeout"),
        help="tell of attempts that take longer; 0 tells of none",
    ),
]
_APICheck = Annotated[
    float,
    typer.Option(
        "--api-check-period",
        metavar=DURATION,
        parser=seconds("--api-check-period"),
        help="compare the cache of one kind in turn with the API so often; 0 never does",
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="lead and write nothing; say what would be written")
]
_Verbosity = Annotated[
    int,
    typer.Option(
        "-v", "--v", metavar="LEVEL", parser=whole_number("-v", 0, 9), help="of the log: 0 to 9"
    ),
]


def scheduler(
    config: _Config = None,
    kubeconfig: _Kubeconfig = None,
    address: _Address = "127.0.0.1",
    port: _Port = 10251,
    feature_gates: _Gates = "",
    leader_elect: _LeaderElect = None,
    timeout: _Timeout = 30.0,
    api_check: _APICheck = 300.0,
    dry_run: _DryRun = False,
    verbosity: _Verbosity = 2,
    show_version: VersionOption = False,
) -> None:
    """Schedule pods that name koord-scheduler, or a profile of the configuration.

    Without --kubeconfig the configuration's clientConnection, KUBECONFIG, the pod's
    service account and ~/.kube/config are tried. Several may run; one leads.
    With --dry-run it decides beside the leader, counts what it decided, and
    tells the bindings that it would make.

    Exit status:
      0  ended in order
      1  failed, or lost the lead
      2  wrong usage or input

    Example: koord-scheduler --config scheduler.yaml --kubeconfig ~/.kube/config
    """
    del show_version
    if dry_run and leader_elect:
        from koord.cli.output import refuse_beside

        refuse_beside("--dry-run", {"--leader-elect": "true"})
    log.setup(verbosity)
    try:
        wishes = Wishes(address, port, feature_gates, leader_elect, timeout, api_check, dry_run)
        status = asyncio.run(_run(config, kubeconfig, wishes))
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None
    raise typer.Exit(status)


async def _run(
    config: Path | None,
    kubeconfig: Path | None,
    wishes: Wishes,
) -> int:
    from koord.base.metrics import registry as new_registry
    from koord.cli.flags import warn_of_gates
    from koord.controllers.scheduler.config.load import load, shipped
    from koord.controllers.scheduler.gates import feature_gates as parse_gates
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.controllers.scheduler.registry import Registry
    from koord.kube.client import Client
    from koord.kube.config import ClusterConfig
    from koord.kube.http import HttpTransport
    from koord.kube.lifecycle import run_until_stopped

    registry = Registry()
    wish = load(config, registry) if config is not None else shipped(registry, NAME)
    for warning in wish.warnings:
        log.get("scheduler").warning(warning)
    path = kubeconfig or (Path(wish.client.kubeconfig) if wish.client.kubeconfig else None)
    gates = parse_gates(wishes.feature_gates)
    warn_of_gates("scheduler", gates)
    transport = HttpTransport(ClusterConfig.load(path), connections=_CONNECTIONS)
    limit = wish.qps if wish.qps > 0 else None
    metrics = SchedulerMetrics(new_registry())
    told = begin_dry_run(wishes.dry_run, metrics.registry)
    client = Client(transport, NAME, requests_per_second=limit, burst=wish.burst, dry_run=told)
    if wishes.leader_elect is None:
        wishes = wishes._replace(leader_elect=wish.leader_election.leader_elect)
    try:
        parts = await _parts(client, wish, registry, gates, wishes, metrics)
        return await run_until_stopped(parts)
    finally:
        await transport.close()


async def _parts(
    client: Client,
    wish: SchedulerConfiguration,
    registry: Registry,
    gates: FeatureGates,
    wishes: Wishes,
    metrics: SchedulerMetrics,
) -> list[Component]:
    from koord.base.clock import SystemClock
    from koord.controllers.scheduler.app import App, supervise
    from koord.controllers.scheduler.serving import SchedulerEndpoints
    from koord.kube.events import EventRecorder
    from koord.kube.lifecycle import Component

    clock = SystemClock()
    recorder = EventRecorder(client, NAME, capacity=_EVENTS, clock=clock, metrics=metrics.registry)
    endpoints = SchedulerEndpoints(metrics, wishes.address, wishes.port)
    try:
        await endpoints.start()
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            expected = f"an address of this machine ({error.strerror})"
            raise KoordError("--bind-address", "", wishes.address, expected) from None
        raise KoordError("--port", "", wishes.port, f"a free port ({error.strerror})") from None
    stands = wishes.leader_elect and client.dry_run is None
    elector = _elector(client, wish, reachable(endpoints.url), metrics) if stands else None
    seed = uuid4().int
    supervisor = supervise(metrics, clock)
    app = App(client, wish, clock, recorder, gates, elector, metrics, registry, seed, supervisor)
    app.scheduler.loop.monitor.timeout_seconds = wishes.timeout_seconds
    app.spot_check.period_seconds = wishes.api_check_seconds
    endpoints.attach(app)
    return [
        Component("endpoints", endpoints.run),
        Component("events", partial(supervisor.keep, "events", recorder.run)),
        Component("scheduler", app.run, app.ready),
        Component("collector", look_seldom),
    ]


def in_process(cluster: Cluster) -> Component:
    """The scheduler as a part of ``koord up``: for its own name and for default-scheduler."""
    from koord.base.metrics import registry as new_registry
    from koord.cli import former
    from koord.cli.components import keep_leading, lead_timing
    from koord.controllers.scheduler.app import App
    from koord.controllers.scheduler.config.load import shipped
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.controllers.scheduler.registry import Registry
    from koord.controllers.scheduler.serving import SchedulerEndpoints
    from koord.kube.lifecycle import Component

    client, recorder = cluster.client(NAME), cluster.recorder(NAME)
    ready = asyncio.Event()

    async def life() -> None:
        registry = Registry()
        wish = shipped(registry, NAME, "default-scheduler", scarce=SCARCE)
        metrics = SchedulerMetrics(new_registry())
        endpoints = SchedulerEndpoints(metrics, "127.0.0.1", 0)
        await endpoints.start()
        timing = lead_timing()
        elector = _elector(
            client, wish, endpoints.url, metrics, timing, cluster.lead_clock, former.identity()
        )
        app = App(client, wish, cluster.clock, recorder, None, elector, metrics, registry)
        endpoints.attach(app)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(app.run())
                await app.ready()
                ready.set()
        finally:
            await endpoints.stop()

    return Component("scheduler", partial(keep_leading, "scheduler", life), ready.wait)


def _elector(
    client: Client,
    wish: SchedulerConfiguration,
    url: str,
    metrics: SchedulerMetrics,
    timing: Timing | None = None,
    clock: Clock | None = None,
    identity: str = "",
) -> LeaderElector:
    from koord.kube.election import LeaderElector, Timing

    election = wish.leader_election
    return LeaderElector(
        client,
        election.resource_name,
        election.resource_namespace,
        identity or f"{socket.gethostname()}_{uuid4()}",
        timing=timing
        or Timing(
            int(election.lease_duration.nanoseconds // 10**9),
            election.renew_deadline.nanoseconds / 1e9,
            election.retry_period.nanoseconds / 1e9,
        ),
        annotations={ENDPOINT: url},
        clock=clock,
        metrics=metrics.registry,
    )


def build() -> App:
    """The program."""
    app = App()
    app.command(NAME)(scheduler)
    return app


def main() -> None:
    """The console script; errors are one line, exit status 2 for input and 1 for failure."""
    from koord.cli.main import run_app

    run_app(build(), NAME)


if __name__ == "__main__":
    main()
