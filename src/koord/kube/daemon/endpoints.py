# SPDX-License-Identifier: Apache-2.0
"""What a component serves beside its work: health, readiness, metrics.

Paths and answers are those of Kubernetes' own components: ``/healthz``, ``/livez`` and ``/readyz``
run named checks and tell of each with ``?verbose`` or where one fails, ``exclude=NAME`` leaves one
out; ``/livez/NAME`` runs one alone. A check that passes may have something to say beside.
``/metrics`` is Prometheus' text. Anybody may ask for health and readiness; all else is for who asks
from this machine, or over the secure port and may.
Rule: docs/reference/scheduling.md#who-may-ask.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from koord.base import log
from koord.base.errors import Code, KoordError, MissingExtraError, one_line
from koord.kube.daemon.missing_kinds import ReadinessNote
from koord.kube.daemon.origins import AccessRefusal, is_foreign, is_loopback

try:
    from aiohttp import web
except ModuleNotFoundError as error:
    raise MissingExtraError("aiohttp", "kube", error.name) from None

if TYPE_CHECKING:
    from koord.base.metrics import MetricRegistry
    from koord.kube.daemon.secure_port import SecurePort

# Passes by returning None, True or a Note; fails by returning False or text, or by raising.
Check = Callable[[], "bool | str | Awaitable[bool | str | None] | None"]
Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]

_LOG = log.get("serving")
_CHECK_SECONDS = 5.0
_SHUTDOWN_SECONDS = 2.0
_FOREIGN = AccessRefusal(
    403, "only requests to and from loopback count here, and a page writes only where it came from"
)
_ELSEWHERE = AccessRefusal(
    403, "this port answers nothing but health to other machines: ask the secure port, or this "
    "one by its loopback address (kubectl port-forward)",
)  # fmt: skip
_NOSNIFF = {"X-Content-Type-Options": "nosniff"}
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Endpoints:
    """A small HTTP server for one component.

    Args:
        registries: whose metrics are served, in this order.
        live: checks of ``/livez``, by name; ``/healthz`` runs the same.
        ready: checks of ``/readyz`` beside those.
        routes: what else is served, by path.
        puts: what may be put, by path.
        before_metrics: called before metrics are read, to bring some up to date.
        host: address to listen on.
        port: 0 for a free one.
        secure: serves the same over TLS, to whom it lets.
        metrics_paths: routes that are metrics, too: who may get ``/metrics`` may get them.
    """

    def __init__(
        self,
        registries: Iterable[MetricRegistry] = (),
        *,
        live: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
        routes: Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] | None = None,
        puts: Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] | None = None,
        before_metrics: Iterable[Callable[[], None]] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        secure: SecurePort | None = None,
        metrics_paths: Collection[str] = (),
    ) -> None:
        self._registries = list(registries)
        self._before_metrics = list(before_metrics)
        alive: dict[str, Check] = {"ping": lambda: None, **(live or {})}
        self._checks: dict[str, dict[str, Check]] = {
            "healthz": alive,
            "livez": alive,
            "readyz": {**alive, **(ready or {})},
        }
        self._routes = dict(routes or {})
        self._puts = dict(puts or {})
        self._host = host
        self._port = port
        self._secure = secure
        self._metrics_paths = frozenset(metrics_paths)
        self._plain_sockets = 1
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it listens, e.g. ``http://127.0.0.1:10251``.

        Raises:
            RuntimeError: it does not.
        """
        return f"http://{self._address(0)}"

    @property
    def advertised_url(self) -> str:
        """Where others may ask: the secure port if there is one.

        Raises:
            RuntimeError: it does not listen.
        """
        return self.url if self._secure is None else f"https://{self._address(self._plain_sockets)}"

    def _address(self, which: int) -> str:
        if self._runner is None:
            raise RuntimeError("not started")
        host, port = self._runner.addresses[which][:2]
        return f"{f'[{host}]' if ':' in host else host}:{port}"

    async def start(self) -> None:
        """Listens.

        Raises:
            OSError: the address cannot be listened on.
            KoordError: that of the secure port cannot.
        """
        app = web.Application(middlewares=[self._guarded])
        app.router.add_get("/metrics", self._metrics)
        for path in self._checks:
            app.router.add_get(f"/{path}", self._all)
            app.router.add_get(f"/{path}/{{name}}", self._one)
        for path, handler in self._routes.items():
            app.router.add_get(path, handler)
        for path, handler in self._puts.items():
            app.router.add_put(path, handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
            self._plain_sockets = len(runner.addresses)
            if self._secure is not None:
                await _listen_securely(runner, self._secure)
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Stops listening and ends what is being answered; may be called more than once."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
            if self._secure is not None:
                await self._secure.close()

    async def run(self) -> None:
        """Listens until cancelled."""
        if self._runner is None:
            await self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers who may ask; health and readiness everybody."""
        refusal = await self._refusal(request)
        if refusal is None:
            return await handler(request)
        body = json.dumps({"message": refusal.message}).encode() + b"\n"
        answer = web.Response(
            status=refusal.status, body=body, content_type="application/json", headers=_NOSNIFF
        )
        if refusal.status == 401:
            answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    async def _refusal(self, request: web.Request) -> AccessRefusal | None:
        if request.path.lstrip("/").partition("/")[0] in self._checks:
            return None
        if request.get_extra_info("ssl_object") is not None:
            assert self._secure is not None
            return await self._secure.refusal(request, self._metrics_paths)
        if not _is_local(request):
            return _ELSEWHERE
        return _FOREIGN if is_foreign(request.method, request.headers) else None

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        for refresh in self._before_metrics:
            refresh()
        body = b"".join(registry.expose() for registry in self._registries)
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    async def _all(self, request: web.Request) -> web.Response:
        path = request.path.strip("/")
        checks = self._checks[path]
        excluded = set(request.query.getall("exclude", []))
        failed = False
        lines = []
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = await _failure(check)
            if reason is None or isinstance(reason, ReadinessNote):
                lines.append(f"[+]{name} {_passed(reason)}")
            else:
                # Why a check failed is for the log: anybody may ask here.
                failed = True
                lines.append(f"[-]{name} failed")
                _LOG.warning("check failed", extra=log.fields(path=path, check=name, error=reason))
        unknown = sorted(excluded - checks.keys())
        lines += [f"warn: {name} cannot be excluded: no such check" for name in unknown]
        if failed:
            return _text(500, "\n".join([*lines, f"{path} check failed", ""]))
        if "verbose" in request.query:
            return _text(200, "\n".join([*lines, f"{path} check passed", ""]))
        return _text(200, "ok")

    async def _one(self, request: web.Request) -> web.Response:
        _, path, name = request.path.split("/", 2)
        check = self._checks[path].get(name)
        if check is None:
            return _text(404, "404 page not found\n")
        reason = await _failure(check)
        if reason is None or isinstance(reason, ReadinessNote):
            return _text(200, _passed(reason))
        return _text(500, f"{name} failed\n")


def document_page(document: Callable[[], Any]) -> Handler:
    """A route that tells a document as JSON, 404 while there is none.

    Args:
        document: gives it; None for none.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        del request
        found = document()
        if found is None:
            return _text(404, "404 page not found\n")
        body = json.dumps(found).encode()
        return web.Response(body=body, content_type="application/json", headers=_NOSNIFF)

    return answer


def _passed(note: ReadinessNote | None) -> str:
    return f"ok: {note}" if note else "ok"


async def _failure(check: Check) -> str | None:
    """Why a check fails; None or a Note if it passes."""
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            answer = check()
            said = await answer if inspect.isawaitable(answer) else answer
    except TimeoutError:
        return f"no answer within {_CHECK_SECONDS:g} s"
    except Exception as error:
        # A check that cannot run has not passed, whatever kept it.
        return one_line(str(error)) or type(error).__name__
    if said is None or said is True:
        return None
    return said or "failed"


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, headers=_NOSNIFF)


async def _listen_securely(runner: web.AppRunner, secure: SecurePort) -> None:
    try:
        await web.TCPSite(runner, secure.host, secure.port, ssl_context=secure.tls).start()
    except OSError as error:
        expected = f"a free port of {secure.host} ({error.strerror or error})"
        raise KoordError("--secure-port", "", secure.port, expected, Code.UNREADABLE) from None


def _is_local(request: web.Request) -> bool:
    """Whether both ends of a connection are loopback; where it listens does not matter."""
    ends = (request.get_extra_info("sockname"), request.get_extra_info("peername"))
    return all(end is not None and is_loopback(str(end[0])) for end in ends)
