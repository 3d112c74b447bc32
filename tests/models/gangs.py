# SPDX-License-Identifier: Apache-2.0
"""One pass over one gang, by the letter: the freest node first, all that is needed or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def plan(
    nodes: Mapping[str, int], members: Sequence[tuple[str, int]], least: int, strict: bool
) -> dict[str, str]:
    """Where each pod goes.

    Args:
        nodes: CPUs by name.
        members: names and CPUs, in the gang's order.
        least: how many must have a node.
        strict: whether they give it back if fewer have.
    """
    free = dict(nodes)
    placed: dict[str, str] = {}
    while True:
        before = len(placed)
        for name, cpu in members:
            fits = [node for node in sorted(free) if free[node] >= cpu]
            if name in placed or not fits:
                continue
            node = max(fits, key=lambda each: (free[each] - cpu) * 100 // max(nodes[each], 1))
            free[node] -= cpu
            placed[name] = node
        if len(placed) == before:
            break
    return placed if len(placed) >= least or not strict else {}
