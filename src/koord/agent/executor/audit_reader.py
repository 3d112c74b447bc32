# SPDX-License-Identifier: Apache-2.0
"""Reading the audit log in pages, the newest event first, as ``/events`` serves it.

Rule: docs/reference/executor.md#reading-events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from koord.agent.executor.audit import AuditLog
    from koord.base.clock import Clock

SIZE_USUAL = 256


class AuditResponse(NamedTuple):
    """What an HTTP server is to answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class _OpenPage:
    events: Iterator[dict[str, object]]
    used_seconds: float


class AuditReader:
    """Keeps a few readers open between pages.

    Args:
        audit: the log.
        clock: for their age.
        new_token: a name that nobody can guess, such as ``uuid.uuid4`` as text.
        events_most: largest page (``--audit-max-events-limit``).
        readers_most: open at a time (``--audit-max-concurrent-readers``); the oldest goes.
        idle_seconds: after this long without a page a reader is closed.
    """

    def __init__(
        self,
        audit: AuditLog,
        clock: Clock,
        new_token: Callable[[], str],
        events_most: int = 2048,
        readers_most: int = 4,
        idle_seconds: float = 600.0,
    ) -> None:
        self._audit, self._clock, self._new_token = audit, clock, new_token
        self._events_most, self._readers_most = events_most, readers_most
        self._idle_seconds = idle_seconds
        self._open: dict[str, _OpenPage] = {}

    def answer(self, query: Mapping[str, str], accept: str = "") -> AuditResponse:
        """One page.

        Args:
            query: ``size`` (no number: 256) and ``pageToken``.
            accept: ``application/json`` gives one document, anything else lines.
        """
        self.sweep()
        size = _size(query.get("size", ""))
        if size > self._events_most:
            text = f"size: got {size}, expected at most {self._events_most}\n"
            return _refusal(HTTPStatus.BAD_REQUEST, text)
        token = query.get("pageToken", "")
        if token and token not in self._open:
            return _refusal(HTTPStatus.CONFLICT, "pageToken: unknown or expired\n")
        token = token or self._begin()
        reader = self._open[token]
        reader.used_seconds = self._clock.monotonic_seconds()
        events = list(islice(reader.events, size))
        if len(events) < size:
            del self._open[token]
            token = ""
        return _page(events, token, accept)

    def sweep(self) -> None:
        """Closes readers that were idle for too long; also once a minute."""
        oldest = self._clock.monotonic_seconds() - self._idle_seconds
        self._open = {t: r for t, r in self._open.items() if r.used_seconds >= oldest}

    def _begin(self) -> str:
        while len(self._open) >= self._readers_most:
            del self._open[next(iter(self._open))]
        token = self._new_token()
        self._open[token] = _OpenPage(self._audit.events(), self._clock.monotonic_seconds())
        return token


def _size(text: str) -> int:
    try:
        return max(int(text), 0)
    except ValueError:
        return SIZE_USUAL


def _refusal(status: HTTPStatus, text: str) -> AuditResponse:
    return AuditResponse(status, {"Content-Type": "text/plain; charset=utf-8"}, text.encode())


def _page(events: list[dict[str, Any]], token: str, accept: str) -> AuditResponse:
    if "application/json" in accept:
        document = {"NextPageToken": token, "Events": events}
        headers = {"Content-Type": "application/json; charset=utf-8"}
        return AuditResponse(HTTPStatus.OK, headers, json.dumps(document).encode())
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    if token:
        headers["Next-Page-Token"] = token
    lines = "".join(json.dumps(event) + "\n" for event in events)
    return AuditResponse(HTTPStatus.OK, headers, lines.encode())
