# SPDX-License-Identifier: Apache-2.0
"""Tables that share a budget, against what they may have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.bounded_table import BoundedTable, IdentityTable, SizeBudget

MOST = 1024


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 400), st.integers(1, 300)), max_size=99)
)
def test_tables_have_what_was_put_last_within_their_budget(
    puts: list[tuple[int, int, int]],
) -> None:
    budget = SizeBudget(MOST)
    tables: list[BoundedTable[int, int]] = [BoundedTable(1000, budget) for _ in range(2)]
    latest: list[dict[int, int]] = [{}, {}]
    for place, key, size in puts:
        tables[place].put(key, key, size)
        latest[place].pop(key, None)
        latest[place][key] = size
        kept = [[each for each in latest[n] if tables[n].get(each) is not None] for n in range(2)]
        for table, order, some in zip(tables, latest, kept, strict=True):
            # The oldest go first.
            assert some == list(order)[len(order) - len(some) :]
            assert table.size == sum(order[each] for each in some)
        assert budget.size == sum(table.size for table in tables)
        assert budget.size <= MOST
        assert tables[place].get(key) == key


def test_who_has_most_gives_some_at_once() -> None:
    budget = SizeBudget(25_600)
    many: BoundedTable[int, int] = BoundedTable(100_000, budget)
    few: BoundedTable[int, int] = BoundedTable(100_000, budget)
    few.put(1, 1, 1000)
    for key in range(24_601):
        many.put(key, key, 1)
    # 1 in 256 of what all may have, of which one was too much.
    assert budget.size == 25_500
    assert few.get(1) == 1
    assert many.get(100) is None
    assert many.get(101) == 101


def test_identities_that_never_come_again_are_only_sampled_until_one_does() -> None:
    table: IdentityTable[int, int] = IdentityTable(100_000, SizeBudget(MOST), SizeBudget(MOST))

    def put(keys: range) -> list[int]:
        taken = [key for key in keys if table.takes_next()]
        for key in taken:
            table.put(key, key, 1)
        return taken

    assert put(range(256)) == list(range(256))
    assert put(range(256, 1256)) == list(range(256 + 15, 1256, 16))
    # Looked for in vain, it stays so.
    assert table.get(9999) is None
    assert len(put(range(2000, 2160))) == 10
    assert table.get(271) == 271
    assert put(range(3000, 3200)) == list(range(3000, 3200))
