# SPDX-License-Identifier: Apache-2.0
"""Small files of the kernel and of others on the host: whole, bounded, or one line on why not."""

from __future__ import annotations

import errno
import os
import stat

from koord.base.errors import Code, KoordError
from koord.base.faults import point

LIMIT_BYTES = 4 << 20
"""No file that the agent reads is longer; /proc/stat of 8,192 CPUs is half a megabyte."""
# Most files are a page or two, and what is set aside for a chunk of 64 KiB the C library asks the
# kernel for each time.
_CHUNK_BYTES = 1 << 14
_DIGITS = 19


def read_bytes(path: str, limit_bytes: int = LIMIT_BYTES) -> bytes:
    """A whole regular file.

    Raises:
        KoordError: unreadable, not a regular file (a pipe in its place does not block), too long.
    """
    point("host.read")
    try:
        # NONBLOCK: what stands in the file's place may be a pipe that nobody writes to.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise KoordError(path, "", "no regular file", "a file", Code.UNREADABLE)
            data = _read_all(descriptor, limit_bytes)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise KoordError.wrap(path, "", error) from None
    if len(data) > limit_bytes:
        raise KoordError(path, "length", f"> {limit_bytes}", "a shorter file", Code.UNREADABLE)
    return data


def _read_all(descriptor: int, limit_bytes: int) -> bytes:
    chunks, left = [], limit_bytes + 1
    while left > 0:
        chunk = os.read(descriptor, min(left, _CHUNK_BYTES))
        if not chunk:
            break
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def read_text(path: str) -> str:
    """A whole file as text without blanks at its ends; bytes that are no UTF-8 are escaped.

    Raises:
        KoordError: as :func:`read_bytes`.
    """
    return read_bytes(path).decode("utf-8", "backslashreplace").strip()


def read_int(path: str, base: int = 10) -> int:
    """A file that holds one integer.

    Raises:
        KoordError: unreadable, or it holds something else.
    """
    text = read_text(path)
    try:
        return int(text, base)
    except ValueError:
        raise KoordError(path, "", text, "an integer") from None


def is_count(text: bytes) -> bool:
    """Whether it is digits and fits 63 bits: int() would also take signs, blanks, underscores and
    digits of other scripts, and refuses thousands of digits with an error of its own.
    """
    return len(text) < _DIGITS and text.isdigit()


def names(directory: str) -> list[str]:
    """What a directory holds, ascending; nothing where there is no such directory.

    Raises:
        KoordError: it is there and cannot be listed.
    """
    point("host.list")
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 (paths are text here)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        raise KoordError.wrap(directory, "", error) from None


def exists(path: str) -> bool:
    """Whether something is there."""
    return os.path.exists(path)  # noqa: PTH110 (paths are text here)


def link(path: str) -> str:
    """The path with all symbolic links followed; empty where there is nothing."""
    return os.path.realpath(path) if exists(path) else ""


def directories(directory: str) -> list[str]:
    """The directories within one, ascending; links do not count. As :func:`names` otherwise.

    Raises:
        KoordError: it is there and cannot be listed.
    """
    point("host.list")
    try:
        with os.scandir(directory) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):
            return []
        raise KoordError.wrap(directory, "", error) from None
