# SPDX-License-Identifier: Apache-2.0
"""The part of slo-controller-config that ``koord resctrl`` needs: which classes ask for what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from koord.base.errors import KoordError
from koord.kernels.resctrl import ClassPolicy

SECTION = "resource-qos-config"
# What the node agent fills in for an enabled class, in the order in which it sets up the groups.
_DEFAULTS = {"LSR": (0, 100, 100), "LS": (0, 100, 100), "BE": (0, 30, 100)}
_FIELDS = ("catRangeStartPercent", "catRangeEndPercent", "mbaPercent")


def enabled_classes(path: str) -> list[ClassPolicy]:
    """The classes whose resctrlQOS is enabled cluster-wide, defaults filled in.

    Args:
        path: the slo-controller-config ConfigMap, or the bare JSON of its resource-qos-config.

    Raises:
        KoordError: the file cannot be read, or a field has a wrong type or value.
    """
    prefix, section = _section(path, _document(path))
    folded = _fold(section)
    if not isinstance(folded, dict) or not {"clusterstrategy", "nodestrategies"} & folded.keys():
        raise KoordError(path, prefix, section, "an object with clusterStrategy")
    strategy = _Node(path, prefix, folded).child("clusterStrategy")
    policies = (_policy(strategy, name) for name in _DEFAULTS)
    return [policy for policy in policies if policy is not None]


def _document(path: str) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise KoordError(path, "", error.object[error.start :][:8], "UTF-8 text") from None
    except OSError as error:
        raise KoordError.wrap(path, "", error) from None
    try:
        documents = [doc for doc in yaml.safe_load_all(text) if doc is not None]
    # The constructor raises ValueError for such things as an impossible date.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise KoordError(path, "", _place(error), "YAML or JSON") from None
    maps = [doc for doc in documents if isinstance(doc, dict) and doc.get("kind") == "ConfigMap"]
    return next(iter(maps or documents), None)


def _section(path: str, document: Any) -> tuple[str, Any]:
    """Where the section stands in the file, and the section itself."""
    if not isinstance(document, dict) or "data" not in document:
        return "", document
    data = document["data"]
    field = f"data.{SECTION}"
    text = data.get(SECTION) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise KoordError(path, field, text, "the JSON text of this section")
    try:
        return field, json.loads(text)
    except (ValueError, RecursionError) as error:
        raise KoordError(path, field, _place(error), "JSON") from None


def _place(error: Exception) -> str:
    """What a YAML or JSON parser says, on one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem} at line {error.problem_mark.line + 1}"
    return " ".join(str(error).split()) or type(error).__name__


def _fold(value: Any) -> Any:
    """Lower-case keys throughout: Koordinator's decoder does not regard case."""
    if isinstance(value, dict):
        return {str(key).lower(): _fold(item) for key, item in value.items()}
    return value


class _Node:
    """An object of the section that knows its path, for messages."""

    def __init__(self, path: str, field: str, values: dict[str, Any]) -> None:
        self.path = path
        self.field = field
        self.values = values

    def name_of(self, key: str) -> str:
        return f"{self.field}.{key}" if self.field else key

    def get(self, key: str, default: Any, expected: str, valid: type) -> Any:
        value = self.values.get(key.lower())
        if value is None:
            return default
        # JSON's true is an int to Python, not to the wire.
        if not isinstance(value, valid) or (valid is int and isinstance(value, bool)):
            raise KoordError(self.path, self.name_of(key), value, expected)
        return value

    def child(self, key: str) -> _Node:
        return _Node(self.path, self.name_of(key), self.get(key, {}, "an object", dict))

    def percent(self, key: str, default: int) -> int:
        expected = "a whole percentage from 0 to 100"
        value: int = self.get(key, default, expected, int)
        if not 0 <= value <= 100:
            raise KoordError(self.path, self.name_of(key), value, expected)
        return value


def _policy(strategy: _Node, name: str) -> ClassPolicy | None:
    node = strategy.child(f"{name.lower()}Class").child("resctrlQOS")
    if not node.get("enable", False, "true or false", bool):
        return None
    start, end, mba = (
        node.percent(field, default)
        for field, default in zip(_FIELDS, _DEFAULTS[name], strict=True)
    )
    if start >= end:
        raise KoordError(
            node.path, node.name_of(_FIELDS[0]), start, f"less than catRangeEndPercent, {end}"
        )
    return ClassPolicy(name, start, end, mba)
