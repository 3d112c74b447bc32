# SPDX-License-Identifier: Apache-2.0
"""Files of the host by the host's own paths, also for an agent that runs in a container.

Rule: docs/reference/hooks.md#files-of-the-host.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from koord.agent.host.roots import on_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.host.roots import HostRoots

_MOST_LINKS = 40  # as the kernel
_OWN_NAMESPACE = "/proc/self/ns/mnt"


class HostFiles:
    """What a container's mounts may name.

    On the host itself paths are what they are. In a container they are looked up in the root of the
    host's first process, where its procfs is mounted and this process may look there.

    Args:
        roots: where the host's procfs is.
        environment: with the mode; None for this process's.
    """

    def __init__(self, roots: HostRoots, environment: Mapping[str, str] | None = None) -> None:
        self._first = f"{roots.proc}/1"
        self._on_host = on_host(environment)

    def has(self, path: str) -> bool:
        """Whether it is there; what cannot be looked up counts as not there."""
        try:
            return Path(self._resolved(path)).exists()
        except OSError:
            return False

    def place(self, path: str) -> Path:
        """Where this process finds it; links above it are followed, it itself is not.

        Raises:
            OSError: the host's files cannot be seen from here, or its links are a circle.
        """
        parent, _, name = path.rstrip("/").rpartition("/")
        return Path(self._resolved(parent), name)

    def _root(self) -> str:
        if self._on_host:
            return ""
        theirs, own = Path(self._first, "ns/mnt").stat(), Path(_OWN_NAMESPACE).stat()
        # The first process of its own container is not the host's.
        if (theirs.st_dev, theirs.st_ino) == (own.st_dev, own.st_ino):
            raise FileNotFoundError(errno.ENOENT, "no root of the host", self._first)
        return f"{self._first}/root"

    def _resolved(self, path: str) -> str:
        """Absolute links would lead into the container's own root."""
        root = self._root()
        if not root:
            return path
        found: list[str] = []
        left, links = _parts(path), 0
        while left:
            part = left.pop()
            if part == "..":
                del found[-1:]
                continue
            try:
                target = str(Path(root, *found, part).readlink())
            except OSError:
                found.append(part)
                continue
            if (links := links + 1) > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith("/"):
                found.clear()
            left += _parts(target)
        return "/".join((root, *found))


def _parts(path: str) -> list[str]:
    """Names on the way, the first one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
