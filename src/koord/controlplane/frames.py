# SPDX-License-Identifier: Apache-2.0
"""JSON objects as texts: some members are their *parts*, what is left is their *frame*.

Objects that differ in a few places have most of their frame and parts in common. What is made of
the text of one can be put together of what was made of its frame and of each part before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


Frame = tuple[tuple[str, ...], tuple[bytes, ...]]


class SplitObject(NamedTuple):
    """An object by its members, which say no more and no less than its text does.

    Attributes:
        frame: the names of all members, and their texts; that of a part is empty.
        parts: name and text of the members that are parts, in their order.
    """

    frame: Frame
    parts: list[tuple[str, bytes]]


def split(text: bytes, parts: Container[str]) -> SplitObject | None:
    """The members of an object; None where its text says more, as blanks or a name twice do.

    Args:
        text: JSON.
        parts: the names of members that are parts.
    """
    try:
        members = _members(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    texts = list(map(bytes, members.values()))
    # Braces, and of each member quotes, colon and comma. An escape in a name is longer than it.
    if len(b"".join(texts)) + len("".join(members)) + 4 * len(members) + 1 != len(text):
        return None
    frame = [b"" if name in parts else member for name, member in zip(members, texts, strict=True)]
    found = [member for member in zip(members, texts, strict=True) if member[0] in parts]
    return SplitObject((tuple(members), tuple(frame)), found)


def items(text: bytes) -> list[bytes] | None:
    """The texts of an array's items; None where its text says more."""
    try:
        found = list(map(bytes, _items(text)))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    whole = sum(map(len, found)) + 1 + max(1, len(found))
    return found if whole == len(text) else None


def frame_texts(made: bytes, sent: SplitObject, texts: Sequence[bytes]) -> list[bytes]:
    """What stands before, between and after the parts of the text that was made of an object.

    Args:
        made: of the whole object.
        sent: what it was made of.
        texts: what is made of each part by itself.

    Returns:
        One text more than there are parts; none at all if the parts are not by themselves.
    """
    names = [name for name, _ in sent.parts]
    found = split(made, names)
    if found is None or found.parts != list(zip(names, texts, strict=True)):
        return []
    pieces, separator = [b"{"], b""
    for name, member in zip(*found.frame, strict=True):
        pieces[-1] += b'%b"%b":%b' % (separator, name.encode(), member)
        separator = b","
        if name in names:
            pieces.append(b"")
    pieces[-1] += b"}"
    return pieces


def fill(pieces: Sequence[bytes], texts: Sequence[bytes]) -> bytes:
    """The text that is made of an object.

    Args:
        pieces: as :func:`frame_texts` gives them for its frame.
        texts: what is made of each part.
    """
    joined = [pieces[0]] * (2 * len(texts) + 1)
    joined[1::2] = texts
    joined[2::2] = pieces[1:]
    return b"".join(joined)
