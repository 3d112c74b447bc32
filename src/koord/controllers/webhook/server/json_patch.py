# SPDX-License-Identifier: Apache-2.0
"""What changes one JSON document into another, as operations of RFC 6902.

Rule: docs/reference/admission.md#webhooks. Values are told apart as JSON tells them apart: ``1``,
``1.0`` and ``true`` are three.
"""

from __future__ import annotations

from typing import Any

import msgspec

Operation = dict[str, Any]

# Python takes 1, 1.0 and true for equal: what it calls equal is the same only where its text is, or
# each part is (keys may stand in another order). What it calls different is, and is found out
# without making a text.
_encoded = msgspec.json.encode
_NESTED = (dict, list)


def difference(before: Any, after: Any) -> list[Operation]:
    """The operations that, carried out in order, make ``after`` of ``before``.

    Each is at the deepest place that differs. Of lists, what both begin and end with stays; what
    lies between is compared item by item, and what one has more is taken out or put in there.

    Args:
        before, after: documents of at most :data:`koord.base.documents.MAX_DEPTH` levels; neither
            is changed, and values of ``after`` are parts of the operations.
    """
    operations: list[Operation] = []
    _compare(before, after, "", operations)
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[Operation]) -> None:
    kind = type(before)
    if kind is not type(after):
        operations.append({"op": "replace", "path": path, "value": after})
    elif kind in _NESTED and before == after and _encoded(before) == _encoded(after):
        return
    elif kind is dict:
        _compare_objects(before, after, path, operations)
    elif kind is list:
        _compare_lists(before, after, path, operations)
    elif before != after:
        operations.append({"op": "replace", "path": path, "value": after})


def _compare_objects(
    before: dict[str, Any], after: dict[str, Any], path: str, operations: list[Operation]
) -> None:
    for key, value in before.items():
        if key not in after:
            operations.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
            continue
        other = after[key]
        if other is value or (type(value) is str and value == other):
            continue  # most fields, at the least cost
        _compare(value, other, f"{path}/{_escaped(key)}", operations)
    for key, value in after.items():
        if key not in before:
            operations.append({"op": "add", "path": f"{path}/{_escaped(key)}", "value": value})


def _compare_lists(
    before: list[Any], after: list[Any], path: str, operations: list[Operation]
) -> None:
    shorter = min(len(before), len(after))
    first = 0
    while first < shorter and _same(before[first], after[first]):
        first += 1
    last = 0
    while last < shorter - first and _same(before[-1 - last], after[-1 - last]):
        last += 1
    both = shorter - first - last
    for index in range(first, first + both):
        _compare(before[index], after[index], f"{path}/{index}", operations)
    place = first + both
    operations += [
        {"op": "remove", "path": f"{path}/{index}"}
        for index in range(len(before) - last - 1, place - 1, -1)
    ]
    operations += [
        {"op": "add", "path": f"{path}/{index}", "value": after[index]}
        for index in range(place, len(after) - last)
    ]


def _same(before: Any, after: Any) -> bool:
    if type(before) is not type(after) or before != after:
        return False
    if type(before) in _NESTED and _encoded(before) == _encoded(after):
        return True
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(
            _same(value, after[key]) for key, value in before.items()
        )
    if isinstance(before, list):
        return len(before) == len(after) and all(map(_same, before, after))
    return bool(before == after)


def _escaped(key: str) -> str:
    """A key as a JSON pointer spells it."""
    if "~" in key or "/" in key:
        return key.replace("~", "~0").replace("/", "~1")
    return key
