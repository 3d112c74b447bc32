# SPDX-License-Identifier: Apache-2.0
"""Which directory of a pod is its sandbox's: the one that is no container's.

Rule: docs/reference/hooks.md#reconciler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.target import CPUS
from koord.agent.executor.writers.rooted_files import RootedFiles

if TYPE_CHECKING:
    from koord.agent.states.pod_state import PodState
    from koord.kernels.cgroup import Hierarchy


def sandbox_name(present: list[str], containers: set[str]) -> str:
    """The one directory that is left, or empty.

    Args:
        present: names of the directories in a pod's.
        containers: names of those that belong to container statuses.
    """
    left = [
        name
        for name in present
        if name not in containers and not (name.startswith("crio-") and name.endswith(".scope"))
    ]
    return left[0] if len(left) == 1 else ""


def sandbox_directory(hierarchy: Hierarchy, pod: PodState) -> str:
    """The sandbox's cgroup, relative; empty while it cannot be told apart, or is not there."""
    containers = {c.directory.rpartition("/")[2] for c in pod.containers if c.directory}
    if not containers:
        return ""
    place = hierarchy.path_of(CPUS, pod.directory).rpartition("/")[0]
    try:
        present = RootedFiles(hierarchy.path).directories(place)
    except (OSError, ValueError):
        return ""
    name = sandbox_name(present, containers)
    return f"{pod.directory}/{name}" if name else ""
