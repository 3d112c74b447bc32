# SPDX-License-Identifier: Apache-2.0
"""One thing that is otherwise once a program is koord's."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from koord.base.errors import KoordError, one_line, value_text


class Effect(StrEnum):
    """What becomes of it."""

    NOTE = "note"  # nothing to do
    IGNORED = "ignored"  # koord reads it, and it does nothing
    DIFFERS = "differs"  # works otherwise, or has to be put otherwise
    REFUSED = "refused"  # koord does not start with it, or does not take it


class MovingChange(NamedTuple):
    """What becomes of one setting, object or right.

    Args:
        effect: the sort of change.
        subject: what it is about: a flag, a field's path, an object.
        why: a sentence without its full stop.
    """

    effect: Effect
    subject: str
    why: str

    @classmethod
    def refused(cls, subject: str, error: KoordError) -> MovingChange:
        """What one of koord's readers raised."""
        where = f"{subject}: {error.field}" if error.field else subject
        got = "nothing" if error.value is None else value_text(error.value)
        return cls(Effect.REFUSED, where, one_line(f"got {got}, expected {error.expected}"))

    def as_json(self) -> dict[str, Any]:
        """As ``-o json`` has it."""
        return {"effect": self.effect, "subject": self.subject, "why": self.why}


@dataclass
class ComponentChanges:
    """A part of the installation.

    Attributes:
        name: of the program, such as ``koord-scheduler``, or of what is not one's own.
        source: the object that runs it, and the version of its image.
        changes: what is otherwise, in the order of what the object says.
    """

    name: str
    source: str = ""
    changes: list[MovingChange] = field(default_factory=list)

    def count(self, effect: Effect) -> int:
        """How many changes are of a sort."""
        return sum(each.effect is effect for each in self.changes)

    def as_json(self) -> dict[str, Any]:
        """As ``-o json`` has it."""
        changes = [each.as_json() for each in self.changes]
        return {"name": self.name, "source": self.source, "changes": changes}
