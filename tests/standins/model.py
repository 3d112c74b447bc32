# SPDX-License-Identifier: Apache-2.0
"""Directories and files with rules of their own, as a kernel's file system has."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Protocol, runtime_checkable


class File(Protocol):
    """A file whose text is made when it is read."""

    writable: bool

    def read(self) -> str:
        """The text."""
        ...

    def write(self, text: str) -> None:
        """Takes what one write(2) brings; OSError where the kernel refuses it."""
        ...


@runtime_checkable
class Directory(Protocol):
    """A directory; both changes raise OSError where the kernel refuses them."""

    def entries(self) -> dict[str, Directory | File]:
        """What is in it, by name."""
        ...

    def mkdir(self, name: str) -> None:
        """Makes a directory in it."""
        ...

    def rmdir(self, name: str) -> None:
        """Removes one."""
        ...


def refuse(number: int) -> OSError:
    """The error of a refusal."""
    return OSError(number, os.strerror(number))


class Said:
    """A file that only tells."""

    writable = False

    def __init__(self, text: str | Callable[[], str]) -> None:
        self._text = text

    def read(self) -> str:
        """See `File`."""
        return self._text if isinstance(self._text, str) else self._text()

    def write(self, text: str) -> None:
        """Refused."""
        raise refuse(errno.EACCES)


class Integer:
    """A file that holds a whole number of a range; the kernel prints it plainly."""

    writable = True

    def __init__(self, least: int, most: int, value: int = 0) -> None:
        self.value = value
        self._range = range(least, most + 1)

    def read(self) -> str:
        """See `File`."""
        return f"{self.value}\n"

    def write(self, text: str) -> None:
        """EINVAL for what is no number or out of range."""
        try:
            value = int(text.strip())
        except ValueError:
            raise refuse(errno.EINVAL) from None
        if value not in self._range:
            raise refuse(errno.EINVAL)
        self.value = value


class Fixed:
    """A directory that nobody changes."""

    def __init__(self, entries: dict[str, Directory | File]) -> None:
        self._entries = entries

    def entries(self) -> dict[str, Directory | File]:
        """See `Directory`."""
        return self._entries

    def mkdir(self, name: str) -> None:
        """Refused."""
        raise refuse(errno.EPERM)

    def rmdir(self, name: str) -> None:
        """Refused."""
        raise refuse(errno.EPERM)
