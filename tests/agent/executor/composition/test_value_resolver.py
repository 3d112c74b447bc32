# SPDX-License-Identifier: Apache-2.0
"""Claims of many owners on one tree, against the model that recomputes everything."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.agent.executor.claim import Claim, Layer
from koord.agent.executor.composition.claim_index import ClaimIndex
from koord.agent.executor.composition.value_resolver import OwnedClaim, ValueResolver, compose
from koord.agent.executor.target import BURST, CPUS, QUOTA, Target, normalised, target_of
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet
from tests.models import arbiter as model

DIRECTORIES = ["", "k", "k/p", "k/p/c", "k/p/d", "k/q"]
OWNERS = ["BatchResource", "CPUNormalization", "CPUSetAllocator", "CPUBurst", "CPUSuppress", "zeta"]
MEMORY = "memory.limit_in_bytes"
RESOURCES = [QUOTA, BURST, CPUS, MEMORY]
PAGE = 4096

quotas = st.one_of(st.just(-1), st.integers(0, 400_000))
masks = st.integers(0, 255)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    resource = draw(st.sampled_from(RESOURCES))
    layers = [Layer.SET, Layer.RAISE, Layer.CAP, *([Layer.SCALE] if resource == QUOTA else [])]
    layer = draw(st.sampled_from(layers))
    directory = draw(st.sampled_from(DIRECTORIES))
    value: Any
    if layer is Layer.SCALE:
        value = draw(st.sampled_from([0.5, 1.0, 1.1, 1.2, 1.75, 3.0]))
    elif resource == CPUS:
        value = str(CPUSet.parse_mask(f"{draw(masks):x}"))
    elif resource == BURST:
        value = draw(st.integers(0, 400_000))
    else:
        value = draw(quotas)
    return Claim(resource, directory, value, "r", layer)


statements = st.lists(
    st.tuples(st.sampled_from(OWNERS), st.sampled_from(["a", "b"]), st.lists(claims(), max_size=4)),
    max_size=5,
)


def _board(told: list[tuple[str, str, list[Claim]]]) -> ClaimIndex:
    board = ClaimIndex()
    for owner, scope, wanted in told:
        rows = []
        for claim in wanted:
            value = normalised(claim, PAGE)
            rows.append((target_of(claim), OwnedClaim(owner, scope, claim._replace(value=value))))
        board.state(owner, scope, rows)
    return board


def _for_model(told: list[tuple[str, str, list[Claim]]]) -> dict[Any, dict[Any, Any]]:
    """The last statement of each scope is what counts; of equal claims of it, the last."""
    last = {(owner, scope): wanted for owner, scope, wanted in told}
    rows: dict[Any, dict[Any, Any]] = {}
    for (owner, scope), wanted in last.items():
        for i, claim in enumerate(wanted):
            value: Any = claim.value
            if claim.resource == CPUS:
                value = model.cpus_of(str(value))
            elif claim.resource == MEMORY and value > 0:
                value -= value % PAGE
            key = (owner, f"{scope}{i:04}", claim.layer.name)
            rows.setdefault((claim.resource, claim.directory), {})[key] = value
    return rows


@st.composite
def originals(draw: st.DrawFn) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for directory in DIRECTORIES:
        found[QUOTA, directory] = draw(st.sampled_from([-1, 50_000, 200_000]))
        found[BURST, directory] = draw(st.sampled_from([0, 10_000]))
        found[MEMORY, directory] = draw(st.sampled_from([-1, 1 << 20]))
        found[CPUS, directory] = set(range(8))
    return found


@given(told=statements, original=originals())
def test_every_value_is_the_models(
    told: list[tuple[str, str, list[Claim]]], original: dict[tuple[str, str], Any]
) -> None:
    board, rows = _board(told), _for_model(told)

    def was(target: Target) -> Any:
        value = original[target.resource, target.directory]
        return str(CPUSet.from_ids(sorted(value))) if isinstance(value, set) else value

    resolver = ValueResolver(Version.V1, board.of, was, lambda target: None)
    for resource in RESOURCES:
        for directory in DIRECTORIES:
            final = resolver.final(Target(resource, directory))
            assert final is not None
            value: Any = final.value
            if resource == CPUS:
                value = model.cpus_of(str(value))
                assert value
            assert value == model.final(resource, directory, rows, original)


@given(told=statements)
def test_withdrawing_everything_leaves_nothing(told: list[tuple[str, str, list[Claim]]]) -> None:
    board = _board(told)
    for owner in OWNERS:
        for scope in board.scopes(owner):
            board.state(owner, scope, [])
    assert board.targets() == []
    assert all(not board.of(target) for target in board.dirty)


@given(told=statements)
def test_saying_the_same_again_changes_nothing(told: list[tuple[str, str, list[Claim]]]) -> None:
    board = _board(told)
    board.dirty.clear()
    last = {(owner, scope): (owner, scope, wanted) for owner, scope, wanted in told}
    for owner, scope, wanted in last.values():
        rows = [
            (target_of(c), OwnedClaim(owner, scope, c._replace(value=normalised(c, PAGE))))
            for c in wanted
        ]
        board.state(owner, scope, rows)
    assert board.dirty == set()


def test_examples_of_layers() -> None:
    def of(owner: str, value: float | str, layer: Layer, resource: str = QUOTA) -> OwnedClaim:
        return OwnedClaim(owner, "s", Claim(resource, "d", value, owner, layer))

    scale = of("CPUNormalization", 1.2, Layer.SCALE)
    made = compose(QUOTA, [scale, of("CPUNormalization", 100000, Layer.SET)], None)
    assert made is not None
    assert made.value == 83334
    # No limit stays no limit under a ratio, is above every burst and below every cap.
    everything = [
        of("CPUSetAllocator", -1, Layer.SET),
        scale,
        of("CPUBurst", 300000, Layer.RAISE),
    ]
    made = compose(QUOTA, everything, None)
    assert made is not None
    assert made.value == -1
    made = compose(QUOTA, [*everything, of("CPUSuppress", 40000, Layer.CAP)], None)
    assert made is not None
    assert (made.value, made.reason) == (40000, "CPUSuppress")
    assert compose(QUOTA, [of("CPUBurst", 5, Layer.RAISE)], None) is None
    made = compose(CPUS, [of("x", "6-7", Layer.CAP, CPUS)], "0-3")
    assert made is not None
    assert made.value == "6-7"


def test_on_v2_a_quota_above_its_parents_stays() -> None:
    board = _board([("a", "s", [Claim(QUOTA, "k", 10000, "r"), Claim(QUOTA, "k/p", 50000, "r")])])
    resolver = ValueResolver(Version.V2, board.of, lambda t: None, lambda t: None)
    final = resolver.final(Target(QUOTA, "k/p"))
    assert final is not None
    assert final.value == 50000


def test_what_nobody_claims_still_bounds() -> None:
    board = _board([("a", "s", [Claim(QUOTA, "k/p", 50000, "r"), Claim(CPUS, "k/p", "0-3", "r"),
                                Claim(BURST, "k/q", 9000, "r")])])  # fmt: skip
    held = {Target(QUOTA, "k"): 20000, Target(CPUS, "k"): "2-5", Target(QUOTA, "k/q"): 4000}
    resolver = ValueResolver(Version.V1, board.of, lambda t: None, held.get)
    values = [resolver.final(Target(r, d)) for r, d in ((QUOTA, "k/p"), (CPUS, "k/p"))]
    assert [final.value for final in values if final] == [20000, "2-3"]
    burst = resolver.final(Target(BURST, "k/q"))
    assert burst is not None
    assert burst.value == 4000
