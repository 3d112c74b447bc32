# SPDX-License-Identifier: Apache-2.0
"""Which process runs a cluster on a data folder: a record under a lock that ends with it.

The lock is the process's for as long as it lives. A record without it is of a process that is
gone; beside it, the start time says that the process of that number is still the same one.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD, LOCK, LOG = "up.json", "up.lock", "up.log"
_FORMAT = 1
_LOCK_SECONDS, _RECORD_SECONDS = 2.0, 0.5
_START_TIME = 19


class ProcessRecord(NamedTuple):
    """A process, and what it said when its cluster was up.

    Attributes:
        started: clock ticks since the machine's start, as ``/proc`` has them.
        boot: which start of the machine.
        line: what ``koord up -o json`` prints; empty before the cluster is up.
    """

    pid: int
    started: int
    boot: str
    line: dict[str, Any]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Names this process as the one that runs a cluster on a folder.

    Raises:
        KoordError: another one does, or the folder cannot be written.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise KoordError.wrap(str(folder / LOCK), "", error) from None
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while not _take(descriptor):  # who only looks has it for a moment
            if time.monotonic() > end:
                raise KoordError(str(folder), "", "a folder in use", "one that no other runs on")
            time.sleep(0.01)
        write(folder, {})
        try:
            yield
        finally:
            (folder / RECORD).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def write(folder: Path, line: dict[str, Any]) -> None:
    """Writes the record of this process; it holds the folder."""
    from koord.controlplane.credentials.pki import write_private

    pid = os.getpid()
    record = {"format": _FORMAT, "pid": pid, "started": started(pid), "boot": _boot(), "up": line}
    try:
        write_private(folder / RECORD, json.dumps(record).encode())
    except OSError as error:
        raise KoordError.wrap(str(folder / RECORD), "", error) from None


def read(folder: Path) -> ProcessRecord | None:
    """Who runs a cluster on a folder; None for nobody.

    Raises:
        KoordError: the folder is in use, and its record says not by whom.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KoordError.wrap(str(folder / LOCK), "", error) from None
    try:
        end = time.monotonic() + _RECORD_SECONDS
        while True:
            # Shared: two who only look are not in each other's way.
            if _take(descriptor, fcntl.LOCK_SH):
                return None
            try:
                return _record(folder / RECORD)
            except KoordError:  # who has just taken the folder has not written yet
                if time.monotonic() > end:
                    raise
            time.sleep(0.01)
    finally:
        os.close(descriptor)


def started(pid: int) -> int:
    """When a process began; 0 where there is none of that number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[_START_TIME])


def _record(path: Path) -> ProcessRecord:
    try:
        found = json.loads(path.read_bytes())
        pid, began, boot = int(found["pid"]), int(found["started"]), str(found["boot"])
        line = dict(found["up"])
        right = found["format"] == _FORMAT and pid > 1
    except (OSError, ValueError, LookupError, TypeError):
        right = False
    if not right or boot != _boot() or started(pid) != began:
        expected = "the record of the process that holds the folder"
        raise KoordError(str(path), "", "something else", expected, Code.UNREADABLE)
    return ProcessRecord(pid, began, boot, line)


def _take(descriptor: int, lock: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
