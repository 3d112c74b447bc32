# SPDX-License-Identifier: Apache-2.0
"""Requests carried out for a client: rate limited, tried again, refusals raised."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from koord.base import faults
from koord.kube.codec.decoder import refusal
from koord.kube.errors import ApiError, TransportError
from koord.kube.requests.rate_limiter import RateLimiter
from koord.kube.requests.retry import CallMetrics, RetryingCaller, RetryPolicy, code_of
from koord.kube.transport.messages import PipeliningTransport, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from koord.api.kinds.registry import Kind
    from koord.base.metrics import MetricRegistry
    from koord.kube.dry_run import DryRun
    from koord.kube.transport.messages import Request, Stream, Transport

# These keep a controller's lead and its voice: they must not queue behind its other work.
_OWN_LIMIT = ("leases", "events")
_READS = ("GET", "HEAD")

Outcome = Response | ApiError | TransportError
"""How a request ended: with an answer of 2xx, refused, or without an answer."""


def namespace_of_path(path: str) -> str:
    """The namespace that a path names; ``""`` if none."""
    return path.partition("/namespaces/")[2].partition("/")[0]


class RequestPipeline:
    """Sends requests within the rate limit, and again where that can help; refusals are raised.

    Arguments are those of :class:`koord.kube.client.Client`.

    Attributes:
        fence: raises where nothing may be written now; asked before each try of a write.
    """

    def __init__(
        self,
        transport: Transport,
        policy: RetryPolicy | None,
        requests_per_second: float | None,
        burst: int,
        timeout_seconds: float,
        registry: MetricRegistry | None,
        dry_run: DryRun | None = None,
    ) -> None:
        self._transport = transport
        self.dry_run = dry_run
        self.fence: Callable[[], None] | None = None
        self._timeout_seconds = timeout_seconds
        self._caller = RetryingCaller(policy, CallMetrics(registry))
        self._limiter: RateLimiter | None = None
        self._apart: dict[str, RateLimiter] = {}
        if requests_per_second is not None:
            self._limiter = RateLimiter(requests_per_second, burst)
            self._apart = {name: RateLimiter(requests_per_second, burst) for name in _OWN_LIMIT}

    def send(
        self,
        request: Request,
        kind: Kind | None,
        repeatable: bool,
        timeout_seconds: float | None = None,
        verb: str = "",
    ) -> Coroutine[Any, Any, Response]:
        """Sends a request until an answer counts.

        Args:
            request: its own timeout is not looked at.
            kind: what it is about; None for none.
            repeatable: whether sending it twice does no harm.
            timeout_seconds: for all tries together; None for the client's.
            verb: for the metrics, where it is not the method.

        In a dry run only reads are sent.

        Raises:
            ApiError: any status but 2xx.
            TransportError: no answer came.
        """
        if self.dry_run is not None and self.dry_run.intercepts(request):
            reading = partial(self._read, kind, timeout_seconds)
            return self.dry_run.answer(request, kind, reading)
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        bucket = self._bucket(kind)
        flow = "" if bucket is None else namespace_of_path(request.path)
        attempt = self._attempt(request, kind)
        return self._caller.call(attempt, verb or request.method, repeatable, seconds, bucket, flow)

    def _attempt(
        self, request: Request, kind: Kind | None
    ) -> Callable[[float | None], Awaitable[Response]]:
        """One try of a request; it gets the seconds that are left."""
        send = self._transport.send
        reads = request.method in _READS or (kind is not None and kind.plural in _OWN_LIMIT)
        fence = None if reads else self.fence

        def attempt(left: float | None) -> Awaitable[Response]:
            if fence is not None:
                fence()
            return send(replace(request, timeout_seconds=left))

        return attempt

    def pipelines(self, kind: Kind) -> bool:
        """Whether :meth:`send_all` serves: requests that wait for a token go one by one."""
        transport, paced = self._transport, self._bucket(kind) is not None
        pipelining = isinstance(transport, PipeliningTransport) and transport.pipelines
        return pipelining and not paced and self.dry_run is None

    async def send_all(self, requests: Sequence[Request], kind: Kind) -> list[Outcome]:
        """Sends writes in one go, then again alone those that this can help.

        Args:
            requests: of one method; one that is written twice does no harm.
            kind: what they are about; one for which :meth:`pipelines` holds.

        Returns:
            How each ended, in order.
        """
        outcomes = await self._send_together(requests, kind)
        if all(isinstance(each, Response) for each in outcomes):
            return outcomes
        return await asyncio.gather(
            *(self._send_again(*each, kind) for each in zip(requests, outcomes, strict=True))
        )

    async def _send_together(self, requests: Sequence[Request], kind: Kind) -> list[Outcome]:
        transport = self._transport
        assert isinstance(transport, PipeliningTransport)
        if kind.plural not in _OWN_LIMIT and self.fence is not None:
            self.fence()
        time = asyncio.get_running_loop().time
        started = time()
        limited = [replace(each, timeout_seconds=self._timeout_seconds) for each in requests]
        outcomes: list[Outcome]
        try:
            faults.point("kube.call")
            answers = await transport.send_all(limited)
        except (ApiError, TransportError) as failure:
            outcomes = [failure] * len(requests)
        else:
            outcomes = [
                each if isinstance(each, TransportError) else _outcome(each) for each in answers
            ]
        seconds = time() - started
        for request, outcome in zip(requests, outcomes, strict=True):
            code = outcome.status if isinstance(outcome, Response) else code_of(outcome)
            self._caller.count(code, request.method, seconds)
        return outcomes

    async def _send_again(self, request: Request, outcome: Outcome, kind: Kind) -> Outcome:
        """What becomes of a request after its first try, which has been counted."""
        if isinstance(outcome, Response):
            return outcome
        seconds, attempt = self._timeout_seconds, self._attempt(request, kind)
        try:
            return await self._caller.call(attempt, request.method, False, seconds, failed=outcome)
        except (ApiError, TransportError) as failure:
            return failure

    async def open(self, request: Request, kind: Kind, timeout_seconds: float | None) -> Stream:
        """Begins a watch; raises as :meth:`send`."""

        async def attempt(left: float | None) -> Stream:
            return await self._transport.open(replace(request, timeout_seconds=left))

        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        return await self._caller.call(attempt, "WATCH", True, seconds, self._bucket(kind))

    def _read(
        self, kind: Kind | None, timeout_seconds: float | None, request: Request
    ) -> Coroutine[Any, Any, Response]:
        return self.send(request, kind, True, timeout_seconds)

    def _bucket(self, kind: Kind | None) -> RateLimiter | None:
        return self._limiter if kind is None else self._apart.get(kind.plural, self._limiter)


def _outcome(response: Response) -> Response | ApiError:
    return response if response.ok else ApiError(refusal(response))
