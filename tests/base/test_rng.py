# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.base.rng import derive, numpy_stream, stream


def test_a_stream_is_the_same_on_every_machine() -> None:
    assert derive(42, "arrivals") == 3403104835277070881
    assert stream(42, "arrivals").random() == stream(42, "arrivals").random()
    assert numpy_stream(42, "ranks").permutation(5).tolist() == [3, 2, 4, 0, 1]


@given(st.integers(0, 2**32), st.lists(st.text(max_size=3), max_size=3, unique=True))
def test_streams_of_different_names_differ(seed: int, names: list[str]) -> None:
    seeds = {derive(seed, name) for name in names}
    assert len(seeds) == len(names)
    assert all(0 <= value < 2**64 for value in seeds)


def test_the_seed_and_every_name_count() -> None:
    assert (
        len({derive(1, "a", "b"), derive(1, "ab"), derive(1, "b", "a"), derive(2, "a", "b")}) == 4
    )
