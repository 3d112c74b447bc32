# SPDX-License-Identifier: Apache-2.0
"""``koord-manager``: the manager as a program of its own."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from koord.base import log
from koord.cli.daemons import controller_program
from koord.cli.daemons.controller_program import listen
from koord.cli.options import go_flags
from koord.cli.process.lease_client import leader_elector
from koord.cli.process.program import reachable, run_program
from koord.controllers.manager.flag_pairs import PAIRS
from koord.controllers.manager.options import ManagerOptions
from koord.controllers.manager.unused_flags import UNUSED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from koord.cli.daemons.controller_program import ClusterConnection
    from koord.cli.help.page import HelpPage
    from koord.controllers.manager.metrics import ManagerMetrics
    from koord.kube.daemon.lifecycle import Component

NAME = "koord-manager"
USER_AGENT = "koordinator-manager"
_TEXT = """\
Offer what is idle on nodes to batch and mid pods, and tell agents what to do.

What agents report and how they protect services is told them in objects of the
API; roots of quota trees are kept, too. Serves the admission webhooks as
koord-webhook does, unless --feature-gates=WebhookFramework=false.

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
    return controller_program.parsed(NAME, _TEXT, ManagerOptions, arguments)


def page() -> HelpPage:
    """The page of help."""
    return go_flags.page(NAME, _TEXT, ManagerOptions)


async def _run(options: ManagerOptions, kubeconfig: Path | None) -> int:
    from koord.controllers.manager.metrics import ManagerMetrics

    metrics = ManagerMetrics()
    return await controller_program.connected(
        NAME, USER_AGENT, controller_program.connection_settings(options, kubeconfig),
        metrics.controllers, partial(_parts, options, metrics),
    )  # fmt: skip


async def _parts(
    options: ManagerOptions, metrics: ManagerMetrics, connection: ClusterConnection
) -> list[Component]:
    from koord.base.clock import SystemClock
    from koord.base.memory.garbage_collection import keep_memory_low
    from koord.cli.daemons.admission_part import AdmissionPart
    from koord.cli.process.secure_port import open_secure_port
    from koord.controllers.manager.app import LEASE, ManagerApp, supervise
    from koord.controllers.manager.endpoints import ManagerEndpoints
    from koord.controllers.manager.node_objects.nodeslo_extenders import installed
    from koord.controllers.webhook.elasticquotas.handlers import DEBUG_PATH
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.events import EventRecorder

    client, transport, renewal_client = connection
    clock = SystemClock()
    recorder = EventRecorder(client, NAME, clock=clock, metrics=metrics.controllers)
    host, port = options.metrics_listen()
    secure = open_secure_port(host, options, transport, clock)
    admission = AdmissionPart()
    pages = {DEBUG_PATH: partial(admission.debug_page, DEBUG_PATH)}
    serving = ManagerEndpoints(metrics, host, port, secure, pages=pages)
    ready = {"webhook": admission.readiness}
    health = ManagerEndpoints(metrics, *options.health_listen(), ready=ready)
    await listen("--metrics-addr", options.metrics_addr, serving)
    await listen("--health-probe-addr", options.health_probe_addr, health)
    elector = None
    if options.enable_leader_election and client.dry_run is None:
        url = reachable(serving.advertised_url)
        elector = leader_elector(
            client, LEASE, options.leader_election_namespace, metrics.controllers, url,
            renewal_client=renewal_client,
        )  # fmt: skip
    supervisor = supervise(metrics, clock)
    app = ManagerApp(client, options, clock, recorder, elector, metrics, installed(), supervisor)
    for endpoints in (serving, health):
        endpoints.attach(app)
    webhooks = await admission.parts(app, client, transport, options, recorder)
    return [
        Component("metrics", serving.run),
        Component("health", health.run),
        Component("events", partial(supervisor.keep, "events", recorder.run)),
        Component("manager", app.run, app.ready),
        *webhooks,
        Component("memory", partial(supervisor.keep, "memory", keep_memory_low)),
    ]


def main() -> None:
    """The console script; errors are one line, exit status 2 for input and 1 for failure."""
    run_program(_program)


def _program() -> int:
    options, kubeconfig, verbosity = parse(sys.argv[1:])
    log.setup(verbosity)
    go_flags.warn("manager", go_flags.without_effect(sys.argv[1:], UNUSED))
    go_flags.warn_of_pairs("manager", PAIRS, options, sys.argv[1:])
    go_flags.warn_of_gates("manager", options.gates())
    return controller_program.run(_run(options, kubeconfig))


if __name__ == "__main__":
    main()
