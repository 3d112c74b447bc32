# SPDX-License-Identifier: Apache-2.0
"""koord's answers beside the original's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.vectors.area import Area, Json


class Differing(NamedTuple):
    """A case on which the two differ, and no named difference says why."""

    number: int
    case: Json
    theirs: Json
    ours: Json


class Compared(NamedTuple):
    """Differences that nothing names, and how many cases each named difference covers."""

    unnamed: list[Differing]
    named: dict[str, int]


def compared(cases: list[dict[str, Json]], area: Area) -> Compared:
    """Runs koord on an area's cases, as its ``pair`` has them if it has one."""
    unnamed = []
    named = dict.fromkeys(area.DIFFERENCES, 0)
    pair = getattr(area, "pair", _as_they_are)
    for number, each in enumerate(cases):
        case, theirs = pair(each["in"], each["out"])
        # As JSON has it: tuples are lists, keys are texts. The input is koord's own copy.
        ours = json.loads(json.dumps(area.answer(json.loads(json.dumps(case)))))
        if ours == theirs:
            continue
        why = _reasons(case, theirs, ours, area)
        for name in why:
            named[name] += 1
        if not why:
            unnamed.append(Differing(number, case, theirs, ours))
    return Compared(unnamed, named)


def _as_they_are(case: Json, theirs: Json) -> tuple[Json, Json]:
    return case, theirs


def _reasons(case: Json, theirs: Json, ours: Json, area: Area) -> list[str]:
    """The named differences that explain a case, none if something of it is left."""
    applied = []
    for name, difference in area.DIFFERENCES.items():
        adjusted = difference.adjusted(case, theirs, ours)
        if adjusted != theirs:
            applied.append(name)
            theirs = adjusted
        if theirs == ours:
            return applied
    for name, difference in area.DIFFERENCES.items():
        if difference.covers(case, theirs, ours):
            return [*applied, name]
    return []
