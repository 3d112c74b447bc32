# SPDX-License-Identifier: Apache-2.0
"""What the scene of bursts says of a pod's files was true of all of them at one moment."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scenes.experiments.burst import is_consistent, state_of

_FILES = ("pod cpu.cfs_quota_us", "one cpu.cfs_quota_us", "one cpu.cfs_burst_us",
          "pod cpu.cfs_burst_us")  # fmt: skip


class WrittenTree:
    """A pod's files, and an agent that writes some of them between two reads.

    Args:
        pause: reads before its first write.
        writes: of a file and a number each, two between two reads.
    """

    def __init__(self, pause: int, writes: list[tuple[str, int]]) -> None:
        self.files = dict(zip(_FILES, (120_000, 40_000, 0, 0), strict=True))
        self.states = [tuple(self.files.values())]
        self._pause, self._writes = pause, iter(writes)

    def number(self, directory: str, name: str) -> int:
        """One file."""
        found = self.files[f"{directory} {name}"]
        self._pause -= 1
        for file, number in islice(self._writes, 2 * (self._pause < 0)):
            self.files[file] = number
            self.states.append(tuple(self.files.values()))
        return found


@pytest.mark.parametrize("pause", range(6))
def test_a_state_is_of_one_moment(pause: int) -> None:
    """The container's up, then down again; each step is within the kernel's rules."""
    _, quota, burst, _ = _FILES
    writes = [(quota, 120_000), (burst, 80_000), (burst, 0), (quota, 40_000)]
    tree = WrittenTree(pause, writes)
    world: Any = SimpleNamespace(tree=tree)
    service: Any = SimpleNamespace(directory="pod", containers=[SimpleNamespace(directory="one")])
    for _ in range(4):
        state = state_of(world, service)
        assert tuple(state.values()) in tree.states
        assert is_consistent(state)
