# SPDX-License-Identifier: Apache-2.0
"""The table of docs/kube.md: what is tried again, after how long, and how fast requests go out."""

from __future__ import annotations

import asyncio
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Node
from koord.base import metrics
from koord.kube.client import Client
from koord.kube.errors import ApiError, Status, StatusDetails, TransportError
from koord.kube.requests.rate_limiter import RateLimiter
from koord.kube.requests.retry import (
    CallMetrics,
    RetryingCaller,
    RetryPolicy,
    on_conflict,
)
from tests.kube.harness import FakeTransport, collector_off, failure, run_virtual

CODES = (400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 502, 503, 504)
FIRST, MOST = 0.1, 15.0


def refused(code: int, retry_after: int = 0, reason: str = "") -> ApiError:
    details = StatusDetails(retry_after_seconds=retry_after) if retry_after else None
    return ApiError(Status(code=code, reason=reason, details=details))


def modelled(code: int, retry_after: int, failures: int, repeatable: bool) -> tuple[float, bool]:
    """The table read line by line: the least wait and whether there is a next try."""
    if failures >= 8:
        return 0.0, False
    if code in (429, 503) and retry_after:
        return float(retry_after), True
    if code in (500, 502, 503, 504):
        return 0.0, repeatable
    if code == 401:
        return 0.0, failures == 1
    return 0.0, False


@given(st.sampled_from(CODES), st.integers(0, 100), st.integers(1, 10), st.booleans())
def test_the_table_for_answers(code: int, after: int, failures: int, repeatable: bool) -> None:
    least, again = modelled(code, after, failures, repeatable)
    wait = RetryPolicy().wait_seconds(refused(code, after), failures, repeatable)
    assert (wait is not None) == again
    if wait is not None:
        assert wait >= least
        assert wait <= max(least, min(FIRST * 2 ** (failures - 1), MOST))


@given(st.booleans(), st.integers(1, 10), st.booleans())
def test_the_table_for_no_answer(sent: bool, failures: int, repeatable: bool) -> None:
    wait = RetryPolicy().wait_seconds(TransportError("cut", sent), failures, repeatable)
    assert (wait is not None) == (failures < 8 and (repeatable or not sent))


@given(st.integers(1, 5000), st.integers(0, 5))
def test_back_off_doubles_within_bounds_and_replays(failures: int, seed: int) -> None:
    whole = min(FIRST * 2.0 ** min(failures - 1, 64), MOST)
    wait = RetryPolicy(seed=seed).backoff_seconds(failures)
    assert whole / 2 <= wait <= whole
    assert wait == RetryPolicy(seed=seed).backoff_seconds(failures)


def test_two_seeds_do_not_wait_alike() -> None:
    waits = {RetryPolicy(seed=seed).backoff_seconds(1) for seed in range(20)}
    assert len(waits) == 20


def calls(script: list[Exception | str], **options: object) -> tuple[object, list[float]]:
    """What a call ends with, and when its tries began."""
    began: list[float] = []

    async def attempt(left: float | None) -> str:
        began.append(asyncio.get_running_loop().time())
        step = script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def main() -> object:
        caller = RetryingCaller(RetryPolicy(jitter=0.0))
        arguments = {"verb": "GET", "repeatable": True, "timeout_seconds": None, **options}
        try:
            return await caller.call(attempt, **arguments)  # type: ignore[arg-type]
        except (ApiError, TransportError) as error:
            return error

    return run_virtual(main()), began


def test_tries_are_spaced_by_the_back_off() -> None:
    result, began = calls([refused(500), TransportError("cut"), refused(503), "done"])
    assert result == "done"
    assert began == pytest.approx([0.0, 0.1, 0.3, 0.7])


def test_a_call_ends_at_its_deadline() -> None:
    failures: list[Exception | str] = [refused(500, reason=str(number)) for number in range(20)]
    result, began = calls(failures, timeout_seconds=1.0)
    assert isinstance(result, ApiError)
    assert result.reason == "3"
    assert began == pytest.approx([0.0, 0.1, 0.3, 0.7])


def test_a_try_gets_what_is_left_of_the_time() -> None:
    left: list[float | None] = []

    async def attempt(seconds: float | None) -> None:
        left.append(seconds)
        await asyncio.sleep(0.5)
        raise TransportError("cut")

    async def main() -> None:
        with pytest.raises(TransportError):
            await RetryingCaller(RetryPolicy(jitter=0.0)).call(attempt, "GET", True, 1.5)

    run_virtual(main())
    assert left == pytest.approx([1.5, 0.9, 0.2])


def test_a_call_that_the_rate_limit_holds_too_long_was_not_sent() -> None:
    limiter = RateLimiter(0.1, 1)
    assert calls(["first"], limiter=limiter, timeout_seconds=5.0)[0] == "first"
    limiter = RateLimiter(0.1, 1)

    async def main() -> TransportError:
        await limiter.acquire()
        began = asyncio.get_running_loop().time()
        with pytest.raises(TransportError, match="the rate limit let no request through") as caught:
            await RetryingCaller().call(never, "POST", False, 5.0, limiter)
        # It is told at once, and the next waiter does not stand behind it.
        assert asyncio.get_running_loop().time() == began
        assert await limiter.acquire() == pytest.approx(10.0)
        return caught.value

    async def never(left: float | None) -> None:
        raise AssertionError(left)

    assert not run_virtual(main()).sent


def test_a_write_that_may_have_arrived_is_not_repeated() -> None:
    result, began = calls([TransportError("cut", sent=True), "done"], repeatable=False)
    assert isinstance(result, TransportError)
    assert len(began) == 1
    assert calls([TransportError("refused", sent=False), "done"], repeatable=False)[0] == "done"


@given(st.integers(1, 20), st.integers(1, 10), st.lists(st.floats(0, 2), max_size=40))
def test_no_window_lets_more_through_than_burst_and_rate(
    rate: int, burst: int, gaps: list[float]
) -> None:
    passed: list[float] = []

    async def one(limiter: RateLimiter) -> None:
        await limiter.acquire()
        passed.append(asyncio.get_running_loop().time())

    async def main() -> list[int]:
        limiter = RateLimiter(rate, burst)
        tasks = []
        for gap in gaps:
            await asyncio.sleep(gap)
            tasks.append(asyncio.create_task(one(limiter)))
        await asyncio.gather(*tasks)
        return []

    run_virtual(main())
    assert len(passed) == len(gaps)
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            allowed = burst + (passed[last] - passed[first]) * rate
            assert last - first + 1 <= allowed + 1e-6


def test_a_waiter_that_gives_up_gives_its_token_back() -> None:
    async def main() -> float:
        limiter = RateLimiter(1.0, 1)
        await limiter.acquire()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.25):
                await limiter.acquire()
        return await limiter.acquire()

    assert run_virtual(main()) == pytest.approx(0.75)


def test_at_a_rate_of_0_no_token_comes_back() -> None:
    async def main() -> None:
        limiter = RateLimiter(0, 2)
        assert [await limiter.acquire(0.0) for _ in range(4)] == [0.0, 0.0, None, None]
        await asyncio.sleep(3600.0)
        assert await limiter.acquire(60.0) is None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600.0):
                await limiter.acquire()

    run_virtual(main())


def test_calls_are_counted() -> None:
    registry = metrics.registry()

    async def main() -> None:
        caller = RetryingCaller(RetryPolicy(), CallMetrics(registry))
        script: list[Exception | None] = [refused(500), TransportError("cut"), None]

        async def attempt(left: float | None) -> None:
            step = script.pop(0)
            if step is not None:
                raise step

        await caller.call(attempt, "LIST", True, None, RateLimiter(1.0, 2))

    run_virtual(main())
    text = registry.expose().decode()
    assert 'rest_client_requests_total{code="500",method="LIST"} 1.0' in text
    assert 'rest_client_requests_total{code="<error>",method="LIST"} 1.0' in text
    assert 'rest_client_requests_total{code="200",method="LIST"} 1.0' in text
    assert 'rest_client_request_retries_total{code="500",verb="LIST"} 1.0' in text
    assert 'rest_client_rate_limiter_duration_seconds_count{verb="LIST"} 3.0' in text


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([refused(409, reason="Conflict")] * 4, "done"),
        ([refused(409, reason="Conflict")] * 5, 409),
        ([refused(409, reason="AlreadyExists")], 409),
        ([refused(500)], 500),
    ],
)
def test_on_conflict(errors: list[ApiError], expected: object) -> None:
    left = list(errors)

    async def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    async def main() -> object:
        try:
            return await on_conflict(work)
        except ApiError as error:
            return error.http_status

    assert run_virtual(main()) == expected
    assert left == []


@pytest.mark.parametrize("began", [False, True])
def test_a_failure_goes_with_who_was_told_of_it(began: bool) -> None:
    """With it go frames, and what is in hand there."""

    async def attempt(_: float | None) -> None:
        raise refused(403)

    async def told() -> weakref.ref[ApiError]:
        failed = refused(403) if began else None
        call = RetryingCaller().call(attempt, "GET", True, None, failed=failed)
        del failed
        try:
            await call
        except ApiError as error:
            return weakref.ref(error)
        raise AssertionError("it was not told")

    with collector_off():
        assert run_virtual(told())() is None


def test_a_refusal_goes_with_who_was_told_of_it() -> None:
    """With it go the request, and what is in hand where it was made."""

    async def told() -> weakref.ref[ApiError]:
        client = Client(FakeTransport([failure(403)]))
        try:
            await client.get(Node, "n")
        except ApiError as error:
            return weakref.ref(error)
        raise AssertionError("it was not told")

    with collector_off():
        assert run_virtual(told())() is None
