# SPDX-License-Identifier: Apache-2.0
"""What admission says of a change of a quota tree, worked out from scratch for the whole tree.

A tree is a dict of quotas by name: ``parent`` (None for the root), ``is_parent``, ``min``, ``max``
as dicts of integers. Nothing is kept between two questions.
"""

from __future__ import annotations

from typing import Any

Tree = dict[str, dict[str, Any]]


def admits(tree: Tree, name: str, wanted: dict[str, Any] | None) -> bool:
    """Whether a quota may become ``wanted``; None deletes it."""
    children = [each for each in tree if tree[each]["parent"] == name]
    if wanted is None:
        return not children
    before, after = tree.get(name), {**tree, name: wanted}
    if before == wanted:
        return True
    if before is not None and before["is_parent"] and children and not wanted["is_parent"]:
        return False
    if any(key not in wanted["max"] or least > wanted["max"][key]
           for key, least in wanted["min"].items()):  # fmt: skip
        return False
    if wanted["parent"] is None and not wanted["is_parent"]:
        return True
    return _fits_parent(after, name) and all(_pair(wanted, after[each]) for each in children) and (
        _covers(wanted["min"], [after[each]["min"] for each in children])
    )  # fmt: skip


def _fits_parent(tree: Tree, name: str) -> bool:
    parent = tree[name]["parent"]
    if parent is None:
        return True
    above, at = set(), parent
    while at is not None and at in tree and at not in above:
        above.add(at)
        at = tree[at]["parent"]
    if parent not in tree or name in above or not tree[parent]["is_parent"]:
        return False
    siblings = [tree[each]["min"] for each in tree if tree[each]["parent"] == parent]
    return _pair(tree[parent], tree[name]) and _covers(tree[parent]["min"], siblings)


def _pair(parent: dict[str, Any], child: dict[str, Any]) -> bool:
    return set(parent["max"]) == set(child["max"]) and set(child["min"]) <= set(parent["min"])


def _covers(most: dict[str, int], parts: list[dict[str, int]]) -> bool:
    names = {name for part in parts for name in part}
    return all(sum(part.get(name, 0) for part in parts) <= most.get(name, 0) for name in names)
