# SPDX-License-Identifier: Apache-2.0
"""The cgroups of the best-effort class, found in the hierarchy rather than in the list of pods.

Sandboxes and containers that no status names yet are in them too, and on cgroup v1 no parent can be
narrower than any child.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.kernels.cgroup import Hierarchy

ROOT, PODS, CONTAINERS = 0, 1, 2
"""Depths below the directory of the class."""


def beneath(hierarchy: Hierarchy, root: str) -> list[list[str]]:
    """Directories by depth: the class's own, its pods', their containers'; each ascending.

    What is gone, or cannot be listed, is left out.
    """
    place, _, _ = hierarchy.path_of("cpuset.cpus", root).rpartition("/")
    top = f"{hierarchy.path}/{place.removesuffix(root)}"
    levels = [[root]]
    for _ in range(CONTAINERS):
        levels.append([f"{d}/{name}" for d in levels[-1] for name in _folders(f"{top}{d}")])
    return levels


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return []
