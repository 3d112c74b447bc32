# SPDX-License-Identifier: Apache-2.0
"""What is tried again, when, and how fast requests may go out. Nothing else in koord decides that.

The rule is the table in ``docs/kube.md``. All waiting is the event loop's, so that virtual time
drives it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from koord.base import faults, rng
from koord.base.metrics import registry as new_registry
from koord.kube.codec.decoder import refusal
from koord.kube.errors import ApiError, TransportError
from koord.kube.transport.messages import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.base.metrics import Metric, MetricRegistry
    from koord.kube.requests.rate_limiter import RateLimiter

T = TypeVar("T")

_TOO_MANY_REQUESTS, _UNAUTHORIZED, _UNAVAILABLE = 429, 401, 503
_SERVER_FAULTS = frozenset((500, 502, 503, 504))
_OPENED = 200  # of a watch
_BUCKETS_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class RetryPolicy:
    """Says whether a failed call is tried again, and after how long.

    Args:
        attempts: how often a call is tried in all; client-go's is 11.
        first_seconds: the back-off after the first failure; it doubles with each.
        most_seconds: the longest back-off. A server that asks for more gets it.
        jitter: the share of a back-off that is drawn by lot, from 0 to 1.
        seed: of the lot.
    """

    def __init__(
        self,
        attempts: int = 8,
        first_seconds: float = 0.1,
        most_seconds: float = 15.0,
        jitter: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.attempts = attempts
        self._first_seconds = first_seconds
        self._most_seconds = most_seconds
        self._jitter = jitter
        self._draw = rng.stream(seed, "kube", "retry")

    def wait_seconds(
        self, failure: ApiError | TransportError, failures: int, repeatable: bool
    ) -> float | None:
        """How long to wait before the next try.

        Args:
            failure: what the last try ended with.
            failures: how many tries have failed, this one included.
            repeatable: whether the call may be sent twice without harm: it reads, or carries a
                precondition.

        Returns:
            Seconds; None to give up.
        """
        if failures >= self.attempts:
            return None
        if isinstance(failure, TransportError):
            return self.backoff_seconds(failures) if repeatable or not failure.sent else None
        code, asked_seconds = failure.http_status, failure.retry_after_seconds
        if code == _UNAUTHORIZED:
            return 0.0 if failures == 1 else None
        if code in (_TOO_MANY_REQUESTS, _UNAVAILABLE) and asked_seconds > 0:
            return max(float(asked_seconds), self.backoff_seconds(failures))
        if code in _SERVER_FAULTS and repeatable:
            return self.backoff_seconds(failures)
        return None

    def backoff_seconds(self, failures: int) -> float:
        """The wait after so many failures: doubled each time, part of it drawn by lot."""
        # The exponent is bounded only to keep the power a float.
        whole = min(self._first_seconds * 2.0 ** min(failures - 1, 64), self._most_seconds)
        return whole * (1.0 - self._jitter * self._draw.random())


class CallMetrics:
    """Counts calls under client-go's names.

    Args:
        registry: the component's; None for one of its own.
    """

    def __init__(self, registry: MetricRegistry | None = None) -> None:
        kept = registry or new_registry()
        self.requests = kept.counter(
            "rest_client_requests_total", "Requests by status code and method.", ("code", "method")
        )
        self.retries = kept.counter(
            "rest_client_request_retries_total", "Requests tried again.", ("code", "verb")
        )
        self.throttled = kept.histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Time that the client's own rate limiter held requests back.",
            ("verb",),
            _BUCKETS_SECONDS,
        )
        self.duration = kept.histogram(
            "rest_client_request_duration_seconds",
            "Time from sending a request to its whole answer.",
            ("verb",),
            _BUCKETS_SECONDS,
        )


class RetryingCaller:
    """Carries out calls under one policy.

    Args:
        policy: what is tried again.
        metrics: where calls are counted.
    """

    def __init__(
        self, policy: RetryPolicy | None = None, metrics: CallMetrics | None = None
    ) -> None:
        self._policy = policy or RetryPolicy()
        self._metrics = metrics or CallMetrics()
        # Looking up a child by its labels costs more than counting.
        self._children: dict[tuple[int | str, str], tuple[Metric, Metric]] = {}

    async def call(
        self,
        attempt: Callable[[float | None], Awaitable[T]],
        verb: str,
        repeatable: bool,
        timeout_seconds: float | None,
        limiter: RateLimiter | None = None,
        flow: str = "",
        failed: ApiError | TransportError | None = None,
    ) -> T:
        """Tries until an answer counts.

        Args:
            attempt: one try; gets the seconds that are left, and raises ApiError or TransportError.
                An answer that is a Response counts if its status is 2xx.
            verb: for the metrics: ``GET``, ``LIST``, ``POST`` ...
            repeatable: whether sending twice does no harm.
            timeout_seconds: for all tries and waits together; None for no limit.
            limiter: every try waits for a token of it; None for no limit.
            flow: whose request it is, for the limiter.
            failed: how the first try has ended, where it has been made and counted.

        Raises:
            ApiError: the server refused.
            TransportError: no answer came.
        """
        time = asyncio.get_running_loop().time
        started = time()
        deadline = None if timeout_seconds is None else started + timeout_seconds
        failures, let_through = 0, True
        if failed is not None:
            failures = 1
            try:
                if not await self._wait(failed, failures, repeatable, verb, deadline):
                    raise failed
            finally:
                # An error that its own frame names is garbage in a circle.
                del failed
            started = time()
        while True:
            # Most calls have no limiter, and go without the wait for one.
            if limiter is not None:
                let_through = await self._throttle(limiter, verb, deadline, flow)
                started = time()
            left = None if deadline is None else deadline - started
            if not let_through or (left is not None and left <= 0.0):
                text = f"{verb}: the rate limit let no request through in {timeout_seconds:g} s"
                raise TransportError(text, sent=False)
            try:
                faults.point("kube.call")
                answer = await attempt(left)
                code = _OPENED
                if isinstance(answer, Response):
                    code = answer.status
                    if not answer.ok:
                        raise ApiError(refusal(answer))
            except (ApiError, TransportError) as failure:
                failures += 1
                self.count(code_of(failure), verb, time() - started)
                if not await self._wait(failure, failures, repeatable, verb, deadline):
                    raise
                started = time()
            else:
                self.count(code, verb, time() - started)
                return answer

    async def _wait(
        self,
        failure: ApiError | TransportError,
        failures: int,
        repeatable: bool,
        verb: str,
        deadline: float | None,
    ) -> bool:
        """Waits before the next try; False where there is to be none."""
        wait = self._policy.wait_seconds(failure, failures, repeatable)
        now = asyncio.get_running_loop().time()
        if wait is None or (deadline is not None and now + wait >= deadline):
            return False
        self._metrics.retries.labels(code_of(failure), verb).inc()
        await asyncio.sleep(wait)
        return True

    async def _throttle(
        self, limiter: RateLimiter, verb: str, deadline: float | None, flow: str
    ) -> bool:
        """Waits for a token; False where there is none before the deadline."""
        now = asyncio.get_running_loop().time()
        waited = await limiter.acquire(None if deadline is None else deadline - now, flow)
        if waited is not None:
            self._metrics.throttled.labels(verb).observe(waited)
        return waited is not None

    def count(self, code: int | str, verb: str, seconds: float) -> None:
        """Counts one try: how it ended, and how long it took."""
        found = self._children.get((code, verb))
        if found is None:
            metrics = self._metrics
            found = metrics.requests.labels(str(code), verb), metrics.duration.labels(verb)
            self._children[code, verb] = found
        found[0].inc()
        found[1].observe(seconds)


async def on_conflict(work: Callable[[], Awaitable[T]], attempts: int = 5) -> T:
    """Does read, change and write again while the write meets a Conflict.

    Args:
        work: reads the object anew each time it is called.
        attempts: how often in all; client-go's is 5, 10 ms apart.

    Raises:
        ApiError: what the last try ended with.
    """
    for _ in range(attempts - 1):
        try:
            return await work()
        except ApiError as error:
            if error.http_status != 409 or error.reason != "Conflict":
                raise
        await asyncio.sleep(0.01)
    return await work()


def code_of(failure: ApiError | TransportError) -> str:
    """How a failure is counted."""
    return str(failure.http_status) if isinstance(failure, ApiError) else "<error>"
