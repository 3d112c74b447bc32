# SPDX-License-Identifier: Apache-2.0
"""The kinds of targets that an executor can write, each behind one interface."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.agent.executor.target import Target, Value
    from koord.kernels.cgroup import Written


CGROUP_GONE_ERRNOS = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)
"""What the kernel says of a file, or of one that is open, whose cgroup was removed."""


class WriteRequest(NamedTuple):
    """A value to write.

    Attributes:
        target: where.
        value: in v1 units.
        giving_back: whether it is what was there before koord came, and nobody claims it now.
    """

    target: Target
    value: Value
    giving_back: bool = False


class TargetWriter(Protocol):
    """How some resources are read, written and given back.

    Nothing is raised for one target: what went wrong is in its place in the answer.
    """

    def takes(self, resource: str) -> bool:
        """Whether a resource is of this kind."""
        ...

    def refusal(self, target: Target, value: Value) -> str:
        """Why a value can never be written there; empty where it can."""
        ...

    def held(self, target: Target) -> Value:
        """What a target says now.

        Raises:
            OSError: it cannot be read.
            ValueError: it does not say what the kernel writes.
        """
        ...

    def original(self, target: Target) -> Value:
        """What writing would give the target back as it is now, for the journal.

        Raises:
            OSError: it cannot be read.
            ValueError: it does not say what the kernel writes.
        """
        ...

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        """Writes what differs, in an order that the kernel takes; an answer a request."""
        ...


@runtime_checkable
class FileProbe(Protocol):
    """A kind that can tell a file that this kernel does not have from a cgroup that is gone."""

    def is_absent(self, target: Target) -> bool:
        """Whether there is no such file, although the cgroup it would be in is there."""
        ...


@runtime_checkable
class KeepsDescriptors(Protocol):
    """A kind that keeps files open which are read again and again."""

    def close_kept(self) -> None:
        """Closes them."""
        ...


@runtime_checkable
class BatchReader(Protocol):
    """A kind that reads a file of many directories in one go."""

    def values(self, resource: str, directories: Sequence[str]) -> list[Value | None]:
        """As :meth:`TargetWriter.held`; None where it cannot be read or holds several values."""
        ...


@runtime_checkable
class CookieKeeper(Protocol):
    """A kind that knows which cookie the tasks of a group share cores by."""

    def cookie(self, group: str) -> int:
        """Of a group; 0 for none yet."""
        ...


class LateWriter:
    """Stands for a writer that most nodes never need, until something of its resource is claimed.

    Args:
        resource: that it takes.
        make: makes it; imports are best made there too.
    """

    def __init__(self, resource: str, make: Callable[[], TargetWriter]) -> None:
        self.resource, self.make = resource, make

    def takes(self, resource: str) -> bool:
        """Whether it is that."""
        return resource == self.resource


@runtime_checkable
class CgroupProbe(Protocol):
    """A kind whose targets live in cgroups, which go with their containers."""

    def gone(self, target: Target) -> bool:
        """Whether the cgroup is not there: not any more, or not yet."""
        ...
