# SPDX-License-Identifier: Apache-2.0
"""Names in slo-controller-config that nobody reads, with the known one that was most likely meant.

A document may have any number of them: the likely meaning is looked up for the first few, and of
names that a person may have typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.casefold import unknown_keys
from koord.api.sloconfig.sections import SECTIONS, NodeItem, Section
from koord.base.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_GUESSES = 32
_LONGEST_NAME = 64
_SUFFIX = "-config"


class Unknown(NamedTuple):
    """A name that has no effect.

    Args:
        path: where it stands, itself included.
        name: as it is written.
        meant: the name or path that would be right; empty where none is like it.
    """

    path: str
    name: str
    meant: str


def unknown_sections(keys: Iterable[str]) -> list[Unknown]:
    """The data keys of a ConfigMap that are no section of koord's, by name."""
    stems = [key.removesuffix(_SUFFIX) for key in SECTIONS]
    found = []
    for at, key in enumerate(sorted(set(keys) - SECTIONS.keys())):
        guess = _nearest(key.removesuffix(_SUFFIX), stems) if at < _MOST_GUESSES else ""
        found.append(Unknown(f"data.{key}", key, guess and guess + _SUFFIX))
    return found


def unknown_fields(section: Section, top: dict[str, Any]) -> list[Unknown]:
    """The names in a section that no field takes, in the order in which they stand there.

    Args:
        section: which.
        top: its document, the names of its levels spelled as they should be.
    """
    found = []
    for at, (path, name, known) in enumerate(_fields(section, top)):
        meant = _nearest(name, known) if at < _MOST_GUESSES else ""
        found.append(Unknown(f"data.{section.key}.{path}", name, meant))
    return found


def unknown_in(document: Any, kind: Any, path: str) -> list[Unknown]:
    """The names in any document that its type has no fields for.

    Args:
        document: a parsed JSON document.
        kind: the type it is going to be converted to.
        path: where it stands.
    """
    found = []
    for at, (where, name, known) in enumerate(unknown_keys(document, kind)):
        meant = _nearest(name, known) if at < _MOST_GUESSES else ""
        found.append(Unknown(f"{path}.{where}", name, meant))
    return found


def _fields(section: Section, top: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """Path, name, and the names that would be right."""
    own = [section.nodes_field]
    rest = {key: value for key, value in top.items() if key != section.nodes_field}
    if section.cluster_field:
        own.append(section.cluster_field)
        cluster = rest.pop(section.cluster_field, {})
        yield from unknown_keys(cluster, section.strategy, section.cluster_field)
        # A field of the strategy that stands outside it is the likeliest mistake of all.
        inner = {name.casefold(): name for name in section.field_names}
        for key in rest:
            meant = inner.get(key.casefold())
            yield key, key, own if meant is None else [f"{section.cluster_field}.{meant}"]
    else:
        for path, name, known in unknown_keys(rest, section.strategy):
            yield path, name, known if "." in path else known + own
    for index, item in enumerate(top.get(section.nodes_field, [])):
        yield from _in_item(section, item, f"{section.nodes_field}[{index}]")


def _in_item(section: Section, item: Any, path: str) -> Iterator[tuple[str, str, list[str]]]:
    if not isinstance(item, dict):
        return
    own = {key: value for key, value in item.items() if key.casefold() in _ITEM_NAMES}
    yield from unknown_keys(own, NodeItem, path)
    rest = {key: value for key, value in item.items() if key not in own}
    for where, name, known in unknown_keys(rest, section.strategy, path):
        outermost = where == f"{path}.{name}"
        yield where, name, known + list(_ITEM_NAMES.values()) if outermost else known


def _nearest(name: str, known: list[str]) -> str:
    if len(known) == 1 and known[0].rpartition(".")[2].casefold() == name.casefold():
        return known[0]
    return (nearest(name, known) or "") if len(name) <= _LONGEST_NAME else ""


_ITEM_NAMES = {"name": "name", "nodeselector": "nodeSelector"}
