# SPDX-License-Identifier: Apache-2.0
"""Files beneath one directory, opened component by component so that no link leads out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from koord.base import faults

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RootedFiles:
    """Reads and writes relative paths under a root; a symbolic link is an OSError (ELOOP, ENOTDIR).

    Every component is opened relative to the one before it, so that a directory that somebody
    swaps for a link in the meantime is refused too. The root's own path may hold links.

    Args:
        root: need not exist before it is used.

    Raises (all methods):
        OSError: from the kernel.
        ValueError: the path is absolute, or has ``..``, an empty part or a NUL.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.fspath(root)

    def read(self, path: str) -> str:
        """A whole file."""
        with self._file(path, os.O_RDONLY | os.O_NONBLOCK) as file:
            chunks = []
            while chunk := os.read(file, 65536):
                chunks.append(chunk)
        return b"".join(chunks).decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """One write(2) to a file that exists, as kernel files want it."""
        faults.point("executor.write_beneath")
        with self._file(path, os.O_WRONLY | os.O_TRUNC) as file:
            os.write(file, text.encode())

    def replace(self, path: str, text: str) -> None:
        """A plain file, whole or not at all; made where it is not there."""
        faults.point("executor.replace_beneath")
        with self._parent(path) as (parent, name):
            beside = f".{name}.new"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(beside, flags, 0o644, dir_fd=parent)
            try:
                os.write(file, text.encode())
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(beside, name, src_dir_fd=parent, dst_dir_fd=parent)

    def remove(self, path: str) -> None:
        """A plain file."""
        with self._parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def make_directory(self, path: str) -> None:
        """One directory, mode 0755; FileExistsError where there is one."""
        faults.point("executor.make_directory")
        with self._parent(path) as (parent, name):
            os.mkdir(name, 0o755, dir_fd=parent)

    def remove_directory(self, path: str) -> None:
        """One directory that holds no others, as resctrl groups are removed."""
        faults.point("executor.remove_directory")
        with self._parent(path) as (parent, name):
            os.rmdir(name, dir_fd=parent)

    def directories(self, path: str = "") -> list[str]:
        """Names of the directories in one, sorted; links are none."""
        with self._opened(_parts(path)) as directory, os.scandir(directory) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))

    def exists(self, path: str) -> bool:
        """Whether something that is no link lies there."""
        try:
            with self._parent(path) as (parent, name):
                os.close(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent))
        except OSError:
            return False
        return True

    @contextmanager
    def _file(self, path: str, flags: int) -> Iterator[int]:
        with self._parent(path) as (parent, name):
            file = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            yield file
        finally:
            os.close(file)

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        *above, name = _parts(path) or [""]
        with self._opened(above) as parent:
            yield parent, name

    @contextmanager
    def _opened(self, parts: list[str]) -> Iterator[int]:
        held = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                inner = os.open(part, _DIRECTORY, dir_fd=held)
                os.close(held)
                held = inner
            yield held
        finally:
            os.close(held)


def _parts(path: str) -> list[str]:
    parts = path.split("/") if path else []
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"path: got {path!r}, expected a relative path without '..' or NUL")
    return parts
