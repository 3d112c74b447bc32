# SPDX-License-Identifier: Apache-2.0
"""What installed packages have for koord, and koord's own version.

importlib.metadata tells both, and brings parsers of tables and archives: a megabyte, which an agent
on every node can do without as long as no other package has anything for it. Whether one has is
seen by looking for the group's name in the folders that Python imports from.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.metadata import EntryPoint

_OWN = "koord-"
_INFO = ".dist-info"
_KINDS = (_INFO, ".egg-info", "egg-info")
_UNKNOWN = "0"


def other_entry_points(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group; nothing where no package but koord has any.

    Args:
        group: such as ``koord.agent.hooks``.

    Returns:
        Those of all packages, koord's own too, once another has one.
    """
    if not _others_may_have(group):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def koord_version() -> str:
    """The installed version; ``0`` where koord is imported without being installed."""
    for folder in sys.path:
        for name in _metadata_folders(folder):
            if name.startswith(_OWN) and name.endswith(_INFO):
                return name.removeprefix(_OWN).removesuffix(_INFO)
    return _UNKNOWN


def _others_may_have(group: str) -> bool:
    """Whether importlib.metadata is to be asked: also where a package may lie in no folder."""
    finders = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in finders):
        return True
    return any(_mentions(folder, group.encode()) for folder in sys.path)


def _mentions(folder: str, group: bytes) -> bool:
    if os.path.isfile(folder):  # noqa: PTH113 (an archive, which is no business of ours)
        return True
    return any(
        group in _entry_points_text(Path(folder, name))
        for name in _metadata_folders(folder)
        if not name.startswith(_OWN)
    )


def _metadata_folders(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder or ".") as entries:
            yield from (each.name for each in entries if each.name.lower().endswith(_KINDS))
    except OSError:
        return


def _entry_points_text(folder: Path) -> bytes:
    try:
        return (folder / "entry_points.txt").read_bytes()
    except OSError:
        return b""
