# SPDX-License-Identifier: Apache-2.0
"""Documents by their shapes: which fields they set, how two differ, how one is merged into another.

The rules are those of structured-merge-diff: scalars and atomic lists and maps are leaves; structs,
granular maps and associative lists are walked. Where a shape says nothing, maps are granular and
lists atomic.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from koord.api.patching.shapes import ANY, ANYTHING, ATOMIC, LIST, MAP, STRUCT, Shape
from koord.controlplane.patching.field_sets import MalformedError, Path, SetNode, item, member, text

_ABSENT: Any = object()
_OPEN_MAP = Shape(MAP, element=ANYTHING)
_ATOMIC_LIST = Shape(LIST, element=ANYTHING)
_SCALAR = Shape("string")


def field_set(document: Any, shape: Shape) -> frozenset[Path]:
    """The fields that a document sets."""
    found: set[Path] = set()
    _collect(document, shape, (), found)
    return frozenset(found)


def _collect(value: Any, shape: Shape, path: Path, paths: set[Path]) -> None:
    shape = _resolved(shape, value)
    if _is_leaf(shape):
        paths.add(path)
    elif shape.type == LIST:
        assert shape.element is not None
        for element, inners in _by_item(value or [], shape).items():
            paths.add((*path, element))
            if len(inners) == 1:
                _collect(inners[0], shape.element, (*path, element), paths)
    else:
        for name, inner in (value or {}).items():
            inside = (*path, member(name))
            _collect(inner, _member_shape(shape, name), inside, paths)
            if inner is None or inner == {} or name not in shape.fields:
                paths.add(inside)


@dataclass(slots=True)
class FieldDifference:
    """Paths that an old and a new document do not have alike."""

    added: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)

    def without(self, ignored: frozenset[str]) -> FieldDifference:
        """The difference without what lies below some top-level fields."""
        if not ignored:
            return self
        tops = {member(name) for name in ignored}
        kept = (
            {path for path in paths if path[0] not in tops}
            for paths in (self.added, self.removed, self.modified)
        )
        return FieldDifference(*kept)


def compare(old: Any, new: Any, shape: Shape) -> FieldDifference:
    """What differs between two documents."""
    found = FieldDifference()
    _compare(old, new, shape, (), found)
    for paths in (found.added, found.removed, found.modified):
        paths.discard(())
    return found


def _compare(old: Any, new: Any, shape: Shape, path: Path, difference: FieldDifference) -> None:
    old_shape, new_shape = _resolved(shape, old), _resolved(shape, new)
    known = new_shape if old is _ABSENT else old_shape
    if old is not _ABSENT and new is not _ABSENT and old_shape is not new_shape:
        # Only where the shape says nothing: a map became a list or a scalar, or the reverse.
        difference.modified.add(path)
        for value, sides in ((old, (old, _ABSENT)), (new, (_ABSENT, new))):
            if isinstance(value, dict) and value:
                _compare_members(*sides, _OPEN_MAP, path, difference)
        return
    if _is_leaf(known) or (_is_empty(old) and _is_empty(new)):
        _compare_leaves(old, new, path, difference)
        return
    if known.type == LIST:
        _compare_items(old, new, known, path, difference)
    else:
        _compare_members(old, new, known, path, difference)
    if old is _ABSENT:
        difference.added.add(path)
    elif new is _ABSENT:
        difference.removed.add(path)


def _compare_leaves(old: Any, new: Any, path: Path, difference: FieldDifference) -> None:
    if old is _ABSENT:
        difference.added.add(path)
    elif new is _ABSENT:
        difference.removed.add(path)
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        difference.modified.add(path)


def _compare_members(
    old: Any, new: Any, shape: Shape, path: Path, difference: FieldDifference
) -> None:
    old, new = _or_empty(old, {}), _or_empty(new, {})
    for name in old.keys() | new.keys():
        inner = _member_shape(shape, name)
        inside = (*path, member(name))
        _compare(old.get(name, _ABSENT), new.get(name, _ABSENT), inner, inside, difference)


def _compare_items(
    old: Any, new: Any, shape: Shape, path: Path, difference: FieldDifference
) -> None:
    assert shape.element is not None
    before = _by_item(_or_empty(old, []), shape)
    after = _by_item(_or_empty(new, []), shape)
    for element in before.keys() | after.keys():
        inside = (*path, element)
        olds, news = before.get(element, []), after.get(element, [])
        if len(olds) > 1 and len(news) > 1:
            if olds != news:
                difference.modified.add(inside)
            continue
        # Repeated items have one owner as a whole: the path stands for all of them.
        one = (olds or [_ABSENT])[0] if len(olds) <= 1 else _ABSENT
        other = (news or [_ABSENT])[0] if len(news) <= 1 else _ABSENT
        if one is not _ABSENT or other is not _ABSENT:
            _compare(one, other, shape.element, inside, difference)
        if len(olds) > 1:
            difference.removed.add(inside)
        if len(news) > 1:
            difference.added.add(inside)


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """The live document with everything that the applied one sets."""
    return _merge(live, applied, shape)


def _merge(live: Any, applied: Any, shape: Shape) -> Any:
    if applied is _ABSENT:
        return live
    known = _resolved(shape, applied)
    if live is _ABSENT or _is_leaf(known) or known is not _resolved(shape, live):
        return applied
    if not live or not applied:
        return live or applied
    if known.type == LIST:
        return _merge_items(live, applied, known)
    merged = dict(live)
    for name, value in applied.items():
        merged[name] = _merge(live.get(name, _ABSENT), value, _member_shape(known, name))
    return merged


def _merge_items(live: list[Any], applied: list[Any], shape: Shape) -> list[Any]:
    """Items that both have come in the applied order, those of the live list alone in between."""
    assert shape.element is not None
    before = _by_item(live, shape)
    news = {item(value, shape): value for value in applied}
    olds = deque((item(value, shape), value) for value in live)
    waiting = deque(news)
    shared = deque(key for key in news if key in before)
    merged: list[Any] = []
    taken: set[str] = set()
    while olds or waiting:
        key = olds[0][0] if olds else ""
        if olds and key not in news:
            merged.append(olds.popleft()[1])
            continue
        is_next = bool(waiting) and key == waiting[0]
        if olds and waiting and not is_next and shared and shared[0] != key:
            olds.popleft()  # the applied order has it elsewhere
            continue
        if olds and (is_next or key in taken):
            olds.popleft()
        if waiting:
            key = waiting.popleft()
            lives = before.get(key, [])
            # Repeated live items are replaced as a whole.
            one = lives[0] if len(lives) == 1 else _ABSENT
            merged.append(_merge(one, news[key], shape.element))
            taken.add(key)
            if shared and shared[0] == key:
                shared.popleft()
    return merged


def remove(value: Any, shape: Shape, gone: SetNode) -> Any:
    """The value without some paths; None where nothing is left of it.

    A container whose members all go stays as a null of its parent, so that its owners keep it;
    what stores the document drops the null.
    """
    shape = _resolved(shape, value)
    if not value or _is_leaf(shape):
        return value
    if shape.type == LIST:
        assert shape.element is not None
        items = ((inner, gone.children.get(item(inner, shape))) for inner in value)
        return [
            remove(inner, shape.element, node) if node else inner
            for inner, node in items
            if node is None or not node.present
        ] or None
    members = ((name, inner, gone.children.get(member(name))) for name, inner in value.items())
    return {
        name: remove(inner, _member_shape(shape, name), node) if node else inner
        for name, inner, node in members
        if node is None or not node.present
    } or None


def check(document: Any, shape: Shape) -> list[str]:
    """What keeps an applied document from being typed: unknown fields, repeated items, types."""
    wrong: list[str] = []
    _check(document, shape, (), wrong)
    return wrong


def _check(value: Any, shape: Shape, path: Path, wrong: list[str]) -> None:
    if value is None:
        return
    if shape.type == ANY or shape.type not in (STRUCT, MAP, LIST):
        _check_scalar(value, shape, path, wrong)
        return
    expected, called = (list, "list") if shape.type == LIST else (dict, "map")
    if not isinstance(value, expected):
        wrong.append(f"{text(path)}: expected {called}, got &{{{value}}}")
    elif isinstance(value, list):
        _check_items(value, shape, path, wrong)
    else:
        for name, inner in value.items():
            inside = (*path, member(name))
            if shape.type == STRUCT and name not in shape.fields and not shape.open:
                wrong.append(f"{text(inside)}: field not declared in schema")
            else:
                _check(inner, _member_shape(shape, name), inside, wrong)


def _check_items(value: list[Any], shape: Shape, path: Path, wrong: list[str]) -> None:
    assert shape.element is not None
    if shape.list_type == ATOMIC:
        for number, inner in enumerate(value):
            _check(inner, shape.element, (*path, f"i:{number}"), wrong)
        return
    seen = set()
    for number, inner in enumerate(value):
        try:
            element = item(inner, shape)
        except MalformedError as error:
            wrong.append(f"{text(path)}: element {number}: {error}")
            continue
        if element in seen:
            wrong.append(f"{text(path)}: duplicate entries for key {text((element,))}")
        seen.add(element)
        _check(inner, shape.element, (*path, element), wrong)


_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "string"),
    "boolean": ((bool,), "boolean"),
    "int32": ((int, float), "numeric (int or float)"),
    "int64": ((int, float), "numeric (int or float)"),
    "double": ((int, float), "numeric (int or float)"),
    "byte": ((str,), "string"),
    "time": ((str,), "string"),
    "micro-time": ((str,), "string"),
}


def _check_scalar(value: Any, shape: Shape, path: Path, wrong: list[str]) -> None:
    types, called = _SCALARS.get(shape.type, ((object,), ""))
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types and called):
        wrong.append(f"{text(path)}: expected {called}, got &{{{value}}}")


def _resolved(shape: Shape, value: Any) -> Shape:
    """The shape of a value where its own shape says nothing."""
    if shape.type != ANY:
        return shape
    if isinstance(value, dict):
        return _OPEN_MAP
    return _ATOMIC_LIST if isinstance(value, list) else _SCALAR


def _is_leaf(shape: Shape) -> bool:
    if shape.type == LIST:
        return shape.list_type == ATOMIC
    return shape.atomic or shape.type not in (STRUCT, MAP)


def _member_shape(shape: Shape, name: str) -> Shape:
    named = shape.fields.get(name)
    return named.shape if named else shape.element or ANYTHING


def _by_item(values: list[Any], shape: Shape) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(item(value, shape), []).append(value)
    return found


def _is_empty(value: Any) -> bool:
    return value is _ABSENT or value is None or value in ({}, [])


def _or_empty(value: Any, empty: Any) -> Any:
    return empty if value is _ABSENT or value is None else value
