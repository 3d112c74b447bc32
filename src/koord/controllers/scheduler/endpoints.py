# SPDX-License-Identifier: Apache-2.0
"""What the scheduler serves beside health and metrics: services, explanations, debug state.

Paths below ``/apis/v1`` are Koordinator's (docs/reference/scheduling.md#what-is-served). Who does
not lead answers them with 503, for it does not know what the leader has decided.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from koord.base.errors import Code, KoordError
from koord.controllers.scheduler.debug import state_dump
from koord.kube.daemon.endpoints import Endpoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.scheduler.app import App
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.kube.daemon.secure_port import SecurePort

_NOT_LEADER = {"message": "the instance is not leader"}
_PLUGINS = "/apis/v1/plugins"
SERVICES = (
    "/apis/v1/__services__",
    "/apis/v1/explain/devices/:name",
    "/apis/v1/explain/gangs/:namespace/:name",
    "/apis/v1/explain/pods/:namespace/:name",
    "/apis/v1/explain/quotas/:name",
    "/apis/v1/explain/reservations/:name",
    "/apis/v1/nodes/:name",
    "/debug/cache",
    "/debug/drift",
    "/debug/flags",
    "/debug/parts",
    "/debug/queue",
)
"""What is served whichever plugins are enabled."""


class SchedulerEndpoints(Endpoints):
    """Serves for one scheduler.

    Args:
        metrics: served at ``/metrics``.
        host: address to listen on.
        port: 0 for a free one.
        secure: serves the same over TLS.
    """

    def __init__(
        self, metrics: SchedulerMetrics, host: str, port: int, secure: SecurePort | None = None
    ) -> None:
        self._app: App | None = None
        answers: dict[str, Callable[[App, web.Request], Any]] = {
            "/apis/v1/nodes/{name}": _node,
            "/apis/v1/plugins/{plugin}/{path:.*}": _plugin,
            "/apis/v1/explain/pods/{namespace}/{name}": _explain,
            "/apis/v1/explain/gangs/{namespace}/{name}": _explain_gang,
            "/apis/v1/explain/reservations/{name}": _explain_reservation,
            "/apis/v1/explain/devices/{name}": _explain_device,
            "/apis/v1/explain/quotas/{name:.+}": _explain_quota,
            "/debug/queue": lambda app, request: state_dump.queue(app.scheduler),
            "/debug/cache": lambda app, request: state_dump.cache(app.scheduler),
            "/debug/drift": lambda app, request: app.drift(),
            "/debug/flags": lambda app, request: app.switches.values(),
        }
        # Of plugins only a path is asked: what they cannot read is the cluster's, not the asker's.
        routes = {
            path: self._handler(answer, 500 if answer is _plugin else 400)
            for path, answer in answers.items()
        }
        super().__init__(
            [metrics.registry],
            ready={"informers": self._informers},
            routes={
                "/apis/v1/__services__": self._services,
                "/debug/parts": self._parts,
                **routes,
            },
            puts={"/debug/flags/{flag}": self._flag},
            before_metrics=[lambda: self._refresh(metrics)],
            host=host,
            port=port,
            secure=secure,
        )

    def attach(self, app: App) -> None:
        """Says whose questions are answered from now on."""
        self._app = app

    def _informers(self) -> str | None:
        return "starting" if self._app is None else self._app.views.readiness()

    def _refresh(self, metrics: SchedulerMetrics) -> None:
        if self._app is None:
            return
        queue = self._app.scheduler.queue
        metrics.pending(queue.pending())
        metrics.incoming(queue.incoming)
        metrics.unschedulable(queue.rejected())
        for plugin in self._app.scheduler.plugins:
            if hasattr(plugin, "refresh_metrics"):
                plugin.refresh_metrics()

    def _handler(self, answer: Callable[[App, web.Request], Any], invalid: int = 400) -> Any:
        """
        Args:
            answer: makes the answer.
            invalid: the status where something cannot be meant: what was asked, or what is told of.
        """

        async def handle(request: web.Request) -> web.Response:
            if self._app is None or not self._app.leading:
                return _json(503, _NOT_LEADER)
            try:
                found = answer(self._app, request)
                return _json(200, await found if isawaitable(found) else found)
            except KoordError as error:
                status = 404 if error.code is Code.NOT_FOUND else invalid
                return _json(status, {"message": str(error)})
            except KeyError as error:
                return _json(404, {"message": str(error.args[0] if error.args else error)})

        return handle

    async def _flag(self, request: web.Request) -> web.Response:
        text = await request.text()
        flag = request.match_info["flag"]
        answer = self._handler(lambda app, _: app.switches.set(flag, text))
        done: web.Response = await answer(request)
        return done

    async def _parts(self, request: web.Request) -> web.Response:
        """How each loop does; of who does not lead too."""
        del request
        return _json(200, self._app.supervisor.status() if self._app is not None else [])

    async def _services(self, request: web.Request) -> web.Response:
        return _json(200, {"GET": services(self._app), "PUT": ["/debug/flags/:flag"]})


def services(app: App | None) -> list[str]:
    """Every path that may be asked, sorted; ``:name`` stands for a part of one's own."""
    found = set(SERVICES)
    for plugin in app.scheduler.plugins if app is not None else ():
        found |= {f"{_PLUGINS}/{plugin.name}/{path}" for path in getattr(plugin, "debug_paths", ())}
    return sorted(found)


def _node(app: App, request: web.Request) -> Any:
    return state_dump.node(app.scheduler, request.match_info["name"])


def _plugin(app: App, request: web.Request) -> Any:
    name, path = request.match_info["plugin"], request.match_info["path"]
    for plugin in app.scheduler.plugins:
        if plugin.name == name:
            return plugin.debug([part for part in path.split("/") if part])
    raise KeyError(f"no plugin {name} is enabled")


def _explain(app: App, request: web.Request) -> Any:
    return app.explainer.pod(request.match_info["namespace"], request.match_info["name"])


def _explain_gang(app: App, request: web.Request) -> Any:
    asked = request.match_info
    return app.explainer.objects.gang(asked["namespace"], asked["name"])


def _explain_reservation(app: App, request: web.Request) -> Any:
    return app.explainer.objects.reservation(request.match_info["name"])


def _explain_device(app: App, request: web.Request) -> Any:
    return app.explainer.objects.device(request.match_info["name"])


def _explain_quota(app: App, request: web.Request) -> Any:
    namespace = request.query.get("namespace", "")
    return app.explainer.objects.quota(request.match_info["name"], namespace)


def _json(status: int, body: Any) -> web.Response:
    data = msgspec.json.encode(body)
    return web.Response(status=status, body=data, content_type="application/json")
