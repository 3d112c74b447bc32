# SPDX-License-Identifier: Apache-2.0
"""How nf_tables names a cgroup of v2 that a socket is in or below: its level and its id.

Rule: net/netfilter/nft_socket.c; levels count from the root of the asker's cgroup namespace.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_TYPE = "cgroup2"
_MOST_LEVEL = 255


class SocketCgroup(NamedTuple):
    """One cgroup.

    Attributes:
        level: how many are above it.
        id: its number, the inode of its directory.
    """

    level: int
    id: int


def socket_cgroups(
    tree: str, directories: Iterable[str], mountinfo: str = "/proc/self/mountinfo"
) -> dict[str, SocketCgroup]:
    """Those directories that are there.

    Args:
        tree: where the cgroup tree is mounted, or a directory of it.
        directories: relative to it.
        mountinfo: mounts of this process.

    Raises:
        OSError: the tree is none of v2, or reaches above this process's cgroup namespace.
    """
    above = _level(tree, mountinfo)
    found: dict[str, SocketCgroup] = {}
    for directory in directories:
        level = above + directory.count("/") + 1
        try:
            number = Path(tree, directory).stat().st_ino
        except OSError:
            continue  # A pod that has gone, or is not made yet.
        if level <= _MOST_LEVEL:
            found[directory] = SocketCgroup(level, number)
    return found


def _level(tree: str, mountinfo: str) -> int:
    best, root = "", ""
    for line in Path(mountinfo).read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        top, place = fields.split(" ")[3:5]
        inside = place == "/" or f"{tree}/".startswith(f"{place}/")
        if rest.startswith(f"{_TYPE} ") and inside and len(place) >= len(best):
            best, root = place, top
    if not best:
        raise OSError(errno.ENOENT, f"no cgroup v2 at {tree}")
    names = [name for name in f"{root}/{tree.removeprefix(best)}".split("/") if name]
    if ".." in names:
        raise OSError(errno.EXDEV, "koordlet has a cgroup namespace of its own")
    return len(names)
