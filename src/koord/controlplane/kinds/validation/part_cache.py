# SPDX-License-Identifier: Apache-2.0
"""Parts of objects in which a check found nothing, known again by their text.

Pods that differ have most of their parts in common with others: the sidecar, the probe, what a
container asks for. The text of a part is made in a fraction of the time of its check, and a part
that passed once passes again, whatever stands around it. What fails is checked each time, so that
the causes are those of the check, in its order.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controlplane.kinds.validation.causes import Causes

MOST_PARTS, LONGEST_PART_BYTES = 4096, 2 << 10
_valid_parts: set[bytes] = set()
_numbers = count()
_encode = msgspec.json.Encoder().encode


class ValidParts:
    """The parts of one kind that passed; all kinds together have room for :data:`MOST_PARTS`."""

    def __init__(self) -> None:
        self._mark = b"%d " % next(_numbers)

    def text_of(self, part: Any) -> bytes:
        """What a part is known by; empty for one without a text."""
        try:
            return self._mark + _encode(part)
        except (TypeError, ValueError, OverflowError):
            return b""

    @staticmethod
    def has(text: bytes) -> bool:
        """Whether the part with this text passed."""
        return text in _valid_parts

    @staticmethod
    def add(text: bytes) -> None:
        """Takes note of a part that passed; all are forgotten when there is no more room."""
        if not text or len(text) > LONGEST_PART_BYTES:
            return
        if len(_valid_parts) >= MOST_PARTS:
            _valid_parts.clear()
        _valid_parts.add(text)


def checked_once(
    check: Callable[[Any, str, Causes], object],
) -> Callable[[Any, str, Causes], None]:
    """A check that skips parts which passed it before.

    Args:
        check: of the part alone: where it stands, and what else is wrong, changes only its words.
    """
    parts = ValidParts()

    def checked(part: Any, path: str, causes: Causes) -> None:
        text = parts.text_of(part)
        if text in _valid_parts:
            return
        before = len(causes)
        check(part, path, causes)
        if len(causes) == before:
            parts.add(text)

    return checked
