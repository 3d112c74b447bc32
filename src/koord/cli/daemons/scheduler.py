# SPDX-License-Identifier: Apache-2.0
"""``koord-scheduler``: the scheduler as a program of its own."""

from __future__ import annotations

import errno
import socket
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from uuid import uuid4

import typer

from koord.base import log
from koord.base.errors import KoordError, MissingExtraError
from koord.cli.help.typer_help import DURATION, TyperApp, Verb, VersionOption
from koord.cli.options.secure_port_flags import (
    AccessCacheNo,
    AccessCacheYes,
    AuthenticationKubeconfig,
    AuthorizationKubeconfig,
    ClientCA,
    OpenPaths,
    SecurePortNumber,
    TLSCertificate,
    TLSKey,
    TokenCache,
    effective_secure_port,
)
from koord.cli.options.values import seconds, whole_number
from koord.cli.process.lease_client import configured_timing, leader_elector, lease_client
from koord.cli.process.program import begin_dry_run, reachable
from koord.kube.daemon.secure_port_options import SecurePortOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from koord.base.feature_gates import FeatureGates
    from koord.controllers.scheduler.config.load import SchedulerConfiguration
    from koord.controllers.scheduler.endpoints import SchedulerEndpoints
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.controllers.scheduler.registry import Registry
    from koord.kube.client import Client
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.transport.messages import Transport

NAME = "koord-scheduler"
# Bindings on their way to the API server at once.
_CONNECTIONS = 128
# Events that may wait while bindings are written.
_EVENTS = 8192
# How Go programs write a switch.
_SECURE = SecurePortOptions()
_GO_SWITCHES = {
    "--leader-elect=true": "--leader-elect",
    "--leader-elect=false": "--no-leader-elect",
    "--dry-run=true": "--dry-run",
}


class ReachScope(StrEnum):
    """How far quotas and reservations reach: over all namespaces, or not beyond their own."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"


class QueueFairness(StrEnum):
    """Who takes turns among pods of equal priority."""

    NONE = "none"
    NAMESPACE = "namespace"


class SchedulerFlags(NamedTuple):
    """What the command line says beside files."""

    address: str
    port: int
    feature_gates: str
    leader_elect: bool | None
    timeout_seconds: float
    api_check_seconds: float
    dry_run: bool = False
    quota_scope: str = ""
    reservation_scope: str = ""
    queue_fairness: str = ""
    secure: SecurePortOptions = SecurePortOptions()


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
    bool, typer.Option("--dry-run", help="lead nobody and write nothing; say what would be written")
]


def _read_scope(option: str) -> Callable[[str], ReachScope]:
    def read(text: str) -> ReachScope:
        if text in list(ReachScope):
            return ReachScope(text)
        raise KoordError(option, "", text, "cluster or namespace")

    return read


def _read_fairness(text: str) -> QueueFairness:
    if text in list(QueueFairness):
        return QueueFairness(text)
    raise KoordError("--queue-fairness", "", text, "none or namespace")


_QuotaScope = Annotated[
    ReachScope | None,
    typer.Option(
        "--quota-scope",
        metavar="cluster|namespace",
        parser=_read_scope("--quota-scope"),
        help="whose pods a quota reaches; overrides the configuration",
    ),
]
_ReservationScope = Annotated[
    ReachScope | None,
    typer.Option(
        "--reservation-scope",
        metavar="cluster|namespace",
        parser=_read_scope("--reservation-scope"),
        help="whose pods an owner without a namespace means; overrides the configuration",
    ),
]
_QueueFairness = Annotated[
    QueueFairness | None,
    typer.Option(
        "--queue-fairness",
        metavar="none|namespace",
        parser=_read_fairness,
        help="who takes turns among pods of equal priority; overrides the configuration",
    ),
]
_Verbosity = Annotated[
    int,
    typer.Option(
        "-v", "--v", metavar="LEVEL", parser=whole_number("-v", 0, 9), help="of the log: 0 to 9"
    ),
]


class _Command(Verb):
    """Takes kube-scheduler's flags, too: those without effect here are told of."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from koord.cli.options.go_flags import taken_out
        from koord.controllers.scheduler.unused_flags import SWITCHES, UNUSED

        rest, ctx.obj = taken_out(args, UNUSED, SWITCHES)
        return super().parse_args(ctx, [_GO_SWITCHES.get(word, word) for word in rest])


def scheduler(
    ctx: typer.Context,
    config: _Config = None,
    kubeconfig: _Kubeconfig = None,
    address: _Address = "127.0.0.1",
    port: _Port = 10251,
    feature_gates: _Gates = "",
    leader_elect: _LeaderElect = None,
    timeout: _Timeout = 30.0,
    api_check: _APICheck = 300.0,
    dry_run: _DryRun = False,
    quota_scope: _QuotaScope = None,
    reservation_scope: _ReservationScope = None,
    queue_fairness: _QueueFairness = None,
    secure_port: SecurePortNumber = 0,
    tls_cert_file: TLSCertificate = "",
    tls_private_key_file: TLSKey = "",
    client_ca_file: ClientCA = "",
    authentication_kubeconfig: AuthenticationKubeconfig = "",
    authorization_kubeconfig: AuthorizationKubeconfig = "",
    open_paths: OpenPaths = _SECURE.authorization_always_allow_paths,
    token_cache: TokenCache = _SECURE.authentication_token_webhook_cache_ttl,
    access_cache_yes: AccessCacheYes = _SECURE.authorization_webhook_cache_authorized_ttl,
    access_cache_no: AccessCacheNo = _SECURE.authorization_webhook_cache_unauthorized_ttl,
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
    from koord.cli.options import go_flags
    from koord.kube.daemon import event_loop

    del show_version
    log.setup(verbosity)
    go_flags.warn("scheduler", ctx.obj or [])
    if dry_run and leader_elect:
        said = log.fields(flags="--leader-elect", beside="--dry-run")
        log.get("scheduler").warning("flags without effect", extra=said)
    secure = effective_secure_port(
        SecurePortOptions(
            secure_port, tls_cert_file, tls_private_key_file, client_ca_file,
            authentication_kubeconfig, authorization_kubeconfig, open_paths, token_cache,
            access_cache_yes, access_cache_no,
        )
    )  # fmt: skip
    try:
        scheduler_flags = SchedulerFlags(
            address, port, feature_gates, leader_elect, timeout, api_check, dry_run,
            quota_scope or "", reservation_scope or "", queue_fairness or "", secure,
        )  # fmt: skip
        status = event_loop.run(_run(config, kubeconfig, scheduler_flags))
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None
    raise typer.Exit(status)


async def _run(
    config: Path | None,
    kubeconfig: Path | None,
    scheduler_flags: SchedulerFlags,
) -> int:
    from koord.base.metrics import registry as new_registry
    from koord.cli.options.go_flags import warn_of_gates
    from koord.controllers.scheduler.config.load import load, shipped
    from koord.controllers.scheduler.feature_gates import feature_gates as parse_gates
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.controllers.scheduler.registry import Registry
    from koord.kube.client import Client
    from koord.kube.daemon.lifecycle import run_until_stopped
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    registry = Registry()
    configuration = load(config, registry) if config is not None else shipped(registry, NAME)
    configuration = configuration.scoped(
        scheduler_flags.quota_scope,
        scheduler_flags.reservation_scope,
        scheduler_flags.queue_fairness,
    )
    for warning in configuration.warnings:
        log.get("scheduler").warning(warning)
    path = kubeconfig or (
        Path(configuration.client.kubeconfig) if configuration.client.kubeconfig else None
    )
    gates = parse_gates(scheduler_flags.feature_gates)
    warn_of_gates("scheduler", gates)
    transport = HttpTransport(load_cluster_config(path), connections=_CONNECTIONS)
    limit = configuration.qps if configuration.qps > 0 else None
    metrics = SchedulerMetrics(new_registry())
    told = begin_dry_run(scheduler_flags.dry_run, metrics.registry)
    client = Client(
        transport, NAME, requests_per_second=limit, burst=configuration.burst,
        registry=metrics.registry, dry_run=told,
    )  # fmt: skip
    if scheduler_flags.leader_elect is None:
        scheduler_flags = scheduler_flags._replace(
            leader_elect=configuration.leader_election.leader_elect
        )
    try:
        endpoints = await _serve(scheduler_flags, metrics, transport)
        parts = _parts(
            client, configuration, registry, gates, scheduler_flags, metrics, endpoints,
            lease_client(path, NAME),
        )  # fmt: skip
        return await run_until_stopped(parts)
    finally:
        await transport.close()


async def _serve(
    scheduler_flags: SchedulerFlags, metrics: SchedulerMetrics, transport: Transport
) -> SchedulerEndpoints:
    from koord.base.clock import SystemClock
    from koord.cli.process.secure_port import open_secure_port
    from koord.controllers.scheduler.endpoints import SchedulerEndpoints

    host, port = scheduler_flags.address, scheduler_flags.port
    secure = open_secure_port(host, scheduler_flags.secure, transport, SystemClock())
    endpoints = SchedulerEndpoints(metrics, host, port, secure)
    try:
        await endpoints.start()
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            expected = f"an address of this machine ({error.strerror})"
            raise KoordError("--bind-address", "", scheduler_flags.address, expected) from None
        raise KoordError(
            "--port", "", scheduler_flags.port, f"a free port ({error.strerror})"
        ) from None
    return endpoints


def _parts(
    client: Client,
    configuration: SchedulerConfiguration,
    registry: Registry,
    gates: FeatureGates,
    scheduler_flags: SchedulerFlags,
    metrics: SchedulerMetrics,
    endpoints: SchedulerEndpoints,
    renewal_client: Callable[[], AbstractAsyncContextManager[Client]],
) -> list[Component]:
    from koord.base.clock import SystemClock
    from koord.base.memory.garbage_collection import keep_memory_low
    from koord.controllers.scheduler.app import App, supervise
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.events import EventRecorder

    clock = SystemClock()
    recorder = EventRecorder(client, NAME, capacity=_EVENTS, clock=clock, metrics=metrics.registry)
    stands = scheduler_flags.leader_elect and client.dry_run is None
    elector = None
    if stands:
        url = reachable(endpoints.advertised_url)
        election = configuration.leader_election
        elector = leader_elector(
            client, election.resource_name, election.resource_namespace, metrics.registry, url,
            configured_timing(election), renewal_client=renewal_client,
        )  # fmt: skip
    seed = uuid4().int
    supervisor = supervise(metrics, clock)
    app = App(
        client, configuration, clock, recorder, gates, elector, metrics, registry, seed, supervisor
    )
    app.scheduler.loop.monitor.timeout_seconds = scheduler_flags.timeout_seconds
    app.spot_check.period_seconds = scheduler_flags.api_check_seconds
    endpoints.attach(app)
    return [
        Component("endpoints", endpoints.run),
        Component("events", partial(supervisor.keep, "events", recorder.run)),
        Component("scheduler", app.run, app.ready),
        Component("memory", partial(supervisor.keep, "memory", keep_memory_low)),
    ]


def build() -> TyperApp:
    """The program."""
    app = TyperApp()
    app.command(NAME, cls=_Command)(scheduler)
    return app


def check_flags(arguments: Sequence[str]) -> None:
    """Reads flags without running anything.

    Raises:
        KoordError: a flag, its value and what would be right.
    """
    from koord.cli.options.go_flags import two_dashes
    from koord.cli.process.typer_program import check_arguments

    check_arguments(build(), NAME, two_dashes(arguments))


def main() -> None:
    """The console script; errors are one line, exit status 2 for input and 1 for failure."""
    from koord.cli.process.typer_program import run_app

    run_app(build(), NAME)


if __name__ == "__main__":
    main()
