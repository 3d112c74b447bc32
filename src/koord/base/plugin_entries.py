# SPDX-License-Identifier: Apache-2.0
"""Plugins of other packages: found by the group of their entry points, loaded when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.distributions import other_entry_points
from koord.base.errors import Code, KoordError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from importlib.metadata import EntryPoint


def entries_by_name(
    group: str, built_in: Collection[str], given: Iterable[EntryPoint] | None = None
) -> dict[str, EntryPoint]:
    """The entry points of a group, each under a name of its own.

    Args:
        group: such as ``koord.scheduler.plugins``.
        built_in: names that koord's own plugins have.
        given: in the place of those that are installed.

    Raises:
        KoordError: two plugins have one name.
    """
    found: dict[str, EntryPoint] = {}
    entries = other_entry_points(group) if given is None else given
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.value)):
        if entry.name in built_in or entry.name in found:
            taken = found[entry.name].value if entry.name in found else "koord"
            expected = f"a name that is not taken already by {taken}"
            raise KoordError(f"plugin {entry.value}", "name", entry.name, expected)
        found[entry.name] = entry
    return found


def require_known(name: str, known: list[str], source: str, field: str) -> None:
    """Refuses an unknown plugin; the nearest known one is named.

    Args:
        name: the plugin.
        known: all names, sorted.
        source: the file that names it, for errors.
        field: where in the file.

    Raises:
        KoordError: it is none of them.
    """
    if name not in known:
        guess = nearest(name, known)
        hint = f"a known plugin, such as {guess}" if guess else "one of " + ", ".join(known)
        raise KoordError(source, field, name, hint, Code.NOT_FOUND)


def loaded(entry: EntryPoint) -> object:
    """What an entry point names.

    Raises:
        KoordError: it cannot be imported.
    """
    try:
        return entry.load()
    except Exception as error:
        # Whatever a package of somebody else's raises when it is imported.
        why = f"a class that can be imported ({type(error).__name__}: {error})"
        raise KoordError(f"plugin {entry.name}", "", entry.value, why, Code.UNREADABLE) from None
