# SPDX-License-Identifier: Apache-2.0
"""Core scheduling cookies of tasks, moved with prctl(2) on threads that end right after.

SHARE_TO gives away the cookie of the calling thread, so a thread takes the one cookie over, pushes
it, and ends: the agent's own threads keep cookie 0. Rule: docs/reference/hooks.md#cookies;
Documentation/admin-guide/hw-vuln/core-scheduling.rst.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from typing import TYPE_CHECKING, Protocol, TypeVar

from koord.base import faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

_PR_SCHED_CORE = 62
_GET, _CREATE, _SHARE_TO, _SHARE_FROM = range(4)
_THREAD, _THREAD_GROUP = 0, 1


class Cookies(Protocol):
    """The kernel's side of core scheduling."""

    def get(self, pid: int) -> int:
        """The cookie of a task, 0 for none; raises OSError."""
        ...

    def create(self, pid: int) -> None:
        """A new cookie for a process, all its threads; raises OSError."""
        ...

    def assign(self, source: int, pids: Iterable[int]) -> dict[int, int]:
        """Gives processes the cookie of a task; errno by process that could not get it.

        Raises:
            OSError: the source's cookie cannot be taken.
        """
        ...

    def clear(self, pids: Iterable[int]) -> dict[int, int]:
        """Takes processes their cookies; errno by process where that failed."""
        ...


class PrctlCookies:
    """By prctl(2)."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def get(self, pid: int) -> int:
        """The cookie of a task, 0 for none."""
        cookie = ctypes.c_uint64()
        self._call(_GET, pid, _THREAD, ctypes.byref(cookie))
        return cookie.value

    def create(self, pid: int) -> None:
        """A new cookie for a process, all its threads."""
        self._call(_CREATE, pid, _THREAD_GROUP)

    def assign(self, source: int, pids: Iterable[int]) -> dict[int, int]:
        """Gives processes the cookie of a task."""

        def pushed() -> dict[int, int]:
            self._call(_SHARE_FROM, source, _THREAD)
            return self._share(pids)

        return _on_a_thread(pushed)

    def clear(self, pids: Iterable[int]) -> dict[int, int]:
        """Takes processes their cookies."""

        def pushed() -> dict[int, int]:
            if self.get(0):
                raise OSError(errno.EPERM, "this thread has a cookie of its own")
            return self._share(pids)

        return _on_a_thread(pushed)

    def _share(self, pids: Iterable[int]) -> dict[int, int]:
        failed = {}
        for pid in pids:
            try:
                self._call(_SHARE_TO, pid, _THREAD_GROUP)
            except OSError as error:
                failed[pid] = error.errno or errno.EIO
        return failed

    def _call(self, operation: int, pid: int, scope: int, pointer: object = None) -> None:
        faults.point("executor.core_sched")
        arguments = (ctypes.c_ulong(operation), ctypes.c_ulong(pid), ctypes.c_ulong(scope))
        if self._libc.prctl(_PR_SCHED_CORE, *arguments, pointer) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), f"core scheduling of task {pid}")


def _on_a_thread(work: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="koord-core-sched")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
