# SPDX-License-Identifier: Apache-2.0
"""What koordlet answers over HTTP: health, metrics, its status, the audit log."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from aiohttp import web

from koord.agent.executor.audit_reader import AuditReader
from koord.agent.status import agent_status
from koord.api import codec
from koord.kube.daemon.endpoints import METRICS_TYPE, Endpoints
from koord.kube.daemon.missing_kinds import note

if TYPE_CHECKING:
    from koord.agent.app import Agent
    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.kube.daemon.secure_port import SecurePort

_JSON = "application/json"
# The original's split of its series: docs/reference/reports.md#what-is-served.
_EXTERNAL = (
    "koordlet_node_resource_allocatable",
    "koordlet_node_priority_resource_reclaimable",
    "koordlet_node_resource_priority_reclaimable_status",
    "koordlet_container_resource_",
    "koordlet_container_cpi",
    "koordlet_container_psi",
    "koordlet_pod_psi",
)


class AgentEndpoints(Endpoints):
    """The endpoints of one agent; before it is attached they say that it is not ready.

    Args:
        registry: whose metrics are served.
        clock: of the status.
        host: to listen on.
        port: 0 for a free one.
        secure: serves the same over TLS.
    """

    def __init__(
        self,
        registry: MetricRegistry,
        clock: Clock,
        host: str,
        port: int,
        secure: SecurePort | None = None,
    ) -> None:
        self._agent: Agent | None = None
        self._clock, self._registry = clock, registry
        self._reader: AuditReader | None = None
        super().__init__(
            [registry],
            ready={"agent": self._check, "informers": self._informers},
            routes={
                "/status": self._status,
                "/events": self._events,
                "/internal-metrics": self._internal,
                "/external-metrics": self._external,
            },
            before_metrics=[self._refresh],
            host=host,
            port=port,
            secure=secure,
            metrics_paths=("/internal-metrics", "/external-metrics"),
        )

    def attach(self, agent: Agent) -> None:
        """The agent to tell of."""
        self._agent = agent
        if agent.gates.enabled("AuditEventsHTTPHandler"):
            self._reader = AuditReader(
                agent.audit,
                self._clock,
                lambda: str(uuid.uuid4()),
                agent.options.audit_max_events_limit,
                max(agent.options.audit_max_concurrent_readers, 1),
            )

    def _refresh(self) -> None:
        if self._agent is not None:
            self._agent.refresh_metrics()

    def _check(self) -> str | None:
        ready = self._agent is not None and self._agent.is_ready
        return None if ready else "strategies and hooks do not run yet"

    def _informers(self) -> str | None:
        return note(self._agent.informers) if self._agent is not None else "starting"

    async def _status(self, request: web.Request) -> web.Response:
        del request
        if self._agent is None:
            return web.Response(status=503, text="starting\n")
        told: Any = agent_status(self._agent, self._clock)
        return web.Response(body=codec.to_json(told), content_type=_JSON)

    async def _internal(self, request: web.Request) -> web.Response:
        """How the agent itself does."""
        del request
        self._refresh()
        body = self._registry.expose(lambda name: not name.startswith(_EXTERNAL))
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    async def _external(self, request: web.Request) -> web.Response:
        """What users of the node look at: what is lent, cycles, pressure."""
        del request
        self._refresh()
        body = self._registry.expose(lambda name: name.startswith(_EXTERNAL))
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    async def _events(self, request: web.Request) -> web.Response:
        if self._reader is None:
            return web.Response(status=404, text="gate AuditEventsHTTPHandler is off\n")
        answer = self._reader.answer(dict(request.query), request.headers.get("Accept", ""))
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
