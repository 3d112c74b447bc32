# SPDX-License-Identifier: Apache-2.0
"""How long the kubelet takes to answer, as a Prometheus histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.kube.transport.messages import Request, Response, Stream, Transport

BUCKETS = tuple(0.001 * 4**step for step in range(7))
"""From 1 ms to 4 s: the original's."""
_NO_ANSWER = "0"


class TimedTransport:
    """A transport that notes each answer's time.

    Rule: docs/reference/reports.md#prometheus-series.

    Args:
        transport: what sends.
        registry: of the agent.
        clock: monotonic time.
    """

    def __init__(self, transport: Transport, registry: MetricRegistry, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._seconds = registry.histogram(
            "koordlet_kubelet_request_duration_seconds", "Answers of the kubelet.",
            ("verb", "path", "code"), BUCKETS,
        )  # fmt: skip

    async def send(self, request: Request) -> Response:
        """As the transport; no answer is noted under code 0."""
        started = self._clock.monotonic_seconds()
        code = _NO_ANSWER
        try:
            answer = await self._transport.send(request)
            code = str(answer.status)
        finally:
            seconds = self._clock.monotonic_seconds() - started
            self._seconds.labels(request.method.lower(), request.path, code).observe(seconds)
        return answer

    async def open(self, request: Request) -> Stream:
        """As the transport; a watch is not timed."""
        return await self._transport.open(request)

    async def close(self) -> None:
        """Ends the transport's connections."""
        await self._transport.close()
