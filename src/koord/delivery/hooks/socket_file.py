# SPDX-License-Identifier: Apache-2.0
"""The socket that proxies call: taken over from who died, never from who lives.

Rule: docs/reference/delivery.md#socket-of-the-hook-server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from pathlib import Path

from koord.base.errors import KoordError

MOST_PATH_BYTES = 107
"""Of a socket's path, the kernel's limit."""

_PROBE_SECONDS = 1.0
_FLAG = "--runtime-hooks-addr"


async def make_way(path: Path) -> None:
    """Removes a socket that nobody serves any more; makes its directory where there is none.

    Raises:
        KoordError: something else lies there, or somebody lives behind it.
        OSError: it cannot be looked at or removed, or the directory not be made.
    """
    # Of a host that was started a moment ago.
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise KoordError(_FLAG, "", path, "a socket, or nothing: what lies there is left alone")
    if await _is_served(path):
        raise KoordError(_FLAG, "", path, "a socket of its own: another process serves this one")
    path.unlink(missing_ok=True)


async def _is_served(path: Path) -> bool:
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, writer = await asyncio.open_unix_connection(path)
    except ConnectionRefusedError:
        return False
    except FileNotFoundError:
        return False
    except TimeoutError:
        return True  # Its queue is full: somebody listens.
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


class SocketFile:
    """A socket of this process, told from one that came to lie there later.

    Args:
        path: where it was made just now.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.chmod(0o600)
        self._made = self._identity()

    def is_current(self) -> bool:
        """Whether callers still find this one."""
        return self._identity() == self._made is not None

    def remove(self) -> None:
        """Takes it away, and never another's."""
        if self.is_current():
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.lstat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino
