# SPDX-License-Identifier: Apache-2.0
"""JSON texts taken apart by the parser of the standard library, character by character."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

MOST_MEMBERS = 64
_read = json.JSONDecoder().raw_decode


class Split(NamedTuple):
    """See :class:`koord.kernels.splitter.SplitObject`."""

    frame: str
    parts: list[tuple[str, str]]
    names: list[str]


def split(text: str, parts: Container[str]) -> Split | None:
    """The members of an object; None where its text says more, or is no such object."""
    try:
        members = list(_members(text))
    except (IndexError, ValueError, RecursionError):
        return None
    names = [name for name, _ in members]
    if len(set(names)) < len(names) or len(names) > MOST_MEMBERS:
        return None
    left = [f'"{name}":{"" if name in parts else value}' for name, value in members]
    return Split(f"{{{','.join(left)}}}", [each for each in members if each[0] in parts], names)


def items(text: str) -> list[str] | None:
    """The items of a list; None where its text says more, or is none."""
    try:
        return list(_items(text))
    except (IndexError, ValueError, RecursionError):
        return None


def _members(text: str) -> Iterator[tuple[str, str]]:
    at = _behind(text, 0, "{")
    while True:
        start = at
        name, at = _read(text, start)
        if text[start:at] != f'"{name}"' or not name.isascii():
            raise ValueError
        start = _behind(text, at, ":")
        at = _read(text, start)[1]
        yield name, text[start:at]
        if text[at] != ",":
            break
        at += 1
    if _behind(text, at, "}") != len(text):
        raise ValueError


def _items(text: str) -> Iterator[str]:
    at = _behind(text, 0, "[")
    while text != "[]":
        start = at
        at = _read(text, start)[1]
        yield text[start:at]
        if text[at] != ",":
            break
        at += 1
    if _behind(text, at, "]") != len(text):
        raise ValueError


def _behind(text: str, at: int, wanted: str) -> int:
    if text[at] != wanted:
        raise ValueError
    return at + 1
