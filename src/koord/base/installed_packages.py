# SPDX-License-Identifier: Apache-2.0
"""What installers leave beside packages: their versions, and whether any brings plugins.

``importlib.metadata`` loads readers of archives, tables and mail, a megabyte of a node agent that
mostly finds no plugin. It is asked only where names and files alone do not tell.

Rules: https://packaging.python.org/en/latest/specifications/recording-installed-packages/ (a folder
``NAME-VERSION.dist-info``) and .../specifications/entry-points/ (its ``entry_points.txt``).
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.metadata import EntryPoint

_OWN = re.compile(r"koord-([^-]+)\.dist-info")
_RECORDS = ("*.dist-info", "*.egg-info")


def koord_version() -> str:
    """The version of koord that is installed; 0 where none is, as in a bare checkout."""
    versions = (_OWN.fullmatch(each.name) for place in sys.path for each in _records(place))
    return next((found[1] for found in versions if found), "0")


def plugins(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group in all installed packages.

    koord's own need not be among them: each component knows its own without.
    """
    if not _may_have(group):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_have(group: str) -> bool:
    """Whether a package other than koord names the group, or is where only Python can look."""
    if any(hasattr(f, "find_distributions") for f in sys.meta_path if f is not PathFinder):
        return True
    heading = f"[{group}]"
    return any(_is_archive(place) or heading in _entries(place) for place in sys.path)


def _is_archive(place: str) -> bool:
    return place.endswith(".egg") or Path(place).is_file()


def _entries(place: str) -> str:
    """All that packages of a folder say in ``entry_points.txt``; koord's own is left out."""
    texts = []
    for record in _records(place):
        file = record / "entry_points.txt"
        if not _OWN.fullmatch(record.name) and file.is_file():
            texts.append(file.read_text(encoding="utf-8", errors="replace"))
    return "\n".join(texts)


def _records(place: str) -> Iterator[Path]:
    for pattern in _RECORDS:
        yield from Path(place).glob(pattern)
