# SPDX-License-Identifier: Apache-2.0
"""What the manager serves: metrics in three parts, health, and explanations by its controllers.

Rules: docs/reference/manager.md#metrics, docs/reference/manager.md#leader-election. Who does not
lead answers questions with 503, for it does not know what the leader has decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from koord.base.errors import Code, KoordError
from koord.kube.daemon.endpoints import METRICS_TYPE, Endpoints, document_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from koord.base.metrics import MetricRegistry
    from koord.controllers.manager.app import ManagerApp
    from koord.controllers.manager.metrics import ManagerMetrics
    from koord.kube.daemon.endpoints import Check
    from koord.kube.daemon.secure_port import SecurePort

_METRICS = ("/all-metrics", "/internal-metrics", "/external-metrics")
_NOT_LEADER = {"message": "the instance is not leader"}


class ManagerEndpoints(Endpoints):
    """Serves for one manager.

    Args:
        metrics: the manager's.
        host: address to listen on.
        port: 0 for a free one.
        secure: serves the same over TLS.
        ready: further checks of readiness, by name.
        pages: further documents, by path; None where there is none.
    """

    def __init__(
        self,
        metrics: ManagerMetrics,
        host: str,
        port: int,
        secure: SecurePort | None = None,
        ready: Mapping[str, Check] | None = None,
        pages: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self._app: ManagerApp | None = None
        self._refresh = metrics.refresh
        every = (metrics.internal, metrics.external, metrics.controllers)
        super().__init__(
            [metrics.controllers],
            ready={"informers": self._informers, **(ready or {})},
            routes={
                "/all-metrics": self._exposed(every),
                "/internal-metrics": self._exposed([metrics.internal]),
                "/external-metrics": self._exposed([metrics.external]),
                "/apis/v1/explain/{kind}/{name}": self._explain,
                "/debug/parts": self._parts,
                **{path: document_page(page) for path, page in (pages or {}).items()},
            },
            before_metrics=[self._refresh],
            host=host,
            port=port,
            secure=secure,
            metrics_paths=_METRICS,
        )

    def attach(self, app: ManagerApp) -> None:
        """Says whose questions are answered from now on."""
        self._app = app

    def _informers(self) -> str | None:
        return "starting" if self._app is None else self._app.views.readiness()

    def _exposed(
        self, registries: Iterable[MetricRegistry]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            del request
            self._refresh()
            body = b"".join(registry.expose() for registry in registries)
            return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

        return answer

    async def _parts(self, request: web.Request) -> web.Response:
        """How each loop does; of who does not lead too."""
        del request
        return _json(200, self._app.supervisor.status() if self._app is not None else [])

    async def _explain(self, request: web.Request) -> web.Response:
        if self._app is None or not self._app.leading:
            return _json(503, _NOT_LEADER)
        kind, name = request.match_info["kind"], request.match_info["name"]
        explain = self._app.dependencies.explanations.get(kind)
        if explain is None:
            return _json(404, {"message": f"koord-manager explains no {kind}"})
        try:
            return _json(200, explain(name))
        except KoordError as error:
            return _json(404 if error.code is Code.NOT_FOUND else 400, {"message": str(error)})
        except KeyError as error:
            return _json(404, {"message": str(error.args[0] if error.args else error)})


def _json(status: int, body: Any) -> web.Response:
    data = msgspec.json.encode(body)
    return web.Response(status=status, body=data, content_type="application/json")
