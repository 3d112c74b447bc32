# SPDX-License-Identifier: Apache-2.0
"""The JSONPath of printer columns: fields, quoted fields, indices, ``[*]`` and equality filters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Step = Callable[[Any], list[Any]]

_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\]\\])+)
      | \[\s*'(?P<quoted>(?:\\.|[^'\\])*)'\s*\]
      | \[\s*"(?P<double>(?:\\.|[^"\\])*)"\s*\]
      | \[\s*(?P<index>-?\d+)\s*\]
      | (?P<all>\[\s*\*\s*\])
      | \[\?\(\s*@(?P<path>[^=!<>]+?)\s*(?P<operator>==|!=)\s*
        (?P<value>'[^']*'|"[^"]*"|[^)\s]+)\s*\)\]
    """,
    re.VERBOSE,
)


class JsonPath:
    """One path, e.g. ``.status.conditions[?(@.type=="Ready")].status``.

    A path that cannot be read finds nothing, as an unset field does.
    """

    def __init__(self, text: str) -> None:
        self._steps = _parse(text)

    def find(self, document: Any) -> list[Any]:
        """The values at the path, in order."""
        found = [document] if self._steps is not None else []
        for step in self._steps or ():
            found = [value for one in found for value in step(one)]
        return found


def _parse(text: str) -> list[Step] | None:
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        steps.append(_step(match))
        at = match.end()
    return steps


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return _at(int(match["index"]))
    if match["all"]:
        return _every
    if match["operator"]:
        return _where(match["path"], match["operator"], match["value"].strip("'\""))
    name = match["field"] or match["quoted"] or match["double"] or ""
    return _field(re.sub(r"\\(.)", r"\1", name))


def _field(name: str) -> Step:
    if name == "*":
        return _every
    return lambda one: [one[name]] if isinstance(one, dict) and one.get(name) is not None else []


def _at(index: int) -> Step:
    def at(one: Any) -> list[Any]:
        inside = isinstance(one, list) and -len(one) <= index < len(one)
        return [one[index]] if inside else []

    return at


def _every(one: Any) -> list[Any]:
    if isinstance(one, list):
        return one
    return list(one.values()) if isinstance(one, dict) else []


def _where(path: str, operator: str, value: str) -> Step:
    inner = JsonPath(path)

    def where(one: Any) -> list[Any]:
        found = []
        for item in _every(one):
            equal = any(_same(candidate, value) for candidate in inner.find(item))
            if equal is (operator == "=="):
                found.append(item)
        return found

    return where


def _same(left: Any, value: str) -> bool:
    if isinstance(left, bool):
        return str(left).lower() == value
    return str(left) == value
