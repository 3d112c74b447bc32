# SPDX-License-Identifier: Apache-2.0
"""Tables in native form say what the functions over mappings say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels import numa
from koord.kernels.numa import CpuBinding, Frame, Scorer, TopologyPolicy, Zones

NAMES = ("cpu", "memory", "example.com/x")
IDS = (0, 3, 7)


def tables(low: int) -> st.SearchStrategy[dict[int, dict[str, int]]]:
    amounts = st.integers(low, 8).map(lambda number: number * 1000)
    rows = st.dictionaries(st.sampled_from(NAMES), amounts)
    return st.fixed_dictionaries(dict.fromkeys(IDS, rows))


REQUESTS = st.dictionaries(
    st.sampled_from([*NAMES, "other"]), st.integers(0, 9).map(lambda number: number * 1000)
)


def framed(total: dict[int, dict[str, int]]) -> Frame:
    return Frame(Zones(IDS), {name for row in total.values() for name in row})


@given(tables(-1), tables(0), tables(0), st.sampled_from([1.0, 1.5]), st.integers(0, 3))
def test_what_is_left(
    total: dict[int, dict[str, int]],
    used: dict[int, dict[str, int]],
    back: dict[int, dict[str, int]],
    ratio: float,
    bound: int,
) -> None:
    frame = framed(total)
    counts = {3: bound}
    got = frame.table(total).available(
        frame.table(used), frame.table(back), bound_cpus=counts, cpu_ratio=ratio
    )
    want = numa.available(total, used, reusable=back, bound_cpus=counts, cpu_ratio=ratio)
    # What no zone has in all is beyond the frame.
    named = {
        zone: {name: amount for name, amount in row.items() if name in frame.names}
        for zone, row in want.items()
    }
    assert got.amounts() == named
    for name in frame.names:
        assert got.of(name) == {zone: row.get(name, 0) for zone, row in named.items()}
    assert got.of("nobody's") is None


@given(tables(0), REQUESTS, st.booleans(), st.booleans())
def test_spreading_and_hints(
    total: dict[int, dict[str, int]], requests: dict[str, int], binds: bool, required: bool
) -> None:
    table = framed(total).table(total)
    needed = requests.get("cpu", 0) // 1000
    cpus = CpuBinding(needed, {0: 2, 3: 4, 7: 1}, required) if binds else None
    got = table.distribute(requests, (0, 7), cpus)
    want = numa.distribute(total, requests, (0, 7), cpus=cpus)
    assert (got.by_zone, got.insufficient) == (want.by_zone, want.insufficient)
    judged = table.capped(cpus) if cpus is not None else table
    scorer = Scorer()
    pools = [(table, cpus)]
    hints = table.hints(judged, requests, TopologyPolicy.RESTRICTED, pools, scorer=scorer)
    plain = numa.generate_hints(
        total,
        judged.amounts(),
        requests,
        TopologyPolicy.RESTRICTED,
        pools=[numa.Pool(total, cpus)],
        scorer=scorer,
    )
    assert {k: list(v) for k, v in hints.items()} == {k: list(v) for k, v in plain.items()}


def test_zones_beyond_the_frame_are_errors() -> None:
    frame = Frame(Zones([0, 1]), ["cpu"])
    with pytest.raises(KeyError):
        frame.table({2: {"cpu": 1}})
    with pytest.raises(ValueError, match="cpu: got"):
        frame.table({0: {"cpu": 1 << 70}})
