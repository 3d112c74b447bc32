# SPDX-License-Identifier: Apache-2.0
"""Keys of JSON documents that people write, matched to a type's fields without regard to case.

Koordinator's components match keys that way in ConfigMap sections and annotations, so documents
with ``MBAPercent`` for ``mbaPercent`` are in use. Objects of the API server are exact instead.
"""

from __future__ import annotations

import types
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator


def fold_keys(document: Any, kind: Any) -> Any:
    """The document with the keys of structs spelled as ``kind`` spells them.

    Keys of maps (resource names, labels) are data and stay as they are. Of two keys that differ
    in case only the later one wins.

    Args:
        document: a parsed JSON document.
        kind: the type it is going to be converted to.
    """
    if isinstance(document, dict):
        fields = _fields_by_folded_name(kind)
        if fields is not None:
            folded = {}
            for key, value in document.items():
                name, field_type = fields.get(str(key).casefold(), (key, None))
                folded[name] = fold_keys(value, field_type)
            return folded
        inner = _item_type(kind, dict)
        return {key: fold_keys(value, inner) for key, value in document.items()}
    if isinstance(document, list):
        inner = _item_type(kind, list)
        return [fold_keys(item, inner) for item in document]
    return document


def unknown_keys(document: Any, kind: Any, path: str = "") -> Iterator[tuple[str, str, list[str]]]:
    """The keys that no field takes, each with its path and the names that would be right.

    Args:
        document: a parsed JSON document.
        kind: the type it is going to be converted to.
        path: where the document stands.
    """
    if isinstance(document, dict):
        fields = _fields_by_folded_name(kind)
        inner = None if fields is not None else _item_type(kind, dict)
        for key, value in document.items():
            where = f"{path}.{key}".lstrip(".")
            if fields is None:
                yield from unknown_keys(value, inner, where)
            elif str(key).casefold() not in fields:
                yield where, str(key), [name for name, _ in fields.values()]
            else:
                yield from unknown_keys(value, fields[str(key).casefold()][1], where)
    elif isinstance(document, list):
        inner = _item_type(kind, list)
        for index, item in enumerate(document):
            yield from unknown_keys(item, inner, f"{path}[{index}]")


@cache
def _fields_by_folded_name(kind: Any) -> dict[str, tuple[str, Any]] | None:
    """Folded key to (exact key, type) of the struct that ``kind`` is or may be."""
    for option in _options(kind):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            fields = msgspec.structs.fields(option)
            return {f.encode_name.casefold(): (f.encode_name, f.type) for f in fields}
    return None


def _item_type(kind: Any, container: type) -> Any:
    for option in _options(kind):
        if get_origin(option) is container:
            return get_args(option)[-1]
    return None


def _options(kind: Any) -> list[Any]:
    """The members of a union, annotations removed; of another type, the type itself."""
    if get_origin(kind) is Annotated:
        return _options(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [option for member in get_args(kind) for option in _options(member)]
    return [kind]
