# SPDX-License-Identifier: Apache-2.0
"""Files that people write, as plain documents: UTF-8 text, YAML or JSON, with bounds on both.

YAML is read as Kubernetes reads it: JSON's types only, so that a timestamp stays the text it is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Document = dict[str, Any]
"""A JSON object as plain values: dicts, lists, text, numbers, booleans and None."""

# Deeper than any real object, and shallow enough for every function that walks a document.
MAX_DEPTH = 100
MAX_VALUES = 1_000_000

# What PyYAML raises on odd tags and values, such as `!!timestamp x`, beside its own errors.
_YAML_FAULTS = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte order mark.

    Raises:
        KoordError: the file cannot be read, or is no UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KoordError.wrap(str(path), "", error) from None
    return decode_text(data, str(path))


def read_one(path: Path) -> object:
    """The document of a YAML or JSON file that has one; None for an empty file.

    Raises:
        KoordError: the file cannot be read, is neither, or has several documents.
    """
    documents = parse_documents(read_text(path), str(path))
    if len(documents) > 1:
        raise KoordError(str(path), "", f"{len(documents)} documents", "one document")
    return documents[0] if documents else None


def decode_text(data: bytes, source: str) -> str:
    """What :func:`read_text` does with bytes from elsewhere; ``source`` is for errors."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise KoordError(source, "", "bytes that are no UTF-8", "UTF-8 text") from None


def parse_documents(text: str, source: str) -> list[Any]:
    """The documents of a YAML or JSON text; empty ones are left out.

    Args:
        text: one JSON document, or any number of YAML ones.
        source: what the text is, for errors.

    Raises:
        KoordError: neither, keys or values that JSON cannot hold, deeper than :data:`MAX_DEPTH`,
            or of more than :data:`MAX_VALUES` values once YAML's aliases are followed.
    """
    documents = _json_document(text) or _yaml_documents(text, source)
    for document in documents:
        _check_values(document, source)
    return documents


def _json_document(text: str) -> list[Any]:
    """The document of JSON text; nothing for other text, which may be YAML in flow style.

    YAML is not quite a superset: it has other numbers, and no surrogate pairs.
    """
    if not text.lstrip().startswith(("{", "[")):
        return []
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []


def _yaml_documents(text: str, source: str) -> list[Any]:
    import yaml

    try:
        _check_events(yaml.parse(text, yaml_loader()), source)
        return [d for d in yaml.load_all(text, yaml_loader()) if d is not None]
    except (yaml.YAMLError, *_YAML_FAULTS) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "a syntax error"
        raise KoordError(source, _line(mark), problem, "YAML or JSON", Code.UNREADABLE) from None


@cache
def yaml_loader() -> Any:
    """PyYAML's safe loader, without its notion of dates."""
    # Importing PyYAML takes longer than most programs need for all they do with a document.
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in base.yaml_implicit_resolvers.items()
    }
    return type("_JSONTypesLoader", (base,), {"yaml_implicit_resolvers": resolvers})


def _check_events(events: Iterator[Any], source: str) -> None:
    """Refuses what must not reach the loader.

    It recurses in C without a limit, which takes the process down, and copies the keys of a merged
    mapping wherever it is merged, which ten lines can make exhaust the memory. Its events are flat.
    """
    import yaml

    sizes: dict[str | None, int] = {}  # by anchor, aliases inside followed
    # Of the text as a whole and of the collections that are open:
    counts: list[int] = [0]
    anchors: list[str | None] = [None]
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            sizes = {}
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in anchors:
                raise KoordError(source, _line(event.start_mark), f"*{event.anchor}",
                                 "an alias of a value that does not contain it")  # fmt: skip
            counts[-1] += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            counts[-1] += 1
            sizes.pop(event.anchor, None)
        elif isinstance(event, yaml.CollectionStartEvent):
            counts.append(1)
            anchors.append(event.anchor)
            if len(anchors) > MAX_DEPTH + 1:
                raise _too_deep(source, _line(event.start_mark))
        elif isinstance(event, yaml.CollectionEndEvent):
            size = counts.pop()
            counts[-1] += size
            sizes[anchors.pop()] = size
        if counts[-1] > MAX_VALUES:
            expected = f"at most {MAX_VALUES:,} values, aliases followed"
            raise KoordError(source, _line(event.start_mark), "a longer document", expected)


def _check_values(document: object, source: str) -> None:
    left = [(document, 0)]
    while left:
        node, depth = left.pop()
        if isinstance(node, dict | list) and depth == MAX_DEPTH:
            raise _too_deep(source)
        if isinstance(node, dict):
            for key in node:
                if not isinstance(key, str):
                    raise KoordError(source, "", key, "text as the key of a mapping")
            left.extend((value, depth + 1) for value in node.values())
        elif isinstance(node, list):
            left.extend((value, depth + 1) for value in node)
        elif not isinstance(node, str | int | float | bool | None):
            raise KoordError(source, "", node, "a value that JSON can hold")


def _too_deep(source: str, line: str = "") -> KoordError:
    expected = f"at most {MAX_DEPTH} levels of nesting"
    return KoordError(source, line, "a document nested deeper", expected)


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}" if mark is not None else ""
