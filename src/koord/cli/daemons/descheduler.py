# SPDX-License-Identifier: Apache-2.0
"""``koord-descheduler``: the descheduler as a program of its own."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from koord.base import log
from koord.base.errors import Code, KoordError
from koord.cli.daemons import controller_program
from koord.cli.daemons.controller_program import ConnectionSettings, listen
from koord.cli.options import go_flags
from koord.cli.process.lease_client import configured_timing, leader_elector
from koord.cli.process.program import collect_garbage_rarely, reachable, run_program
from koord.controllers.descheduler.options import PAIRS, DeschedulerOptions
from koord.controllers.descheduler.unused_flags import UNUSED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.clock import Clock
    from koord.cli.daemons.controller_program import ClusterConnection
    from koord.cli.help.page import HelpPage
    from koord.controllers.descheduler.app import DeschedulerApp
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.endpoints import DeschedulerEndpoints
    from koord.controllers.descheduler.metrics import DeschedulerMetrics
    from koord.controllers.descheduler.planning.program_rounds import SchedulerLibrary
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.transport.messages import Transport

NAME = "koord-descheduler"
_QPS, _BURST = 50.0, 100
_TEXT = """\
Move pods that run in the wrong place.

In rounds strategies say which pods should go, filters and limits keep pods, and
each that may go is moved as a PodMigrationJob, which reserves its new place
first, or evicted. Jobs that people make (koord migrate) are carried out as
well. --config takes the files of Koordinator and of kubernetes-sigs/descheduler
as they are; without it no strategy runs, and jobs alone are carried out.

A round is planned before anything is evicted: which pods go where, in which
order, and what it gains. The scheduler's own filters and scores say where, by
--scheduler-config; where that file cannot be read nothing is planned. With
--rounds=one-by-one pods go as strategies say, and nobody looks where to.

Without --kubeconfig the configuration's clientConnection, KUBECONFIG, the pod's
service account and ~/.kube/config are tried. Several may run; one leads, and
one with --dry-run judges beside it without writing. With an interval of 0 it
ends after one round, unless a plugin is a controller, as MigrationController is.

Exit status:
  0  ended in order
  1  failed, or lost the lead
  2  wrong usage or input

Example: koord-descheduler --config descheduler.yaml --dry-run
"""


def parse(arguments: Sequence[str]) -> tuple[DeschedulerOptions, Path | None, int]:
    """Options, kubeconfig and verbosity from the command line.

    Raises:
        KoordError: a flag, its value and what would be right.
        SystemExit: help was asked for.
    """
    return controller_program.parsed(NAME, _TEXT, DeschedulerOptions, arguments, UNUSED)


def page() -> HelpPage:
    """The page of help."""
    return go_flags.page(NAME, _TEXT, DeschedulerOptions)


async def _run(
    options: DeschedulerOptions, configuration: DeschedulerConfiguration, kubeconfig: Path | None
) -> int:
    from koord.controllers.descheduler.metrics import DeschedulerMetrics

    metrics, done = DeschedulerMetrics(), asyncio.Event()
    client = configuration.client
    settings = ConnectionSettings(
        kubeconfig or (Path(client.kubeconfig) if client.kubeconfig else None),
        client.qps or _QPS,
        client.burst or _BURST,
        configuration.dry_run,
    )
    return await controller_program.connected(
        NAME, NAME, settings, metrics.registry,
        partial(_parts, options, configuration, metrics, done), done,
    )  # fmt: skip


async def _parts(
    options: DeschedulerOptions,
    configuration: DeschedulerConfiguration,
    metrics: DeschedulerMetrics,
    done: asyncio.Event,
    connection: ClusterConnection,
) -> list[Component]:
    from koord.base.clock import SystemClock
    from koord.controllers.descheduler.app import DeschedulerApp, supervise
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.events import EventRecorder

    client, transport, renewal_client = connection
    clock = SystemClock()
    recorder = EventRecorder(client, NAME, clock=clock, metrics=metrics.registry)
    serving = await _serve(options, configuration, metrics, transport, clock)
    elector = None
    if configuration.leader_election.leader_elect and client.dry_run is None:
        url = reachable(serving[-1].advertised_url)
        election = configuration.leader_election
        elector = leader_elector(
            client, election.resource_name, election.resource_namespace, metrics.registry, url,
            configured_timing(election), renewal_client=renewal_client,
        )  # fmt: skip
    supervisor = supervise(metrics, clock)
    library = _library(options, configuration)
    app = DeschedulerApp(
        client, configuration, clock, recorder, elector, metrics, supervisor, library
    )
    for endpoints in serving:
        endpoints.attach(app)
    return [
        *(Component("endpoints", endpoints.run) for endpoints in serving),
        Component("events", partial(supervisor.keep, "events", recorder.run)),
        Component("descheduler", partial(_until_done, app, done), app.ready),
        Component("collector", collect_garbage_rarely),
    ]


def _library(
    options: DeschedulerOptions, configuration: DeschedulerConfiguration
) -> SchedulerLibrary | None:
    """The scheduler's, where rounds are planned; says what people should know of it."""
    from koord.controllers.descheduler.planning.program_rounds import has_strategies

    if not has_strategies(configuration):
        return None
    library = options.library()
    for note in library.notes if library is not None else ():
        log.get("descheduler").warning(note)
    if library is not None and library.problem is not None:
        told = log.fields(error=str(library.problem))
        log.get("descheduler").error("nothing is planned: --scheduler-config", extra=told)
    return library


async def _until_done(app: DeschedulerApp, done: asyncio.Event) -> None:
    """With all rounds done the program has nothing more to do."""
    await app.run()
    done.set()


async def _serve(
    options: DeschedulerOptions,
    configuration: DeschedulerConfiguration,
    metrics: DeschedulerMetrics,
    transport: Transport,
    clock: Clock,
) -> list[DeschedulerEndpoints]:
    """Listens for health and for metrics; once where both have one address. The last answers all
    that is asked over TLS, too.
    """
    from koord.cli.process.secure_port import open_secure_port
    from koord.controllers.descheduler.config.addresses import parted
    from koord.controllers.descheduler.endpoints import DeschedulerEndpoints

    addresses = {
        configuration.metrics_address: "metricsBindAddress",
        configuration.healthz_address: "healthzBindAddress",
    }
    served = []
    for address, field in addresses.items():
        host, port = parted(address)
        last = address == configuration.healthz_address
        secure = open_secure_port(host, options, transport, clock) if last else None
        endpoints = DeschedulerEndpoints(metrics, host, port, secure)
        await listen(f"{options.file}: {field}" if options.file else "--port", address, endpoints)
        served.append(endpoints)
    return served


def main() -> None:
    """The console script; errors are one line, exit status 2 for input and 1 for failure."""
    run_program(_program)


def _program() -> int:
    from koord.controllers.descheduler.framework.registry import PluginRegistry

    arguments = sys.argv[1:]
    options, kubeconfig, verbosity = parse(arguments)
    log.setup(verbosity)
    go_flags.warn("descheduler", go_flags.without_effect(arguments, UNUSED))
    go_flags.warn_of_pairs("descheduler", PAIRS, options, arguments)
    go_flags.warn_of_gates("descheduler", options.gates())
    configuration = options.configuration(PluginRegistry(), go_flags.fields_given(arguments))
    for warning in configuration.warnings:
        log.get("descheduler").warning(warning)
    if options.write_config_to:
        _write(Path(options.write_config_to), configuration)
        return 0
    return controller_program.run(_run(options, configuration, kubeconfig))


def _write(path: Path, configuration: DeschedulerConfiguration) -> None:
    import yaml

    from koord.controllers.descheduler.config.written import written

    text = yaml.safe_dump(written(configuration), sort_keys=False)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        expected = f"a file that can be written ({error.strerror or error})"
        raise KoordError("--write-config-to", "", path, expected, Code.UNREADABLE) from None


if __name__ == "__main__":
    main()
