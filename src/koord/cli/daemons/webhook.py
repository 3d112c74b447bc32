# SPDX-License-Identifier: Apache-2.0
"""``koord-webhook``: admission as a program of its own."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from koord.base import log
from koord.cli.daemons import controller_program
from koord.cli.daemons.controller_program import listen
from koord.cli.options import go_flags
from koord.cli.process.lease_client import leader_elector
from koord.cli.process.program import run_program
from koord.controllers.manager.unused_flags import UNUSED
from koord.controllers.webhook.program_options import WebhookProgramOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.cli.daemons.controller_program import ClusterConnection
    from koord.cli.help.page import HelpPage
    from koord.controllers.webhook.app import WebhookApp
    from koord.controllers.webhook.environment import WebhookEnvironment
    from koord.controllers.webhook.lead import WriterLead
    from koord.kube.client import Client
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.transport.messages import Transport

NAME = "koord-webhook"
_TEXT = """\
Judge pods, quotas, nodes and configuration before they are stored.

Serves the admission webhooks that koord-manager serves too. Several may run: all
answer, one writes the certificate and the two webhook configurations. Where to
serve, and where the certificate is kept, environment variables say, as the
original's: WEBHOOK_PORT, WEBHOOK_HOST, WEBHOOK_CERT_DIR, WEBHOOK_CERT_WRITER,
SECRET_NAME, SERVICE_NAME, POD_NAMESPACE, MUTATING_WEBHOOK_NAME,
VALIDATING_WEBHOOK_NAME.

Without --kubeconfig KUBECONFIG, the pod's service account and ~/.kube/config are tried.

Exit status:
  0  ended in order
  1  failed
  2  wrong usage or input

Example: koord-webhook --feature-gates NodeMutatingWebhook=true
"""


def parse(arguments: Sequence[str]) -> tuple[WebhookProgramOptions, Path | None, int]:
    """Options, kubeconfig and verbosity from the command line.

    Raises:
        KoordError: a flag, its value and what would be right.
        SystemExit: help was asked for.
    """
    return controller_program.parsed(NAME, _TEXT, WebhookProgramOptions, arguments)


def page() -> HelpPage:
    """The page of help."""
    return go_flags.page(NAME, _TEXT, WebhookProgramOptions)


async def _run(options: WebhookProgramOptions, kubeconfig: Path | None) -> int:
    from koord.base.metrics import registry
    from koord.controllers.webhook.environment import WebhookEnvironment

    metrics, environment = registry(), WebhookEnvironment.of(os.environ)
    return await controller_program.connected(
        NAME, NAME, controller_program.connection_settings(options, kubeconfig), metrics,
        partial(_parts, options, environment, metrics),
    )  # fmt: skip


async def _parts(
    options: WebhookProgramOptions,
    environment: WebhookEnvironment,
    metrics: MetricRegistry,
    connection: ClusterConnection,
) -> list[Component]:
    from koord.base.clock import SystemClock
    from koord.base.memory.garbage_collection import keep_memory_low
    from koord.base.supervision import Supervisor
    from koord.base.worker import Worker
    from koord.controllers.webhook.app import DRAIN_SECONDS, WebhookApp
    from koord.controllers.webhook.framework.handler import HandlerDependencies
    from koord.controllers.webhook.informer_views import admission_views
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.events import EventRecorder

    client, transport, renewal_client = connection
    clock = SystemClock()
    supervisor = Supervisor("webhook", metrics, clock)
    recorder = EventRecorder(client, NAME, clock=clock, metrics=metrics)
    views = admission_views(client, metrics, supervisor, options.gates())
    lead = _lead(client, options, metrics, renewal_client)
    app = WebhookApp(
        HandlerDependencies(
            client,
            views,
            options.gates(),
            options,
            clock,
            recorder.event,
            metrics,
            supervisor,
            worker=Worker(threaded=True),
        ),
        environment,
        lead.leading if lead is not None else lambda: True,
        drain_seconds=DRAIN_SECONDS,
    )
    await app.listen()
    health = await _serve_health(options, metrics, app, transport, clock)
    election = [] if lead is None else [
        Component("election", partial(supervisor.keep, "election", lead.run))
    ]  # fmt: skip
    return [
        *health,
        Component("events", partial(supervisor.keep, "events", recorder.run)),
        Component("informers", partial(supervisor.keep, "informers", views.run)),
        *election,
        Component("webhook", app.run, app.ready),
        Component("memory", partial(supervisor.keep, "memory", keep_memory_low)),
    ]


async def _serve_health(
    options: WebhookProgramOptions,
    metrics: MetricRegistry,
    app: WebhookApp,
    transport: Transport,
    clock: Clock,
) -> list[Component]:
    from koord.cli.process.secure_port import open_secure_port
    from koord.controllers.webhook.elasticquotas.handlers import DEBUG_PATH
    from koord.kube.daemon.endpoints import Endpoints, document_page
    from koord.kube.daemon.lifecycle import Component

    host, port = options.metrics_listen()
    secure = open_secure_port(host, options, transport, clock)
    parts = []
    for flag, address, secured in (
        ("--metrics-addr", (host, port), secure),
        ("--health-probe-addr", options.health_listen(), None),
    ):
        endpoints = Endpoints(
            [metrics], ready={"webhook": app.readiness}, host=address[0], port=address[1],
            routes={DEBUG_PATH: document_page(partial(app.debug_page, DEBUG_PATH))},
            secure=secured,
        )  # fmt: skip
        await listen(flag, f"{address[0]}:{address[1]}", endpoints)
        parts.append(Component(flag.strip("-").partition("-")[0], endpoints.run))
    return parts


def _lead(
    client: Client,
    options: WebhookProgramOptions,
    metrics: MetricRegistry,
    renewal_client: Callable[[], AbstractAsyncContextManager[Client]],
) -> WriterLead | None:
    """None where nobody else is asked who writes."""
    from koord.controllers.webhook.lead import LEASE, WriterLead

    if client.dry_run is not None or not options.enable_leader_election:
        return None
    return WriterLead(
        leader_elector(
            client, LEASE, options.leader_election_namespace, metrics,
            renewal_client=renewal_client,
        )
    )  # fmt: skip


def main() -> None:
    """The console script; errors are one line, exit status 2 for input and 1 for failure."""
    run_program(_program)


def _program() -> int:
    options, kubeconfig, verbosity = parse(sys.argv[1:])
    log.setup(verbosity)
    go_flags.warn("webhook", go_flags.without_effect(sys.argv[1:], UNUSED))
    go_flags.warn_of_gates("webhook", options.gates())
    return controller_program.run(_run(options, kubeconfig))


if __name__ == "__main__":
    main()
