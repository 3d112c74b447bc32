# SPDX-License-Identifier: Apache-2.0
"""Reads and writes many cgroup files at a time, in the units of cgroup v1 whatever the kernel runs.

A resource is named by its v1 file (``cpu.cfs_quota_us``); :data:`CATALOGUE` knows where it lies in
both versions, what is valid, when two texts mean the same and which of two values is looser. Every
path is opened beneath one held directory: ``..``, absolute paths and symbolic links are refused.
One bad item never fails a batch. Parsers are in :mod:`koord.kernels.cgroup_parse`, directories of
pods and containers in :mod:`koord.kernels.cgroup_path`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, cast, overload

from koord._native.core import cgroup as _native
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Outcome(IntEnum):
    """What became of one write."""

    UNCHANGED = 0  #: the file, or the cache, already says so
    WRITTEN = 1
    UNSUPPORTED = 2  #: this kernel or version has no such file
    MISSING = 3  #: the cgroup is gone
    FAILED = 4  #: see errno and message


class Write(NamedTuple):
    """A value for one resource of one directory, in v1 units: shares, quota -1 for none, bytes."""

    resource: str
    directory: str
    value: str | int


class Written(NamedTuple):
    """How a :class:`Write` ended; `errno` is 0 and `message` empty unless something was wrong."""

    outcome: Outcome
    errno: int
    message: str


class AddedIds(NamedTuple):
    """How many ids went into a group, had ended before, or were refused (with the first errno)."""

    added: int
    gone: int
    failed: int
    first_errno: int


class Base(IntEnum):
    """The root that a resource lies under."""

    CGROUP = 0
    PROC = 1
    SYS = 2


class Support(StrEnum):
    """When a file counts as there."""

    ALWAYS = "always"
    FILE = "file"  #: it exists in the directory asked for
    KUBEPODS = "kubepods"  #: it exists in the kubepods directory
    ROOT = "root"  #: it exists in the root of the hierarchy


class File(NamedTuple):
    """A resource in one version: v1 hierarchy (or directory of a system file), file, range, and
    which of the names in a line of ``io.max`` it is.
    """

    directory: str
    name: str
    support: Support
    range: tuple[int, int] | None
    field: str = ""


class Resource(NamedTuple):
    """A row of :data:`CATALOGUE`; a version that lacks the resource has None."""

    key: str
    base: Base
    writable: bool
    v1: File | None
    v2: File | None


class Hierarchy:
    """One cgroup tree, or ``/proc`` or ``/sys`` for the resources based there.

    Args:
        path: the directory; symbolic links in this path itself are followed, none beneath it is.
        version: None takes v2 where the file system is cgroup2, else v1.
        kubepods: the directory that support checks look at; empty picks ``kubepods.slice`` if it
            exists, else ``kubepods``.

    Raises:
        OSError: the directory cannot be opened.
    """

    def __init__(
        self, path: str | os.PathLike[str], version: Version | None = None, kubepods: str = ""
    ) -> None:
        self.path = os.fspath(path)
        self._native = _native.Hierarchy(self.path, version or 0, kubepods)
        self._version = Version(self._native.version)

    @property
    def version(self) -> Version:
        """The layout."""
        return self._version

    @property
    def kubepods(self) -> str:
        """The directory that support checks look at."""
        return self._native.kubepods

    def path_of(self, resource: str, directory: str) -> str:
        """Path of a resource's file beneath the root; KeyError for an unknown resource."""
        return self._native.path_of(resource, directory)

    def read_text(self, path: str) -> bytes:
        """A whole file beneath the root; ValueError for a path that leads out, else OSError."""
        return self._native.read_text(path)

    def add_ids(self, path: str, ids: Iterable[int]) -> AddedIds:
        """Writes ids to a tasks or procs file beneath the root, ascending, one write each."""
        return AddedIds(*_native.add_ids(self._native, path, list(ids)))

    def __repr__(self) -> str:
        return f"Hierarchy({self.path!r}, v{self.version.value})"


class Table:
    """One resource, one row a directory, one column a value.

    Attributes:
        resource: its key.
        error: int32 a row: 0, or the errno of what failed: ENOENT or ENODEV for a cgroup that is
            gone, EOPNOTSUPP for a resource this version lacks, EBADMSG for a text that cannot be
            parsed, EINVAL for a directory that leads out of the root.
        columns: arrays by name, ``value`` for single numbers; 0 in rows that failed. Views into one
            native block, not copies.
        texts: a row each for resources that are no numbers, such as ``cpuset.cpus``; else empty.
        messages: row to what was wrong there.
    """

    def __init__(self, native: tuple[Any, ...]) -> None:
        resource, error, integer_names, integers, real_names, reals, texts, messages = native
        self.resource: str = resource
        self.error: NDArray[np.int32] = error
        self.columns: dict[str, NDArray[np.int64] | NDArray[np.float64]] = {
            name: integers[:, index] for index, name in enumerate(integer_names)
        }
        self.columns.update((name, reals[:, index]) for index, name in enumerate(real_names))
        self.texts: list[str] = texts
        self.messages: dict[int, str] = dict(messages)

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.columns[column]

    def __len__(self) -> int:
        return len(self.error)

    def __repr__(self) -> str:
        failed = len(self.messages)
        return f"Table({self.resource!r}, rows={len(self)}, failed={failed})"


class Directories(Sequence[str]):
    """Directories that are read again and again: a :class:`Reader` that is given the same object
    again knows where their descriptors lie, and looks none of them up by path.

    Args:
        paths: relative to the hierarchy; what changes in the list afterwards does not count.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._native = _native.Directories(paths)

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...

    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        return self._paths[row]


class Reader:
    """Reads many files in one call and may keep their descriptors.

    Args:
        hierarchy: where from.
        kept_max: descriptors that stay open, the most recently used ones; best as many as are read
            each time, since a smaller number keeps none long enough. 0 opens and closes each time.
    """

    def __init__(self, hierarchy: Hierarchy, kept_max: int = 512) -> None:
        self._native = _native.Reader(hierarchy._native, kept_max)

    def read(self, directories: Sequence[str], resources: Sequence[str]) -> dict[str, Table]:
        """A table a resource, a row a directory; raises KeyError for an unknown resource only.

        A file that holds several resources is read once where they follow each other.
        """
        given = directories._native if isinstance(directories, Directories) else directories
        tables = self._native.read(given, resources)
        return {native[0]: Table(native) for native in tables}

    @property
    def kept(self) -> int:
        """How many descriptors are open now."""
        return self._native.kept

    def close_kept(self) -> None:
        """Closes them."""
        self._native.close_kept()


class Writer:
    """Writes what differs, and remembers what it wrote or found equal.

    Args:
        hierarchy: where to.
        force_after_seconds: a value known for longer is compared with the file again.
        forget_after_seconds: a value nobody asked for this long is dropped.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        force_after_seconds: float = 60.0,
        forget_after_seconds: float = 120.0,
    ) -> None:
        self._native = _native.Writer(hierarchy._native, force_after_seconds, forget_after_seconds)

    def write(self, requests: Iterable[Write], now_seconds: float) -> list[Written]:
        """Writes in order; one failure stops nothing. KeyError for an unknown resource only."""
        return _written(self._native.write(_plain(requests), now_seconds))

    def write_leveled(
        self, levels: Iterable[Iterable[Write]], now_seconds: float
    ) -> list[list[Written]]:
        """Writes trees of cgroups so that no parent is ever narrower than its child.

        The first level is the topmost. Pass 1 goes down and loosens only, pass 2 goes up and writes
        the final values; a CPU burst goes the other way, as it must stay within its quota.
        """
        native = self._native.write_leveled([_plain(level) for level in levels], now_seconds)
        return [_written(level) for level in native]

    def forget(self, directory: str) -> None:
        """Drops what is remembered of a directory and those beneath, say when a runtime wrote."""
        self._native.forget(directory)


def _plain(requests: Iterable[Write]) -> list[tuple[str, str, str]]:
    return [(resource, directory, str(value)) for resource, directory, value in requests]


def _written(native: list[tuple[int, int, str]]) -> list[Written]:
    return [Written(Outcome(outcome), errno, message) for outcome, errno, message in native]


def file_text(resource: str, version: Version, value: str | int) -> str:
    """The text to write for a value in v1 units; ValueError when it is not valid."""
    return _native.file_text(resource, version, str(value))


def says_same(resource: str, version: Version, text: str, current: str | bytes) -> bool:
    """Whether a file that holds `current` already says what writing `text` would."""
    return _native.says_same(resource, version, text, current)


def loosened(resource: str, version: Version, text: str, current: str | bytes) -> str | None:
    """What pass 1 of a leveled write puts between `current` and `text`; None for nothing."""
    return _native.loosened(resource, version, text, current)


_SUPPORTS = (None, Support.ALWAYS, Support.FILE, Support.KUBEPODS, Support.ROOT)


def _file(native: tuple[str, str, int, tuple[int, int] | None, str] | None) -> File | None:
    if native is None:
        return None
    directory, name, support, valid, field = native
    return File(directory, name, cast("Support", _SUPPORTS[support]), valid, field)


def _resource(row: dict[str, Any]) -> Resource:
    return Resource(
        row["key"], Base(row["base"]), row["writable"], _file(row["v1"]), _file(row["v2"])
    )


#: Every resource by key, in a fixed order.
CATALOGUE: dict[str, Resource] = {
    row.key: row for row in map(_resource, cast("list[dict[str, Any]]", _native.catalogue()))
}
