# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can cause: one line with object, field, value and what would be right."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Self

MAX_VALUE_CHARACTERS = 80


class Code(StrEnum):
    """Stable names of failures; the same words are condition and event reasons."""

    INVALID = "Invalid"
    NOT_FOUND = "NotFound"
    TOO_OLD = "TooOld"
    UNREADABLE = "Unreadable"
    UNSUPPORTED = "Unsupported"
    MISSING_EXTRA = "MissingExtra"
    CORRUPT_STATE = "CorruptState"


class KoordError(Exception):
    """A failure that is the input's, not the program's.

    Args:
        object_name: what was being read, e.g. ``nodes.csv:12`` or ``NodeSLO node-001``.
        field: path of the field inside the object, ``""`` for the object itself.
        value: the offending value; shown cut to 80 characters, control characters escaped.
        expected: what would be right, as a noun phrase.
        code: stable code, see :class:`Code`.
    """

    exit_status = 2

    def __init__(
        self,
        object_name: str,
        field: str,
        value: object,
        expected: str,
        code: Code = Code.INVALID,
    ) -> None:
        self.object_name = object_name
        self.field = field
        self.value = value
        self.expected = expected
        self.code = code
        super().__init__(self._line())

    def _line(self) -> str:
        where = ": ".join(part for part in (self.object_name, self.field) if part)
        return one_line(f"{where}: got {value_text(self.value)}, expected {self.expected}")

    def copy(self) -> Self:
        """An equal error, to keep or to raise once more.

        One that was raised has the frames of all it came through, and theirs whatever their
        functions had in hand: pods, snapshots. Raised again it gets more of them each time.
        """
        made = type(self).__new__(type(self), *self.args)
        made.__dict__.update(self.__dict__)
        return made

    def within(self, source: str) -> KoordError:
        """The same failure of an object in a file, as in ``q.yaml: ElasticQuota default/a``."""
        return KoordError(
            f"{source}: {self.object_name}", self.field, self.value, self.expected, self.code
        )

    @classmethod
    def wrap(cls, object_name: str, field: str, error: Exception) -> Self:
        """Names the object for a ValueError, KeyError or OSError that a kernel raised.

        Kernels know the value and what is right, not which file it came from; they attach both as
        ``koord_value`` and ``koord_expected``. Errors from elsewhere keep their own text.
        """
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            name = object_name if error.filename is None else error.filename
            # A path stays whole in the message; an empty name is none.
            path = Path(name) if name else ""
            readable = f"something readable ({reason})"
            return cls(object_name, field, path, readable, Code.UNREADABLE)
        code = Code.NOT_FOUND if isinstance(error, KeyError) else Code.INVALID
        value: object = getattr(error, "koord_value", None)
        expected: str | None = getattr(error, "koord_expected", None)
        if expected is None:
            return cls(object_name, field, _first_line(error), "a valid value", code)
        inner: str = getattr(error, "koord_field", "")
        named = ": ".join(part for part in (field, inner) if part)
        return cls(object_name, named, value, expected, code)


class MissingExtraError(KoordError):
    """A verb needs packages that an extra installs.

    Args:
        package: what the verb imports.
        extra: who brings it.
        module: what was not found in doing so; another where the package is there and one that it
            needs is not.
    """

    exit_status = 1

    def __init__(self, package: str, extra: str, module: str | None = None) -> None:
        if module and module.partition(".")[0] != package:
            why = f"python -c 'import {package}' shows who imports it"
            super().__init__(
                f"package {package}, which is there", f"module {module}, which it imports",
                "no such module", f"it from pip install 'koord[{extra}]' ({why})",
                Code.MISSING_EXTRA,
            )  # fmt: skip
            return
        super().__init__(
            f"package {package}", "", "no such package", f"it from pip install 'koord[{extra}]'",
            Code.MISSING_EXTRA,
        )  # fmt: skip


def one_line(text: str) -> str:
    """The text with every character that does not print, line ends first of all, escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def value_text(value: object) -> str:
    """A value as it appears in a message: one line, quoted if text, at most 80 characters.

    Paths stay whole, since their end is what tells them apart.
    """
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    text = repr(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 3] + "..."


def nearest(word: str, known: list[str]) -> str | None:
    """The known word that a mistyped one most likely meant, or None."""
    from difflib import get_close_matches

    found = get_close_matches(word.lower(), [name.lower() for name in known], n=1, cutoff=0.6)
    by_lower = {name.lower(): name for name in known}
    return by_lower[found[0]] if found else None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
