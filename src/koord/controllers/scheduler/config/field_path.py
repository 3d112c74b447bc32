# SPDX-License-Identifier: Apache-2.0
"""Checks of configuration values: a refusal names file, field, value and what would be right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
)
_KUBERNETES = "kubernetes.io"


class FieldPath(NamedTuple):
    """A place in a configuration file.

    Args:
        source: the file, or what else the configuration is called.
        path: of the field, ``""`` for the whole.
    """

    source: str
    path: str = ""

    def inside(self, *parts: object) -> FieldPath:
        """A field of the value here, or an item of the list."""
        path = self.path
        for part in parts:
            text = f"[{part}]" if isinstance(part, int) else str(part)
            path += text if isinstance(part, int) or not path else f".{text}"
        return FieldPath(self.source, path)

    def refuse(self, value: object, expected: str) -> NoReturn:
        """Raises a KoordError about the value here."""
        raise KoordError(self.source, self.path, value, expected)

    def need(self, holds: bool, value: object, expected: str) -> None:
        """Refuses the value unless it holds."""
        if not holds:
            self.refuse(value, expected)

    def between(self, value: int, low: int, high: int) -> None:
        """Refuses a number outside of a range."""
        self.need(low <= value <= high, value, f"an integer from {low} to {high}")

    def at_least(self, value: int, low: int) -> None:
        """Refuses a number that is too small."""
        self.need(value >= low, value, f"an integer of {low} or more")

    def one_of(self, value: str, choices: Iterable[str]) -> None:
        """Refuses a word that is no choice."""
        known = tuple(choices)
        self.need(value in known, value, "one of " + ", ".join(known))

    def all_between(self, amounts: Mapping[str, int], low: int, high: int) -> None:
        """Refuses the first number of a map that is outside of a range."""
        for name, value in amounts.items():
            self.inside(f'"{name}"').between(value, low, high)

    def distinct(self, keys: Iterable[Any], what: str) -> None:
        """Refuses a list in which a key comes twice."""
        seen = set()
        for index, key in enumerate(keys):
            if key in seen:
                self.inside(index).refuse(key, f"every {what} once")
            seen.add(key)

    def qualified_name(self, name: str) -> None:
        """Refuses what is no label key or resource name: ``[domain/]name``."""
        prefix, slash, last = name.rpartition("/")
        ok = _NAME.fullmatch(last) and (not slash or _DOMAIN.fullmatch(prefix))
        self.need(bool(ok), name, "a name such as cpu or example.com/gpu")

    def extended_resource(self, name: str) -> None:
        """Refuses names of native resources, and of kubernetes.io."""
        self.qualified_name(name)
        native = "/" not in name or f"{_KUBERNETES}/" in name
        expected = "the name of an extended resource, such as example.com/gpu"
        self.need(not native and not name.startswith("requests."), name, expected)

    def resource_group(self, group: str) -> None:
        """Refuses what cannot be the domain of an extended resource."""
        ok = "/" not in group and _DOMAIN.fullmatch(group) and not group.endswith(_KUBERNETES)
        expected = "a domain without / that is not kubernetes.io, such as example.com"
        self.need(bool(ok), group, expected)
