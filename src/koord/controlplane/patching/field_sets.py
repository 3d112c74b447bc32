# SPDX-License-Identifier: Apache-2.0
"""Sets of field paths, and their form on the wire, ``fieldsV1``.

A path is a tuple of elements, each written as in ``fieldsV1``: ``f:NAME`` for a member,
``k:{"name":"a"}`` for the item of an associative list, ``v:"x"`` for that of a set. A field set is
a plain set of paths; a path stands for itself, not for what lies below it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from koord.api.patching.shapes import SET, STRUCT, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str, ...]
Paths = frozenset[Path]

EMPTY: Paths = frozenset()


class MalformedError(ValueError):
    """A field set or a document that does not fit its shape."""


def member(name: str) -> str:
    """The element of a member of an object."""
    return f"f:{name}"


def item(value: Any, shape: Shape) -> str:
    """The element of an item of an associative list or a set.

    Raises:
        MalformedError: the item has no keys, or is no scalar in a set.
    """
    if shape.list_type == SET:
        if isinstance(value, dict | list) or value is None:
            raise MalformedError("associative list without keys has an element that's no scalar")
        return f"v:{_compact(value)}"
    if not isinstance(value, dict):
        what = "null" if value is None else "non-map"
        raise MalformedError(f"associative list with keys may not have a {what} element")
    fields = shape.element.fields if shape.element else {}
    keys = {}
    for name in sorted(shape.keys):
        if name in value:
            keys[name] = value[name]
        elif name in fields and fields[name].default is not None:
            keys[name] = fields[name].default
    if not keys:
        listed = json.dumps(list(shape.keys))
        raise MalformedError(
            f"associative list with keys has an element that omits all key fields {listed} "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{_compact(keys)}"


def text(path: Path) -> str:
    """A path as messages show it: ``.spec.containers[name="a"].image``."""
    parts = []
    for element in path:
        kind, rest = element[0], element[2:]
        if kind == "f":
            parts.append(f".{rest}")
        elif kind == "k":
            keys = json.loads(rest)
            listed = ",".join(f"{name}={_compact(value)}" for name, value in keys.items())
            parts.append(f"[{listed}]")
        else:
            parts.append(f"[={rest}]" if kind == "v" else f"[{rest}]")
    return "".join(parts)


def from_wire(fields: Any) -> Paths:
    """The set behind a ``fieldsV1`` object.

    Raises:
        MalformedError: it is none.
    """
    found: set[Path] = set()
    _read(fields, (), found)
    return frozenset(found)


def _read(node: Any, path: Path, paths: set[Path]) -> None:
    if not isinstance(node, dict):
        raise MalformedError(f"not a field set at {'/'.join(path) or 'the top'}")
    for key, inner in node.items():
        if key == ".":
            if path:
                paths.add(path)
            continue
        inside = (*path, _normal(key))
        if inner == {}:
            paths.add(inside)
        else:
            _read(inner, inside, paths)


def _normal(element: str) -> str:
    """An element with its JSON in our own form, so that equal ones are equal texts."""
    kind, colon, rest = element.partition(":")
    if kind not in ("f", "k", "v", "i") or not colon:
        raise MalformedError(f"unknown path element {element!r}")
    if kind in ("f", "i"):
        return element
    try:
        value = json.loads(rest)
    except (ValueError, RecursionError):
        raise MalformedError(f"unreadable path element {element!r}") from None
    if kind == "k" and not isinstance(value, dict):
        raise MalformedError(f"unreadable path element {element!r}")
    return f"{kind}:{_compact(dict(sorted(value.items())) if kind == 'k' else value)}"


def to_wire(paths: Iterable[Path]) -> dict[str, Any]:
    """The ``fieldsV1`` object of a set."""
    return _write(tree(paths))


def _write(node: SetNode) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for element in sorted(node.children):
        inner = node.children[element]
        below = _write(inner)
        written[element] = {".": {}, **below} if below and inner.present else below
    return written


@dataclass(slots=True)
class SetNode:
    """A set of paths by their first elements.

    Attributes:
        present: whether the path that leads here is in the set.
    """

    present: bool = False
    children: dict[str, SetNode] = field(default_factory=dict)


def tree(paths: Iterable[Path]) -> SetNode:
    """A set as a tree, for walks beside a document."""
    root = SetNode()
    for path in paths:
        node = root
        for element in path:
            node = node.children.setdefault(element, SetNode())
        node.present = True
    return root


def with_named_parents(paths: Paths, shape: Shape) -> Paths:
    """The set, and the named fields of structs that its paths lead through."""
    found = set(paths)
    for path in paths:
        inner: Shape | None = shape
        for length, element in enumerate(path, 1):
            if inner is None:
                break
            name = element[2:]
            named = element[0] == "f" and inner.type == STRUCT and name in inner.fields
            if named:
                found.add(path[:length])
            inner = inner.fields[name].shape if named else inner.element
    return frozenset(found)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
