# SPDX-License-Identifier: Apache-2.0
"""The audit log: what was changed on this node, for whom and why; one JSON object a line.

Files of 2 MiB in one directory, the oldest removed when there are more than the disk may hold.
Rule: docs/reference/executor.md#events.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from koord.agent.executor import write_events
from koord.agent.host.private_files import append_to, make_folder, read_file
from koord.base import faults, log
from koord.base.errors import one_line

if TYPE_CHECKING:
    from koord.agent.executor.target import Target
    from koord.base.clock import Clock

FILE_BYTES = 2 * 1024 * 1024
FLUSH_SECONDS = 5.0
_NAME = re.compile(r"audit-[0-9]{9,18}\.log", re.ASCII)
_MEGABYTE = 1024 * 1024
_LOG = log.get("agent.audit")
_CHANGED, _FAILED, _BY_HAND = 3, 2, 1


@dataclass(frozen=True, slots=True)
class AuditSubject:
    """What an event is about: ``pod``, ``node``, ``group`` or ``unknown``."""

    type: str = "unknown"
    namespace: str = ""
    name: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event; the JSON names are the original's.

    Attributes:
        created_seconds: wall time.
        subject: what it is about.
        reason: one word.
        message: one line.
    """

    created_seconds: float
    subject: AuditSubject
    reason: str
    message: str

    def line(self) -> bytes:
        """The JSON object, empty fields left out, with its line end."""
        subject = self.subject
        created = datetime.fromtimestamp(self.created_seconds, UTC).isoformat()
        row = {
            "createdAt": created,
            "type": subject.type,
            "namespace": subject.namespace,
            "name": subject.name,
            "container": subject.container,
            "reason": self.reason,
            "message": one_line(self.message),
        }
        return json.dumps({key: value for key, value in row.items() if value}).encode() + b"\n"


class AuditLog:
    """Writes events; a full disk costs events, never the agent.

    Args:
        directory: made where it is not there; None, for a dry run, keeps the newest 2 MiB in
            memory and writes nothing.
        clock: for time stamps and flushing.
        disk_mb: how much the files may hold together (``--audit-max-disk-space-mb``).
        verbose: events of a higher verbosity are dropped (``--audit-verbose``); 0 keeps all.
    """

    def __init__(
        self, directory: Path | None, clock: Clock, disk_mb: int = 16, verbose: int = 3
    ) -> None:
        self._directory, self._clock, self._verbose = directory, clock, verbose
        self._files_most = max(disk_mb * _MEGABYTE // FILE_BYTES, 1)
        self._waiting: list[bytes] = []
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._flushed_seconds = clock.monotonic_seconds()
        self.dropped = 0
        self._failing = ""

    def record(self, verbosity: int, subject: AuditSubject, reason: str, message: str) -> None:
        """Takes an event up, and writes what waits when that is 5 seconds old."""
        if 0 < self._verbose < verbosity:
            return
        event = AuditEvent(self._clock.wall_seconds(), subject, reason, message)
        self._waiting.append(event.line())
        if self._clock.monotonic_seconds() - self._flushed_seconds >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes what waits."""
        self._flushed_seconds = self._clock.monotonic_seconds()
        waiting, self._waiting = self._waiting, []
        if self._directory is None:
            self._keep(waiting)
            return
        try:
            for chunk in _chunks(waiting):
                self._append(self._directory, chunk)
        except OSError as error:
            self.dropped += len(waiting)
            why = one_line(str(error))
            if why != self._failing:
                _LOG.warning("audit events lost", extra=log.fields(error=why))
            self._failing = why
        else:
            if waiting and self._failing:
                _LOG.info("audit log written again", extra=log.fields(lost=self.dropped))
                self._failing = ""

    def events(self) -> Iterator[dict[str, object]]:
        """Every event that is there, the newest first; lines that are none are skipped."""
        self.flush()
        if self._directory is None:
            yield from [json.loads(line) for line in reversed(self._kept)]
            return
        for path in reversed(_files(self._directory)):
            try:
                lines = read_file(path, 2 * FILE_BYTES).splitlines()
            except OSError:
                continue  # Rotated away under a slow reader, or none of ours.
            for line in reversed(lines):
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(event, dict):
                    yield event

    def _keep(self, lines: list[bytes]) -> None:
        self._kept.extend(lines)
        self._kept_bytes += sum(map(len, lines))
        while self._kept_bytes > FILE_BYTES:
            self._kept_bytes -= len(self._kept.popleft())

    def _append(self, directory: Path, chunk: bytes) -> None:
        make_folder(directory)
        files = _files(directory)
        if not files or files[-1].lstat().st_size + len(chunk) > FILE_BYTES:
            number = int(files[-1].stem.rpartition("-")[2]) + 1 if files else 1
            files.append(directory / f"audit-{number:09}.log")
        for old in files[: -self._files_most]:
            old.unlink(missing_ok=True)
        faults.point("audit.write")
        with append_to(files[-1]) as file:
            number, left = file.fileno(), chunk
            end = os.fstat(number).st_size
            try:
                while left:
                    left = left[os.write(number, left) :]
            except OSError:
                # A part of a line would spoil the first that is written after it.
                os.ftruncate(number, end)
                raise


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("audit-*.log") if _NAME.fullmatch(path.name))


def _chunks(lines: list[bytes]) -> Iterator[bytes]:
    chunk = b""
    for line in lines:
        if chunk and len(chunk) + len(line) > FILE_BYTES // 8:
            yield chunk
            chunk = b""
        chunk += line
    if chunk:
        yield chunk


def reporter(audit: AuditLog, describe: Callable[[Target], AuditSubject]) -> write_events.Reporter:
    """Turns what an executor tells into events.

    Args:
        audit: where they go.
        describe: whose a target is.
    """

    def write(event: write_events.WriteEvent) -> None:
        subject = describe(event.target)
        if isinstance(event, write_events.WriteFailed):
            if event.failure.attempts == 1:
                message = f"{event.target}: {event.failure.result.message}"
                audit.record(_FAILED, subject, "WriteFailed", message)
            return
        if isinstance(event, write_events.CgroupGone):
            audit.record(_CHANGED, subject, "Gone", f"{event.target}: its cgroup is not there")
            return
        made = event.made
        message = f"{event.target} = {made.value!s} for {', '.join(made.owners) or 'nobody'}: "
        message += made.reason
        if isinstance(event, write_events.WritePlanned):
            audit.record(_CHANGED, subject, "WouldWrite", message)
        elif event.by_hand:
            audit.record(_BY_HAND, subject, "EditedByHand", message)
        else:
            reason = "GivenBack" if event.given_back else "Written"
            audit.record(_CHANGED, subject, reason, message)

    return write
