# SPDX-License-Identifier: Apache-2.0
"""What the descheduler serves beside health and metrics: past rounds, explanations, how parts do.

Rule: docs/reference/descheduling.md#what-is-served. Who does not lead answers questions with 503,
for it does not know what the leader has decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from koord.api.codec import to_json
from koord.base.errors import Code, KoordError
from koord.controllers.descheduler.config.written import written
from koord.kube.daemon.endpoints import Endpoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.controllers.descheduler.app import DeschedulerApp
    from koord.controllers.descheduler.metrics import DeschedulerMetrics
    from koord.kube.daemon.secure_port import SecurePort

    Answer = Callable[[DeschedulerApp, web.Request], Any]

_NOT_LEADER = {"message": "the instance is not leader"}
DEFAULT_ROUNDS = 20
"""Rounds that are shown unless more are asked for."""


class DeschedulerEndpoints(Endpoints):
    """Serves for one descheduler.

    Args:
        metrics: served at ``/metrics``.
        host: address to listen on.
        port: 0 for a free one.
        secure: serves the same over TLS.
    """

    def __init__(
        self, metrics: DeschedulerMetrics, host: str, port: int, secure: SecurePort | None = None
    ) -> None:
        self._app: DeschedulerApp | None = None
        super().__init__(
            [metrics.registry],
            live={"leaderElection": self._lease},
            ready={"informers": self._informers},
            routes={
                "/configz": self._answered(_configz, by_leader=False),
                "/debug/parts": self._answered(_parts, by_leader=False),
                "/debug/rounds": self._answered(_rounds),
                "/debug/plan": self._answered(_plan),
                "/apis/v1/explain/pods/{namespace}/{name}": self._answered(_pod),
                "/apis/v1/explain/nodes/{name}": self._answered(_node),
            },
            host=host,
            port=port,
            secure=secure,
        )

    def attach(self, app: DeschedulerApp) -> None:
        """Says whose questions are answered from now on."""
        self._app = app

    def _lease(self) -> str | None:
        stuck = self._app is not None and not self._app.healthy()
        return "the lease could not be renewed for long" if stuck else None

    def _informers(self) -> str | None:
        return "starting" if self._app is None else self._app.views.readiness()

    def _answered(
        self, answer: Answer, *, by_leader: bool = True
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if self._app is None or (by_leader and not self._app.leading):
                return _json(503, _NOT_LEADER)
            try:
                return _json(200, answer(self._app, request))
            except KoordError as error:
                status = 404 if error.code is Code.NOT_FOUND else 400
                return _json(status, {"message": str(error)})

        return handle


def _parts(app: DeschedulerApp, request: web.Request) -> Any:
    """How each loop and each strategy does; of who does not lead too."""
    del request
    return app.supervisor.status()


def _rounds(app: DeschedulerApp, request: web.Request) -> Any:
    """The last rounds, the newest first; ``?limit=N`` of them."""
    text = request.query.get("limit", str(DEFAULT_ROUNDS))
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) > 0):
        raise KoordError("/debug/rounds", "limit", text, "a whole number above 0")
    rounds = list(app.history.newest_first())
    return {"since": app.history.since, "rounds": rounds[: int(text)]}


def _plan(app: DeschedulerApp, request: web.Request) -> Any:
    """The last round's plan, of all nodes."""
    del request
    if app.plan is None:
        raise KoordError("/debug/plan", "", None, "--rounds=planned", Code.NOT_FOUND)
    return app.plan


def _pod(app: DeschedulerApp, request: web.Request) -> Any:
    return app.explainer.pod(request.match_info["namespace"], request.match_info["name"])


def _node(app: DeschedulerApp, request: web.Request) -> Any:
    return app.explainer.node(request.match_info["name"])


def _configz(app: DeschedulerApp, request: web.Request) -> Any:
    """The configuration that is in force, with all defaults."""
    del request
    return written(app.configuration)


def _json(status: int, body: Any) -> web.Response:
    return web.Response(status=status, body=to_json(body), content_type="application/json")
