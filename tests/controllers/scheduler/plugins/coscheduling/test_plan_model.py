# SPDX-License-Identifier: Apache-2.0
"""Plans of random gangs against the plain rule; the order in which pods arrive does not matter."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.scheduler.plugins.coscheduling.gangs import GangWorld, member
from tests.models import gangs as model

NODES = st.lists(st.integers(1, 8), min_size=1, max_size=5)
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=7)


@given(NODES, SIZES, st.integers(1, 7), st.booleans(), st.randoms(use_true_random=False))
def test_a_plan_is_the_plain_one_however_pods_arrive(
    cpus: list[int], sizes: list[int], least: int, strict: bool, chance: object
) -> None:
    least = min(least, len(sizes))
    nodes = {f"n{i}": cpu for i, cpu in enumerate(cpus)}
    members = [(f"p{i}", size) for i, size in enumerate(sizes)]
    mode = "Strict" if strict else "NonStrict"
    arriving = list(members)
    chance.shuffle(arriving)  # type: ignore[attr-defined]

    async def run() -> None:
        world = GangWorld({name: str(cpu) for name, cpu in nodes.items()})
        notes = {"mode": mode}
        world.put(*(member(name, least=least, cpu=str(cpu), notes=notes) for name, cpu in arriving))
        await world.schedule()
        expected = model.plan(nodes, members, least, strict)
        assert world.where() == expected
        waiting = sorted(world.scheduler.loop.binder.waiting)
        held = sorted(f"uid-{name}" for name in expected) if len(expected) < least else []
        assert waiting == held
        table = world.world.table
        used = {table.name(row): int(table.requested[0, row]) // 1000 for row in range(len(nodes))}
        sizes_of = dict(members)
        for name in nodes:
            assert used[name] == sum(sizes_of[p] for p, node in expected.items() if node == name)
        await world.scheduler.loop.binder.close()

    asyncio.run(run())
