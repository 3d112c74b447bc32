# SPDX-License-Identifier: Apache-2.0
"""Tells at once when a pod's cgroup appears, so that no poll has to be waited for.

inotify on the directories of the Kubernetes QoS classes.
Rule: docs/reference/measuring.md#pod-events.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from typing import TYPE_CHECKING

from koord.base import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CREATE, _DELETE, _IS_DIRECTORY = 0x100, 0x200, 0x40000000
_HEADER = struct.Struct("iIII")
_BUFFER_BYTES = 1 << 16
_LOG = log.get("agent.podevents")


class DirectoryEvents:
    """Calls back when a directory is made or removed in one of some directories.

    Args:
        directories: absolute paths; one that is missing is left out with a line in the log.
        changed: called in the event loop, once for all events that are there.

    Raises:
        OSError: the kernel has no inotify, or no more of it for this user.
    """

    def __init__(self, directories: Iterable[str], changed: Callable[[], None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._changed = changed
        self._descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self.watched = 0
        for directory in directories:
            mask = _CREATE | _DELETE
            if libc.inotify_add_watch(self._descriptor, os.fsencode(directory), mask) < 0:
                reason = os.strerror(ctypes.get_errno())
                _LOG.info("not watched", extra=log.fields(path=directory, reason=reason))
            else:
                self.watched += 1

    async def run(self) -> None:
        """Watches until cancelled, then lets go of the descriptor."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, self._read)
        try:
            await asyncio.Event().wait()
        finally:
            loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _read(self) -> None:
        try:
            events = os.read(self._descriptor, _BUFFER_BYTES)
        except BlockingIOError:
            return
        at, found = 0, False
        while at < len(events):
            _, mask, _, length = _HEADER.unpack_from(events, at)
            found = found or bool(mask & _IS_DIRECTORY)
            at += _HEADER.size + length
        if found:
            self._changed()
