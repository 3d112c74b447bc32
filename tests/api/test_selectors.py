# SPDX-License-Identifier: Apache-2.0
"""Label selectors against a model that tries every set of labels."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import LabelSelector
from koord.api.kinds.meta import LabelSelectorRequirement as Requirement
from koord.api.selectors import can_overlap, check, is_empty, matches
from koord.base.errors import KoordError

KEYS, VALUES = ("k", "l"), ("a", "b", "c")
# Values beyond those a selector lists stand for all others; None for a label that is absent.
UNIVERSE = [
    {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}
    for values in product((None, *VALUES, "other"), repeat=len(KEYS))
]


def selector(rng: Random) -> LabelSelector:
    expressions = []
    for _ in range(rng.randrange(3)):
        operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        values = rng.sample(VALUES, rng.randint(1, 3)) if "In" in operator else []
        expressions.append(Requirement(rng.choice(KEYS), operator, values))
    labels = {rng.choice(KEYS): rng.choice(VALUES)} if rng.random() < 0.4 else {}
    return LabelSelector(labels, expressions)


def model_matches(selector: LabelSelector, labels: dict[str, str]) -> bool:
    if not selector.match_labels.items() <= labels.items():
        return False
    for r in selector.match_expressions:
        value = labels.get(r.key)
        verdict = {
            "In": value in r.values,
            "NotIn": value not in r.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not verdict[r.operator]:
            return False
    return True


@given(st.integers(0, 2**32 - 1))
def test_matching_agrees_with_the_model(seed: int) -> None:
    rng = Random(seed)
    some = selector(rng)
    check(some, "", "")
    for labels in UNIVERSE:
        assert matches(some, labels) == model_matches(some, labels)


@given(st.integers(0, 2**32 - 1))
def test_overlap_is_exact(seed: int) -> None:
    rng = Random(seed)
    some = [selector(rng) for _ in range(rng.randint(1, 3))]
    possible = any(all(model_matches(s, labels) for s in some) for labels in UNIVERSE)
    assert can_overlap(some) == possible


def test_null_matches_nothing_and_empty_everything() -> None:
    assert not matches(None, {"a": "b"})
    assert matches(LabelSelector(), {})
    assert is_empty(LabelSelector())
    assert not is_empty(LabelSelector({"a": "b"}))


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        (Requirement("k", "Equals", ["a"]), "f.matchExpressions[0].operator: got 'Equals'"),
        (Requirement("k", "In"), "f.matchExpressions[0].values: got [], expected one value or"),
        (Requirement("k", "Exists", ["a"]), "f.matchExpressions[0].values: got ['a'], expected no"),
        (Requirement("", "Exists"), "f.matchExpressions[0].key: got '', expected a label key"),
    ],
)
def test_what_cannot_be_evaluated(requirement: Requirement, message: str) -> None:
    with pytest.raises(KoordError) as raised:
        check(LabelSelector(match_expressions=[requirement]), "o", "f")
    assert str(raised.value).startswith(f"o: {message}")
    if requirement.operator == "Equals":
        assert not matches(LabelSelector(match_expressions=[requirement]), {"k": "a"})
