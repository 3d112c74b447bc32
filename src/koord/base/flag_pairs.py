# SPDX-License-Identifier: Apache-2.0
"""Which flags of a program have no effect beside others, or without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Pair(NamedTuple):
    """Flags that have no effect beside another one, or without it.

    Attributes:
        flags: their names, as fields of the program's options.
        other: the other one, as it is typed: ``--dry-run``.
        missing: whether they need the other one; else it keeps them from having an effect.
        applies: whether that is so, of the program's options.
    """

    flags: tuple[str, ...]
    other: str
    missing: bool
    applies: Callable[[Any], bool]


def ineffective(
    pairs: Iterable[Pair], options: Any, given: Sequence[str]
) -> list[tuple[Pair, list[str]]]:
    """The given flags that have no effect, by what keeps them from it; each once.

    A switch that is off, and would be without its flag, asks for nothing and is left out.

    Args:
        pairs: the program's; of several that apply to a flag the first counts.
        options: a dataclass, all of whose fields have defaults.
        given: names of fields whose flags were given.
    """
    defaults = vars(type(options)())
    left = {
        name for name in given
        if name in defaults and (getattr(options, name), defaults[name]) != (False, False)
    }  # fmt: skip
    found = []
    for pair in pairs:
        names = [name for name in pair.flags if name in left]
        if names and pair.applies(options):
            found.append((pair, names))
            left.difference_update(names)
    return found
