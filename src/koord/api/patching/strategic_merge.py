# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches: lists merge by the keys that the table of core types gives them.

Directives: ``$patch: replace|delete`` in an object or a list item, ``$retainKeys``,
``$deleteFromPrimitiveList/FIELD`` and ``$setElementOrder/FIELD``. The rules are those of
apimachinery's ``strategicpatch``, with one order where it walks Go maps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.patching.shapes import ANYTHING, MAP, Field, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.base.documents import Document

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM = "$deleteFromPrimitiveList/"
ELEMENT_ORDER = "$setElementOrder/"


class PatchError(ValueError):
    """A patch that cannot be understood.

    Attributes:
        is_malformed: a directive is not as it has to be; else directives and patch, or patch and
            document, contradict each other.
    """

    def __init__(self, text: str, *, is_malformed: bool = False) -> None:
        super().__init__(text)
        self.is_malformed = is_malformed


def strategic_merge(document: Document, patch: Document, shape: Shape) -> Document:
    """The document with a strategic merge patch applied.

    Args:
        document: stays as it is; what the patch leaves alone is shared with the outcome.
        patch: stays as it is; parts of it may be shared with the outcome.
        shape: of the document.

    Raises:
        PatchError: a directive is malformed or contradicts the patch.
    """
    return _merge_objects(document, patch, shape)


def _merge_objects(original: Document, patch: Document, shape: Shape) -> Document:
    if PATCH in patch:
        return _replaced_or_deleted(patch)
    merged = dict(original)
    if RETAIN_KEYS in patch:
        _retain(merged, patch)
    ordered = _merge_ordered_lists(merged, patch, shape)
    for key, value in patch.items():
        if key.startswith("$") or key in ordered:
            continue
        if value is None:
            merged.pop(key, None)
        else:
            _merge_member(merged, key, value, _field(shape, key))
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_from(merged, key.removeprefix(DELETE_FROM), value)
    return merged


def _merge_member(merged: Document, key: str, value: Any, field: Field) -> None:
    """Puts one member of a patch into an object."""
    old = merged.get(key)
    replace = "replace" in field.strategy
    if isinstance(value, dict) and isinstance(old, dict):
        merged[key] = value if replace else _merge_objects(old, value, field.shape)
    elif isinstance(value, list) and isinstance(old, list):
        merged[key] = _merge_lists(old, value, field) if "merge" in field.strategy else value
    elif _is_directive(value):
        merged.pop(key, None)
    else:
        merged[key] = _plain(value)


def _replaced_or_deleted(patch: Document) -> Document:
    if patch[PATCH] == "replace":
        return {key: value for key, value in patch.items() if key != PATCH}
    if patch[PATCH] == "delete":
        return {}
    raise PatchError(f"unknown patch type: {patch[PATCH]} in map: {_go_text(patch)}")


def _retain(merged: Document, patch: Document) -> None:
    """Drops what ``$retainKeys`` does not list; everything that the patch sets must be listed."""
    retained = patch[RETAIN_KEYS]
    named = {key for key, value in patch.items() if value is not None and not key.startswith("$")}
    if not isinstance(retained, list) or not named.issubset(_texts(retained)):
        raise PatchError("invalid patch format of retainKeys", is_malformed=True)
    for key in merged.keys() - _texts(retained):
        del merged[key]


def _delete_from(merged: Document, key: str, values: Any) -> None:
    old = merged.get(key)
    if isinstance(old, list) and isinstance(values, list):
        gone = _Keys(values, "")
        merged[key] = [value for value in old if value not in gone]


def _merge_ordered_lists(merged: Document, patch: Document, shape: Shape) -> set[str]:
    """Merges the lists whose order the patch tells; gives their names."""
    done = set()
    for directive, order in patch.items():
        if not directive.startswith(ELEMENT_ORDER):
            continue
        key = directive.removeprefix(ELEMENT_ORDER)
        old, new = merged.get(key), patch.get(key)
        for given in (order, [] if old is None else old, [] if new is None else new):
            if not isinstance(given, list):
                raise PatchError(f"expected a slice, but received a {json_type(given)}")
        field = _field(shape, key)
        _check_order(new or [], order, field.merge_key)
        if old is None and new is None:
            continue
        if not old and not new:
            raise PatchError("no elements in any of the given slices")
        merged[key] = _merge_in_order(old, new, order, field)
        done.add(key)
    return done


def _merge_in_order(
    old: list[Any] | None, patch: list[Any] | None, order: list[Any], field: Field
) -> list[Any]:
    if old is None or patch is None:
        return _arranged(_plain(patch) if old is None else old, order, old or [], field.merge_key)
    if "merge" not in field.strategy:
        return _arranged(patch, order, old, field.merge_key)
    kept, added = _merge_items(old, patch, field)
    arranged = _arranged([*kept, *added], patch, kept, field.merge_key)
    # New items count as old ones as far as they fill the places of deleted ones. Nobody meant it
    # so, but clients see this order.
    return _arranged(arranged, order, [*kept, *added][: len(old)], field.merge_key)


def _check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of a patch must be in the order that the patch itself tells."""
    wanted = [item for item in patch if not (_is_directive(item) and item[PATCH] == "delete")]
    for key in _keys(order, merge_key):
        while wanted and _is_directive(wanted[0]):
            wanted.pop(0)
        if not wanted:
            return
        if _keys(wanted[:1], merge_key)[0] == key:
            wanted.pop(0)
    if order and wanted:
        raise PatchError(
            f"The order in patch list:\n{_go_text(patch)}\n doesn't match $setElementOrder list:\n"
            f"{_go_text(order)}\n"
        )


def _merge_lists(old: list[Any], patch: list[Any], field: Field) -> list[Any]:
    kept, added = _merge_items(old, patch, field)
    plain = [item for item in patch if not _is_directive(item)]
    return _arranged([*kept, *added], plain, kept, field.merge_key)


def _merge_items(old: list[Any], patch: list[Any], field: Field) -> tuple[list[Any], list[Any]]:
    """The old items that stay, merged with those of the patch, and the items that are new."""
    kinds = {json_type(item) for item in (*old, *patch)}
    if len(kinds) > 1 or "array" in kinds:
        raise PatchError("list element types are not identical")
    if "object" not in kinds:
        known = _Keys(old, "")
        unique = {_tagged(item): item for item in (*old, *patch)}.values()
        return old, [item for item in unique if item not in known]
    if not field.merge_key:
        raise PatchError("cannot merge lists without merge key")
    element = field.shape.element or ANYTHING
    old, patch = _with_directives(old, patch, field.merge_key)
    merged = list(old)
    places = _places(merged, field.merge_key)
    for item, key in zip(patch, _keys(patch, field.merge_key), strict=True):
        if key in places:
            merged[places[key]] = _merge_objects(merged[places[key]], item, element)
        else:
            places[key] = len(merged)
            merged.append(item)
    return merged[: len(old)], merged[len(old) :]


def _with_directives(
    old: list[Document], patch: list[Document], merge_key: str
) -> tuple[list[Document], list[Document]]:
    """Deletes and replaces as items with ``$patch`` say; gives the old items and the other new."""
    plain = [item for item in patch if PATCH not in item]
    directives = [item for item in patch if PATCH in item]
    for item in directives:
        if item[PATCH] not in ("delete", "replace"):
            raise PatchError(f"unknown patch type: {item[PATCH]} in map: {_go_text(item)}")
    deleted = _Keys([item for item in directives if item[PATCH] == "delete"], merge_key)
    if any(item[PATCH] == "replace" for item in directives):
        return plain, []
    return [item for item in old if item not in deleted], plain


def _arranged(items: list[Any], order: list[Any], old: list[Any], merge_key: str) -> list[Any]:
    """Items that ``order`` names come in its order; others stay before what they stood before.

    The old list decides where the two kinds meet, as far as both are in it.
    """
    wanted, before = _places(order, merge_key), _places(old, merge_key)
    keyed = list(zip(_keys(items, merge_key), items, strict=True))
    named = sorted((pair for pair in keyed if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    others = [pair for pair in keyed if pair[0] not in wanted]
    others.sort(key=lambda pair: before.get(pair[0], len(before)))
    arranged = []
    for key, item in named:
        while others and before.get(others[0][0], len(before)) < before.get(key, -1):
            arranged.append(others.pop(0)[1])
        arranged.append(item)
    return arranged + [item for _, item in others]


def _places(items: list[Any], merge_key: str) -> dict[_Tagged | None, int]:
    """Where each key stands first."""
    return {key: place for place, key in reversed([*enumerate(_loose(items, merge_key))])}


class _Tagged(NamedTuple):
    """A scalar that equals only its own JSON type: 1 is not true."""

    type: str
    value: Any


def _tagged(value: Any) -> _Tagged:
    if isinstance(value, dict | list):
        return _Tagged("other", repr(value))
    return _Tagged(json_type(value), value)


def _keys(items: Iterable[Any], merge_key: str) -> list[_Tagged]:
    """What tells list items apart; items without their merge key are refused."""
    if not merge_key:
        return [_tagged(item) for item in items]
    keys = []
    for item in items:
        if not isinstance(item, dict):
            raise PatchError(f"expected a map, but received a {json_type(item)}")
        if merge_key not in item:
            told = f"map: {_go_text(item)} does not contain declared merge key: {merge_key}"
            raise PatchError(told)
        keys.append(_tagged(item[merge_key]))
    return keys


def _loose(items: list[Any], merge_key: str) -> list[_Tagged | None]:
    """Like :func:`_keys`; an item without its key is None."""
    if not merge_key:
        return [_tagged(item) for item in items]
    return [
        _tagged(item[merge_key]) if isinstance(item, dict) and merge_key in item else None
        for item in items
    ]


class _Keys:
    """The keys of some items, to look others up."""

    def __init__(self, items: list[Any], merge_key: str) -> None:
        self._merge_key = merge_key
        self._keys = set(_keys(items, merge_key))

    def __contains__(self, item: Any) -> bool:
        return _loose([item], self._merge_key)[0] in self._keys


def _texts(values: list[Any]) -> set[str]:
    return {value for value in values if isinstance(value, str)}


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and PATCH in value


def _plain(value: Any) -> Any:
    """A value of a patch where nothing was: without nulls and directives."""
    if isinstance(value, dict):
        return {
            key: _plain(inner)
            for key, inner in value.items()
            if inner is not None and not _is_directive(inner)
        }
    if isinstance(value, list):
        return [_plain(inner) for inner in value if not _is_directive(inner)]
    return value


def _field(shape: Shape, key: str) -> Field:
    if shape.type == MAP and shape.element is not None:
        return Field(shape.element)
    return shape.fields.get(key) or Field(ANYTHING)


def json_type(value: Any) -> str:
    """How JSON calls the type of a value."""
    names = {bool: "bool", str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "number")


def _go_text(value: Any) -> str:
    """A JSON value as Go prints it in messages: ``map[a:1 b:[x y]]``."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)
