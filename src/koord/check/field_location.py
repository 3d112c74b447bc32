# SPDX-License-Identifier: Apache-2.0
"""From a field as an error names it to the line where it stands.

Errors come from many readers, which write paths in ways of their own: ``spec.max[cpu]``,
``annotations[koordinator.sh/cpuQOS].groupIdentity``, ``data.colocation-config.nodeConfigs[0]``. A
path is followed through the document as far as it goes, into the JSON or YAML inside a text too.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from koord.base.documents import parse_documents
from koord.base.errors import KoordError
from koord.check.source_tree import SourceNode, json_branch, yaml_branches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INDEX = re.compile(r"\[(\d{1,9})\]")
# Longer paths come from keys that nobody means.
_LONGEST = 2048
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
# Fields that readers name without what they are fields of.
_METADATA = ("annotations[", "labels[", "annotations.", "labels.")


class FieldLocation(NamedTuple):
    """A field that was looked for.

    Args:
        path: what of it is there spelled as in the document, the rest as it was asked for.
        line: of the deepest part that is there, from 1.
        value: of that part.
        is_whole: whether all of it is there.
    """

    path: str
    line: int
    value: Any
    is_whole: bool


class PathStep(NamedTuple):
    """One key or index on the way, and what it leads to."""

    key: str | int
    value: Any
    rest: str


def locate(document: Any, branch: SourceNode | None, path: str) -> FieldLocation:
    """Follows a path.

    Args:
        document: the object.
        branch: its place; None where lines do not matter.
        path: of the field, ``""`` for the object.
    """
    if path.startswith(_METADATA) and isinstance(document, dict) and "labels" not in document:
        path = f"metadata.{path}"
    walk = _PathWalk(document, branch)
    if len(path) > _LONGEST:
        return FieldLocation(path[:_LONGEST] + "...", walk.line + 1, document, False)
    rest = path
    while rest:
        step = _step(walk.value, rest)
        if step is None and isinstance(walk.value, str) and walk.enter():
            step = _step(walk.value, rest)
        if step is None:
            break
        walk.take(step.key, step.value)
        rest = step.rest
    tail = rest if not rest or not walk.path or rest[0] in ".[" else f".{rest}"
    return FieldLocation(walk.path + tail, walk.line + 1, walk.value, not rest)


def written(keys: Sequence[str | int]) -> str:
    """A path of keys and indices as text."""
    return "".join(
        f"[{key}]" if isinstance(key, int) or not _PLAIN.fullmatch(key) else f".{key}"
        for key in keys
    ).removeprefix(".")


class _PathWalk:
    """Where a path has led so far."""

    def __init__(self, value: Any, branch: SourceNode | None) -> None:
        self.value, self.line = value, branch.line if branch is not None else 0
        self._branch, self._offset = branch, 0
        self._keys: list[str | int] = []

    @property
    def path(self) -> str:
        return written(self._keys)

    def take(self, key: str | int, value: Any) -> None:
        self._keys.append(key)
        self.value = value
        branch = self._branch
        if branch is None:
            return
        if isinstance(key, str):
            self._branch = branch.members.get(key)
        else:
            self._branch = branch.items[key] if key < len(branch.items) else None
        if self._branch is not None:
            self.line = self._offset + self._branch.line

    def enter(self) -> bool:
        """Goes on inside the document that a text holds, if it holds one."""
        text, branch = self.value, self._branch
        found = _inner(text)
        if found is None:
            return False
        self.value, inner = found
        if branch is not None and branch.literal:
            self._offset += branch.text_line
            self._branch = inner
        else:
            self._branch = None
        return True


@lru_cache(maxsize=16)
def _inner(text: str) -> tuple[Any, SourceNode] | None:
    try:
        documents = parse_documents(text, "")
    except KoordError:
        return None
    if len(documents) != 1 or not isinstance(documents[0], dict | list):
        return None
    return documents[0], branches(text)[0]


def branches(text: str) -> list[SourceNode]:
    """The places of the documents that :func:`koord.base.documents.parse_documents` finds."""
    if text.lstrip().startswith(("{", "[")):
        try:
            msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
        else:
            return [json_branch(text)]
    return list(yaml_branches(text))


def _step(value: Any, rest: str) -> PathStep | None:
    """The next key or index of a path; the longest key that fits, for keys may hold dots."""
    if isinstance(value, list):
        match = _INDEX.match(rest)
        index = int(match[1]) if match else -1
        if not match or index >= len(value):
            return None
        return PathStep(index, value[index], rest[match.end() :])
    if not isinstance(value, dict):
        return None
    for spelling in (value, _CaseFoldedKeys(value)):
        found = _key(spelling, rest)
        if found is not None:
            key, after = found
            return PathStep(key, value[key], after)
    return None


class _CaseFoldedKeys:
    """The keys of a mapping without regard to case."""

    def __init__(self, value: dict[str, Any]) -> None:
        self._value = value

    @cached_property
    def _keys(self) -> dict[str, str]:
        return {key.casefold(): key for key in self._value}

    def key(self, text: str) -> str | None:
        return self._keys.get(text.casefold())


def _key(value: dict[str, Any] | _CaseFoldedKeys, rest: str) -> tuple[str, str] | None:
    """The longest key at the beginning of a path, bare or in brackets, and the rest of the path."""
    for text, after in _heads(rest):
        bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
        found = (
            value.key(bare)
            if isinstance(value, _CaseFoldedKeys)
            else bare
            if bare in value
            else None
        )
        if found is not None:
            return found, after
    return None


def _heads(rest: str) -> Iterator[tuple[str, str]]:
    """What the first key of a path may be, the longest first, each with the rest."""
    if rest.startswith("["):
        for end in reversed([match.start() for match in re.finditer(r"\]", rest)]):
            yield rest[1:end], rest[end + 1 :]
        return
    rest = rest.removeprefix(".")
    for end in reversed([match.start() for match in re.finditer(r"[.\[]|\Z", rest)]):
        yield rest[:end], rest[end:]
