# SPDX-License-Identifier: Apache-2.0
"""What an owner wants a file to say, and how the claims of several owners become one value."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

from koord.kernels.cgroup import Base


class Layer(IntEnum):
    """What a claim does to the value that the layers below it made; lower layers come first.

    Several claims of one layer on one file are ordered by their owners' ranks; the executor's rank
    table says which owner wins.
    """

    SET = 0  #: the value itself: a pod's limit, the CPUs of an allocation
    SCALE = 1  #: divide a positive quota by a ratio, rounding up: CPU normalization
    RAISE = 2  #: at least this much: quota burst
    CAP = 3  #: at most this much: BE suppression


class Claim(NamedTuple):
    """One file of one directory.

    Attributes:
        resource: a key of ``koord.kernels.cgroup.CATALOGUE``: the v1 name, whatever the kernel; or
            one of koord's own targets (resctrl, OOM score, ...), see ``target.py``.
        directory: relative to the hierarchy; empty for system files.
        value: in v1 units (shares, quota in microseconds with -1 for none, bytes, CPU list); for
            SCALE the ratio.
        reason: one line for the audit log and for ``koord node status``.
        layer: see :class:`Layer`.
    """

    resource: str
    directory: str
    value: str | int | float
    reason: str
    layer: Layer = Layer.SET


class Executor(Protocol):
    """The one place that writes to the host, as owners see it.

    An owner states, again and again, everything it wants within a scope; what it wanted before and
    no longer names is withdrawn: the layers below show through, and with none left the value that
    the file had before koord came is put back (or left, where the directory is gone).
    """

    def state(self, owner: str, scope: str, claims: list[Claim]) -> None:
        """Replaces all claims of an owner within a scope (a pod's UID, ``node``, ...)."""
        ...

    @property
    def generation(self) -> int:
        """Another number whenever any claims are others, whosever they are.

        Who has stated claims and finds it as it was then need not state the same again.
        """
        ...

    def withdraw(self, owner: str, scope: str | None = None) -> None:
        """Takes claims back: those of a scope, or all of an owner's."""
        ...

    def bases(self, resource: str, directories: list[str], below: Layer) -> list[int | None]:
        """What the layers below one make of a numeric file; None where nobody claims it.

        The same list as the time before, where that was asked for the very same directories and
        nothing has changed since.
        """
        ...

    def current(self, resource: str, directory: str) -> str | None:
        """What the file says now, in v1 units; None where it cannot be read."""
        ...

    def values(self, resource: str, directories: list[str]) -> list[str | int | None]:
        """The same of many directories, read in one go; numbers as such."""
        ...

    def last_values(self, resource: str, directories: list[str]) -> list[str | int | None]:
        """What files said when they were last compared or written; None where they never were.

        The same list as the time before, under the same conditions.
        """
        ...

    def settle(self) -> None:
        """Composes, orders and writes what changed; failures are kept and tried again."""
        ...


SYSTEM_BASES = (Base.PROC, Base.SYS)
"""Bases of the resources that are no cgroup files."""
