# SPDX-License-Identifier: Apache-2.0
"""YAML as Kubernetes reads it: JSON's types only, so that a timestamp stays the text it is."""

from __future__ import annotations

from typing import Any

import yaml

from koord.api.codec import MAX_DEPTH
from koord.base.errors import Code, KoordError

MAX_VALUES = 1_000_000

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _JSONTypesLoader(_Base):  # type: ignore[misc]
    """The safe loader without its notion of dates."""


_JSONTypesLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str, file_name: str) -> list[Any]:
    """The documents of a YAML text; empty ones are left out.

    Raises:
        KoordError: no YAML, or keys or values that JSON cannot hold.
    """
    try:
        _reject_deep_nesting(text, file_name)
        documents = [d for d in yaml.load_all(text, _JSONTypesLoader) if d is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "a syntax error"
        raise KoordError(file_name, line, problem, "YAML or JSON", Code.UNREADABLE) from None
    for document in documents:
        _reject_other_types(document, file_name)
    return documents


def _reject_deep_nesting(text: str, file_name: str) -> None:
    # The C loader recurses without a limit and would take the process down; its events do not.
    depth = 0
    for event in yaml.parse(text, _JSONTypesLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                mark = event.start_mark
                line = f"line {mark.line + 1}" if mark is not None else ""
                expected = f"at most {MAX_DEPTH} levels of nesting"
                raise KoordError(file_name, line, "a document nested deeper", expected)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _reject_other_types(document: object, file_name: str) -> None:
    # An alias may make a document contain itself, or grow without bound where it is used.
    left, seen = [document], 0
    while left:
        seen += 1
        if seen > MAX_VALUES:
            expected = f"at most {MAX_VALUES:,} values, aliases followed"
            raise KoordError(file_name, "", "a longer document", expected)
        node = left.pop()
        if isinstance(node, dict):
            for key in node:
                if not isinstance(key, str):
                    raise KoordError(file_name, "", key, "text as the key of a mapping")
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)
        elif not isinstance(node, str | int | float | bool | None):
            raise KoordError(file_name, "", node, "a value that JSON can hold")
