# SPDX-License-Identifier: Apache-2.0
"""What is said again costs nothing, and takes nothing away from what an executor looks after."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.executor.claim import Claim, Layer
from koord.kernels.cgroup import Write, Written
from tests.agent.executor.rig import BURST, CPUS, MEMORY, QUOTA, SHARES, Rig, quick_directory, want

POD, ONE, TWO = "kubepods", "kubepods/one", "kubepods/two"
OWNER = "BatchResource"


@pytest.fixture
def rig(tmp_path) -> Rig:
    return Rig(tmp_path, [POD, ONE, TWO])


def _looked_at(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Resources of the single files that are read from now on."""
    read: list[str] = []
    text = rig.kernel.text
    monkeypatch.setattr(rig.kernel, "text", lambda r, d: (read.append(r), text(r, d))[1])
    return read


def test_equal_claims_are_not_looked_at(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = [want(SHARES, ONE, 512), want(QUOTA, ONE, 50_000)]
    rig.executor.state(OWNER, "pod", claims)
    rig.settle()
    read = _looked_at(rig, monkeypatch)
    for _ in range(3):
        rig.executor.state(OWNER, "pod", [Claim(*claim) for claim in claims])
        rig.settle(1.0)
    assert read == []
    rig.executor.state(OWNER, "pod", [want(SHARES, ONE, 513), claims[1]])
    rig.settle()
    assert rig.says(SHARES, ONE) == "513"


def test_a_list_may_be_changed_after_it_was_stated(rig: Rig) -> None:
    claims = [want(SHARES, ONE, 512)]
    rig.executor.state(OWNER, "pod", claims)
    claims.append(want(SHARES, TWO, 300))
    rig.executor.state(OWNER, "pod", claims)
    rig.settle()
    assert rig.says(SHARES, TWO) == "300"


def test_what_was_forgotten_is_claimed_again_by_the_same_words(rig: Rig) -> None:
    claims = [want(SHARES, ONE, 512), want(SHARES, TWO, 300)]
    rig.executor.state(OWNER, "pod", claims)
    rig.settle()
    rig.kernel.remove(ONE)
    rig.settle(61)
    rig.kernel.make(ONE)
    rig.executor.state(OWNER, "pod", claims)
    rig.settle()
    assert rig.says(SHARES, ONE) == "512"


def test_what_is_left_after_one_was_forgotten_can_be_withdrawn(rig: Rig) -> None:
    rig.executor.state(OWNER, "pod", [want(SHARES, ONE, 512), want(SHARES, TWO, 300)])
    rig.settle()
    rig.kernel.remove(ONE)
    rig.settle(61)
    rig.executor.withdraw(OWNER, "pod")
    rig.settle()
    assert rig.says(SHARES, TWO) == "1024"


def test_refused_claims_stay_refused(rig: Rig) -> None:
    for _ in range(2):
        rig.executor.state(OWNER, "pod", [want(SHARES, ONE, -7)])
        assert len(rig.executor.refused()[OWNER, "pod"]) == 1
    rig.executor.withdraw(OWNER, "pod")
    assert rig.executor.refused() == {}


def test_a_recheck_settles_only_what_differs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.executor.state(OWNER, "pod", [want(SHARES, ONE, 512), want(CPUS, ONE, "2-3")])
    rig.settle()
    asked: list[str] = []
    numbers = rig.kernel.numbers
    monkeypatch.setattr(rig.kernel, "write_leveled", lambda *_: pytest.fail("nothing differs"))
    monkeypatch.setattr(rig.kernel, "numbers", lambda r, d: (asked.append(r), numbers(r, d))[1])
    rig.executor.recheck(OWNER)
    rig.settle(1.0)
    assert set(asked) == {SHARES}


def test_the_comparison_of_all_settles_only_what_differs(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.executor.state(OWNER, "pod", [want(SHARES, ONE, 512), want(SHARES, TWO, 300)])
    rig.settle()
    written: list[str] = []
    write = rig.kernel.write_leveled

    def note(levels: Sequence[Sequence[Write]], now_seconds: float) -> list[list[Written]]:
        written.extend(each.directory for level in levels for each in level)
        return write(levels, now_seconds)

    monkeypatch.setattr(rig.kernel, "write_leveled", note)
    rig.settle(61)
    assert written == []
    rig.kernel.values[TWO, SHARES] = "77"
    rig.settle(61)
    assert written == [TWO]
    assert rig.says(SHARES, TWO) == "300"


def test_the_comparison_of_all_sees_what_nobody_claims(rig: Rig) -> None:
    """A quota stays within its parent's, whoever lowers that."""
    rig.executor.state(OWNER, "pod", [want(QUOTA, ONE, 50_000)])
    rig.settle()
    rig.kernel.values[POD, QUOTA] = "20000"
    rig.settle(61)
    assert rig.says(QUOTA, ONE) == "20000"
    rig.kernel.values[POD, QUOTA] = "-1"
    rig.settle(61)
    assert rig.says(QUOTA, ONE) == "50000"


_VALUES = {QUOTA: [20_000, 50_000, -1], BURST: [0, 5000], SHARES: [2, 512], MEMORY: [8192, -1],
           CPUS: ["0-3", "2"]}  # fmt: skip
_EDITS = {QUOTA: "10000", BURST: "0", SHARES: "77", MEMORY: "4096", CPUS: "2"}


@given(seed=st.integers(0, 2**32), edited=st.sets(st.sampled_from(sorted(_EDITS))))
def test_a_recheck_brings_back_whatever_was_edited(seed: int, edited: set[str]) -> None:
    dice = random.Random(seed)
    with quick_directory() as state:
        rig = Rig(state, [POD, ONE, TWO])
        for resource, values in _VALUES.items():
            scope = [want(resource, ONE, dice.choice(values), Layer.SET)]
            rig.executor.state(dice.choice([OWNER, "GroupIdentity"]), resource, scope)
        rig.settle()
        said = dict(rig.kernel.values)
        for resource in edited:
            rig.kernel.values[ONE, resource] = _EDITS[resource]
        rig.executor.recheck()
        rig.settle(1.0)
        assert rig.kernel.values == said


_STEPS = st.one_of(
    st.tuples(
        st.just("state"),
        st.sampled_from([OWNER, "CPUNormalization"]),
        st.sampled_from([ONE, TWO]),
        st.sampled_from([20_000, 50_000]),
        st.sampled_from([Layer.SET, Layer.CAP]),
    ),
    st.tuples(st.just("withdraw"), st.sampled_from([OWNER, "CPUNormalization"])),
    st.tuples(st.just("settle")),
    st.tuples(st.just("remove"), st.sampled_from([ONE, TWO])),
)


@given(st.lists(_STEPS, max_size=12))
def test_bases_that_are_remembered_are_those_of_now(steps: list[tuple[object, ...]]) -> None:
    with quick_directory() as state:
        rig = Rig(state, [POD, ONE, TWO])
        kept = [ONE, TWO]
        for step in steps:
            match step:
                case ("state", str(owner), str(where), int(quota), layer):
                    claim = want(QUOTA, where, quota, Layer(layer))  # type: ignore[arg-type]
                    rig.executor.state(owner, where, [claim])
                case ("withdraw", str(owner)):
                    rig.executor.withdraw(owner)
                case ("remove", str(where)):
                    rig.kernel.remove(where)
                case _:
                    rig.settle(61)
            for below in (Layer.RAISE, Layer.SCALE):
                remembered = rig.executor.bases(QUOTA, kept, below)
                assert rig.executor.bases(QUOTA, kept, below) is remembered
                assert rig.executor.bases(QUOTA, [ONE, TWO], below) == remembered
                rig.executor.bases(QUOTA, kept, below)


def test_values_of_many_are_those_of_each(rig: Rig) -> None:
    rig.executor.state(OWNER, "pod", [want(QUOTA, ONE, 50_000), want(CPUS, TWO, "2-3")])
    rig.settle()
    for resource in (QUOTA, CPUS, SHARES):
        said = rig.executor.values(resource, [ONE, TWO, "gone"])
        single = [rig.executor.current(resource, each) for each in (ONE, TWO, "gone")]
        assert [None if value is None else str(value) for value in said] == single
