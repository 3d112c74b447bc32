# SPDX-License-Identifier: Apache-2.0
"""What a check finds: first about a field of an object, then with the file and the line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base.errors import one_line, value_text

if TYPE_CHECKING:
    from koord.base.errors import KoordError


class Severity(StrEnum):
    """Whether a component refuses or ignores the value, or does something other than was meant."""

    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """What a checker says of one field.

    Args:
        path: of the field within the object, ``""`` for the object itself.
        value: what stands there; None for nothing.
        expected: what would be right, as a noun phrase.
        severity: how bad it is.
    """

    path: str
    value: object
    expected: str
    severity: Severity = Severity.ERROR

    @classmethod
    def of(cls, error: KoordError, severity: Severity = Severity.ERROR) -> Finding:
        """What one of koord's readers or rules raised."""
        return cls(error.field, error.value, error.expected, severity)

    @classmethod
    def warning(cls, path: str, value: object, expected: str) -> Finding:
        """One that is no error."""
        return cls(path, value, expected, Severity.WARNING)


@dataclass(frozen=True)
class FileProblem:
    """A finding in its place.

    Attributes:
        file: as it was named, ``-`` for standard input.
        line: from 1.
        title: of the object, e.g. ``Reservation demo``; ``""`` for the file as a whole.
        path: as in :class:`Finding`, keys spelled as in the file.
        value: as in :class:`Finding`.
        expected: as in :class:`Finding`.
        severity: as in :class:`Finding`.
    """

    file: str
    line: int
    title: str
    path: str
    value: Any
    expected: str
    severity: Severity

    def __str__(self) -> str:
        where = "".join(f"{part}: " for part in (self.title, self.path) if part)
        got = "nothing" if self.value is None else value_text(self.value)
        head = f"{self.file}:{self.line}: {self.severity}: "
        return one_line(f"{head}{where}got {got}, expected {self.expected}")
