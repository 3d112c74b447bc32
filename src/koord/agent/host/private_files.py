# SPDX-License-Identifier: Apache-2.0
"""koordlet's own files: nobody else reads them, and no link, FIFO or device is taken for one.

Rule: docs/reference/executor.md#files-of-koordlet-itself.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_OTHERS = 0o077
_COMMON = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def make_folder(folder: Path) -> None:
    """Makes a folder that only its owner may use, and makes one that others may use so.

    The folders that it lies in may be links, it may not.

    Raises:
        OSError: it is a link or no folder, or belongs to somebody else who lets others write.
    """
    folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=_FOLDER_MODE)
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_IMODE(os.fstat(number).st_mode) & _OTHERS:
            os.fchmod(number, _FOLDER_MODE)
    finally:
        os.close(number)


def read_file(path: Path, most_bytes: int) -> bytes:
    """A whole file.

    Raises:
        OSError: a link, no plain file, larger than that, or from the kernel.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | _COMMON), "rb") as file:
        _check_plain(file.fileno(), path)
        text = file.read(most_bytes + 1)
    if len(text) > most_bytes:
        raise OSError(errno.EFBIG, f"more than {most_bytes} bytes", str(path))
    return text


def write_new(path: Path) -> IO[bytes]:
    """A new file to write, in place of whatever has the name.

    Raises:
        OSError: from the kernel.
    """
    with suppress(FileNotFoundError):
        path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON
    return os.fdopen(os.open(path, flags, _FILE_MODE), "wb")


@contextmanager
def whole_or_gone(path: Path) -> Iterator[None]:
    """Removes a file that could not be written whole: on a full disk it would take the last room.

    Raises:
        OSError: what kept it from being written.
    """
    try:
        yield
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise


def append_to(path: Path) -> IO[bytes]:
    """A file to write at its end, made where it is not there.

    Raises:
        OSError: a link, no plain file, or from the kernel.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _COMMON
    file = os.fdopen(os.open(path, flags, _FILE_MODE), "ab")
    try:
        _check_plain(file.fileno(), path)
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS:
            os.fchmod(file.fileno(), _FILE_MODE)
    except OSError:
        file.close()
        raise
    return file


def _check_plain(number: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(number).st_mode):
        raise OSError(errno.EINVAL, "not a plain file", str(path))
