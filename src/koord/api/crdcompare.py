# SPDX-License-Identifier: Apache-2.0
"""What separates the CustomResourceDefinition that a cluster has from the one koord brings.

Descriptions do not count, nor what a server fills in by itself.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Side(StrEnum):
    """What a difference means to koord."""

    MISSING = "missing"  # the cluster lacks what koord uses
    OTHER = "other"  # both have it, and not alike
    EXTRA = "extra"  # the cluster has more than koord knows, which does no harm


class Difference(NamedTuple):
    """One difference: where, as a dotted path that begins with the version, and what it means."""

    path: str
    side: Side
    ours: Any = None
    theirs: Any = None

    def __str__(self) -> str:
        if self.side is Side.OTHER:
            return f"{self.path}: is {self.theirs!r}, not {self.ours!r}"
        return f"{self.path}: {self.side}"


# Parts of a schema that are walked by name, or that only explain.
_WALKED = {"properties", "items", "additionalProperties", "required", "description", "title"}
_NAMES = ("kind", "plural", "singular", "listKind")


def compare(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Difference]:
    """The differences of two definitions of one name, in the order of ours.

    Args:
        ours: the definition koord brings.
        theirs: the one the cluster has.
    """
    return list(_compare(ours["spec"], theirs.get("spec", {})))


def _compare(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for name in ("group", "scope"):
        yield from _values(name, ours.get(name), theirs.get(name))
    names, their_names = ours["names"], theirs.get("names", {})
    for name in _NAMES:
        yield from _values(f"names.{name}", names.get(name), their_names.get(name))
    short = (names.get("shortNames", []), their_names.get("shortNames", []))
    yield from _members("names.shortNames", *short)
    own = {version["name"]: version for version in ours["versions"]}
    other = {version["name"]: version for version in theirs.get("versions", [])}
    yield from _members("", own, other)
    for name in own.keys() & other.keys():
        yield from _version(name, own[name], other[name])


def _version(name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for field in ("served", "storage"):
        yield from _values(f"{name}.{field}", ours.get(field), theirs.get(field))
    path = f"{name}.subresources"
    yield from _members(path, ours.get("subresources", {}), theirs.get("subresources", {}))
    own, other = (
        {
            column["name"]: column["jsonPath"]
            for column in version.get("additionalPrinterColumns", [])
        }
        for version in (ours, theirs)
    )
    path = f"{name}.columns"
    yield from _members(path, own, other)
    for column in [each for each in own if each in other]:
        yield from _values(f"{path}.{column}", own[column], other[column])
    schemas = (version.get("schema", {}).get("openAPIV3Schema", {}) for version in (ours, theirs))
    yield from _schema(name, *schemas)


def _schema(path: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for keyword in sorted((ours.keys() | theirs.keys()) - _WALKED):
        yield from _values(f"{path}.{keyword}", ours.get(keyword), theirs.get(keyword))
    required = (sorted(schema.get("required", [])) for schema in (ours, theirs))
    yield from _values(f"{path}.required", *required)
    own, other = ours.get("properties", {}), theirs.get("properties", {})
    yield from _members(path, own, other)
    for name in [each for each in own if each in other]:
        yield from _schema(f"{path}.{name}", own[name], other[name])
    for inner in ("items", "additionalProperties"):
        one, two = ours.get(inner), theirs.get(inner)
        if isinstance(one, dict) and isinstance(two, dict):
            yield from _schema(f"{path}[]", one, two)
        else:
            yield from _values(f"{path}.{inner}", one, two)


def _values(path: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    if ours != theirs:
        yield Difference(path, Side.OTHER, ours, theirs)


def _members(path: str, ours: Iterable[str], theirs: Iterable[str]) -> Iterator[Difference]:
    prefix = f"{path}." if path else ""
    own, other = list(ours), list(theirs)
    for name in own:
        if name not in other:
            yield Difference(prefix + name, Side.MISSING)
    for name in other:
        if name not in own:
            yield Difference(prefix + name, Side.EXTRA)
