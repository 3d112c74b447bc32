# SPDX-License-Identifier: Apache-2.0
"""What a plugin that keeps an account gives to the consistency checker: its recount."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from koord.controllers.cluster.node_table import NodeTable

T = TypeVar("T")

SLICE = 50
"""How many pods, or things as small, a step of a recount may look at."""


class Recounting(Protocol):
    """A plugin that can count its account anew from pods and objects."""

    account: ClassVar[str]
    """What the account is of, a word in the plural: the label of what differs in metrics."""

    def recount(self) -> Iterator[str | None]:
        """Compares the account with what pods and objects say now; changes nothing.

        Each step looks at one bounded part, a node say, and gives the name of what differs there,
        or None. Between two steps anything may change.
        """
        ...


def by_row(table: NodeTable, differs: Callable[[int], bool]) -> Iterator[str | None]:
    """A recount that looks at a node a step, by row."""
    row = 0
    while row < table.size:
        if table.nodes[row] is not None:
            yield table.name(row) if differs(row) else None
        row += 1


def in_slices(
    items: Iterable[T], look: Callable[[T], str | None], size: int = SLICE
) -> Iterator[str | None]:
    """A recount that looks at some of many small things a step.

    Args:
        items: the things; a list is not to change meanwhile.
        look: the name of what differs about one, or None.
        size: how many a step.
    """
    rest = iter(items)
    while some := list(islice(rest, size)):
        # All of them before anything else may happen.
        yield from [name for name in map(look, some) if name is not None]
        yield None
