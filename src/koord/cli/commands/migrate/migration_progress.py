# SPDX-License-Identifier: Apache-2.0
"""Follows a PodMigrationJob: its events as they come, until it has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.kinds.cluster import Event
from koord.api.kinds.migration import ABORTED, FAILED, SUCCEEDED
from koord.cli.commands.migrate.migration_request import JOB
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.documents import Document
    from koord.kube.client import Client

ENDED = (SUCCEEDED, FAILED, ABORTED)
# Events of objects without a namespace are kept there.
_EVENTS = "default"
_POLL_SECONDS = 0.5
_NOT_FOUND = 404


class MigrationStep(NamedTuple):
    """One thing that happened.

    Attributes:
        kind: ``Normal`` or ``Warning``.
        reason: one word.
        message: for people.
    """

    kind: str
    reason: str
    message: str


class MigrationFollower:
    """Looks at a job again and again.

    Args:
        client: the way to the API server.
        name: of the job.
        on_step: gets each step once, in order.
    """

    def __init__(self, client: Client, name: str, on_step: Callable[[MigrationStep], None]) -> None:
        self._client, self._name, self._on_step = client, name, on_step
        self._seen: set[tuple[str, str]] = set()
        self._phase = ""

    async def until_ended(self, timeout_seconds: float = 0.0) -> Document:
        """The job in its last state.

        Args:
            timeout_seconds: after which it is given up; 0 for never.

        Raises:
            ConnectionError: it has not ended in time, or is gone.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds if timeout_seconds else float("inf")
        while True:
            job = await self._look()
            phase = job.get("status", {}).get("phase", "")
            if phase in ENDED:
                # Events are written aside of the job, the last one perhaps after it.
                await asyncio.sleep(_POLL_SECONDS)
                await self._report_events()
                return job
            if loop.time() >= deadline:
                text = f"migration {self._name} has not ended in {timeout_seconds:g} s"
                raise ConnectionError(f"{text}; it goes on: {_state(job)}")
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self) -> Document:
        try:
            job: Any = await self._client.get(JOB, self._name)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
            raise ConnectionError(f"migration {self._name} was deleted before it ended") from None
        phase = job.get("status", {}).get("phase", "")
        if phase != self._phase and phase not in ENDED:
            self._phase = phase
            self._on_step(MigrationStep("Normal", phase, ""))
        await self._report_events()
        return job  # type: ignore[no-any-return]

    async def _report_events(self) -> None:
        selector = f"involvedObject.kind={JOB.name},involvedObject.name={self._name}"
        try:
            found = await self._client.list(Event, namespace=_EVENTS, field_selector=selector)
        except ApiError as error:
            if error.http_status != 403:
                raise
            return  # Who may not read events still sees phases.
        for event in sorted(found.items, key=lambda each: each.metadata.name):
            key = (event.reason, event.message)
            if key not in self._seen:
                self._seen.add(key)
                self._on_step(MigrationStep(event.type, event.reason, event.message))


def _state(job: Document) -> str:
    status = job.get("status", {})
    words = [status.get(key, "") for key in ("phase", "status", "reason", "message")]
    return ", ".join(word for word in dict.fromkeys(words) if word) or "nobody has begun with it"
