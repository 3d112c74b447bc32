# SPDX-License-Identifier: Apache-2.0
"""What selectors match is looked up by labels: against a look at every selector and every shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import selectors
from koord.api.codec import convert
from koord.api.kinds.meta import LabelSelector
from koord.controllers.cluster import label_index
from koord.controllers.cluster.label_index import (
    PodSelector,
    SelectorsByLabel,
    ShapesByLabel,
    tokens_of,
)

KEYS = st.sampled_from(["app", "tier", "team", ""])
VALUES = st.sampled_from(["a", "b", "c", ""])
NAMESPACES = st.sampled_from(["default", "other", "third"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
NAMED = KEYS.filter(bool)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        NAMED, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        NAMED, st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)  # fmt: skip
SELECTORS = st.none() | st.builds(
    lambda labels, expressions: _selector({"matchLabels": labels, "matchExpressions": expressions}),
    LABELS, st.lists(EXPRESSIONS, max_size=3),
)  # fmt: skip
TERMS = st.tuples(
    SELECTORS,
    st.none() | st.frozensets(NAMESPACES, max_size=2),
    st.none() | st.frozensets(NAMESPACES, max_size=2),
)
"""A selector, the namespaces that are listed, those that a further condition admits."""
Term = tuple[LabelSelector | None, frozenset[str] | None, frozenset[str] | None]


def _selector(document: dict[str, Any]) -> LabelSelector:
    return convert(document, LabelSelector, "labelSelector")


def _made(terms: list[Term]) -> PodSelector:
    """The pods that all the terms mean."""
    first, *others = (
        PodSelector(selector, namespaces, None if admitted is None else admitted.__contains__)
        for selector, namespaces, admitted in terms
    )
    for each in others:
        first = first.joined(each)
    return first


def _means(terms: list[Term], namespace: str, labels: dict[str, str]) -> bool:
    """The plain model."""
    return all(
        selectors.matches(selector, labels)
        and (namespaces is None or namespace in namespaces)
        and (admitted is None or namespace in admitted)
        for selector, namespaces, admitted in terms
    )


@given(
    shapes=st.lists(st.tuples(NAMESPACES, LABELS), max_size=12),
    wanted=st.lists(st.lists(TERMS, min_size=1, max_size=2), max_size=8),
    gone=st.sets(st.integers(0, 11)),
    dropped=st.sets(st.integers(0, 7)),
)
def test_against_a_look_at_all(
    shapes: list[tuple[str, dict[str, str]]],
    wanted: list[list[Term]],
    gone: set[int],
    dropped: set[int],
) -> None:
    by_label, kept = ShapesByLabel(), SelectorsByLabel[int]()
    made = [_made(terms) for terms in wanted]
    for number, (namespace, labels) in enumerate(shapes):
        by_label.add(number, namespace, labels)
    for number, each in enumerate(made):
        kept.add(number, each, number)
    there, there_selectors = set(range(len(shapes))), set(range(len(wanted)))
    for leave in ((set(), set()), (gone, dropped)):
        for number in sorted(there & leave[0]):
            by_label.remove(number, shapes[number][1])
        for number in sorted(there_selectors & leave[1]):
            kept.remove(number)
        there, there_selectors = there - leave[0], there_selectors - leave[1]
        for number in there_selectors:
            found = [n for n in there if _means(wanted[number], *shapes[n])]
            assert sorted(by_label.matching(made[number])) == sorted(found)
            for selector, _, _ in wanted[number]:
                assert by_label.may_have(selector) or not found
        for number in there:
            tokens = tokens_of(*shapes[number])
            found = [n for n in there_selectors if _means(wanted[n], *shapes[number])]
            # Each once, too.
            assert sorted(kept.matching(shapes[number][0], tokens)) == sorted(found)
            assert kept.may_match(*shapes[number]) or not found
    for number in there:
        by_label.remove(number, shapes[number][1])
    for number in there_selectors:
        kept.remove(number)
    assert not by_label._having
    assert not by_label._waiting
    assert not by_label._namespaces
    assert not kept._under
    assert not kept._tokens


def test_shapes_are_put_under_their_tokens_when_somebody_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_label, every = ShapesByLabel(), PodSelector(_selector({"matchLabels": {"app": "a"}}))
    for number in (1, 2):
        by_label.add(number, "default", {"app": "a"})
    by_label.remove(1, {"app": "a"})
    assert not by_label._having
    assert set(by_label.matching(every)) == {2}
    by_label.add(1, "default", {"app": "a"})
    by_label.add(3, "default", {"app": "b"})
    assert by_label.may_have(_selector({"matchLabels": {"app": "b"}}))
    assert set(by_label.matching(every)) == {1, 2}
    # Who asks does not wait for more than so many.
    monkeypatch.setattr(label_index, "_MOST_WAITING", 2)
    for number in (4, 5):
        by_label.add(number, "default", {"app": "a"})
    assert not by_label._waiting
    for number, app in ((1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a")):
        by_label.remove(number, {"app": app})
    assert not by_label._having


def test_what_nobody_has_is_known_without_a_look_at_shapes() -> None:
    by_label = ShapesByLabel()
    by_label.add(1, "default", {"app": "a"})
    assert not by_label.may_have(None)
    for operator, key, values, may_be in (
        ("In", "app", ["a", "b"], True),
        ("In", "app", ["b"], False),
        ("Exists", "app", [], True),
        ("Exists", "tier", [], False),
        ("NotIn", "app", ["a"], True),
        ("DoesNotExist", "tier", [], True),
    ):
        each = {"key": key, "operator": operator, "values": values}
        assert by_label.may_have(_selector({"matchExpressions": [each]})) is may_be
    assert by_label.may_have(_selector({"matchLabels": {"app": "a"}}))
    assert not by_label.may_have(_selector({"matchLabels": {"app": "b"}}))


@pytest.mark.parametrize(
    ("selector", "matching"),
    [
        # Kubernetes' page on labels and selectors.
        ({"matchLabels": {"environment": "production"}}, {"prod-web", "prod-api"}),
        ({"matchExpressions": [
            {"key": "environment", "operator": "In", "values": ["production", "qa"]}]},
         {"prod-web", "prod-api", "qa"}),
        ({"matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["frontend", "backend"]}]},
         {"qa", "bare"}),
        ({"matchExpressions": [{"key": "partition", "operator": "Exists"}]}, {"qa"}),
        ({"matchExpressions": [{"key": "partition", "operator": "DoesNotExist"}]},
         {"prod-web", "prod-api", "bare"}),
        ({"matchLabels": {"environment": "production"}, "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["frontend"]}]}, {"prod-api"}),
        ({}, {"prod-web", "prod-api", "qa", "bare"}),
    ],
)  # fmt: skip
def test_examples(selector: dict[str, Any], matching: set[str]) -> None:
    pods = {
        "prod-web": {"environment": "production", "tier": "frontend"},
        "prod-api": {"environment": "production", "tier": "backend"},
        "qa": {"environment": "qa", "partition": "customerA"},
        "bare": {},
    }
    by_label, names = ShapesByLabel(), list(pods)
    for number, labels in enumerate(pods.values()):
        by_label.add(number, "default", labels)
    found = by_label.matching(PodSelector(_selector(selector), ("default",)))
    assert {names[number] for number in found} == matching
    assert not by_label.matching(PodSelector(_selector(selector), ("other",)))


def test_few_selectors_are_tried_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = SelectorsByLabel[int]()
    for number in range(10_000):
        labels = {"tier": "backend", "app": f"app-{number}"}
        kept.add(number, PodSelector(LabelSelector(labels), ("default",)), number)
    tried = 0
    matches = PodSelector.matches

    def counted(selector: PodSelector, *of: Any) -> bool:
        nonlocal tried
        tried += 1
        return matches(selector, *of)

    monkeypatch.setattr(PodSelector, "matches", counted)
    tokens = tokens_of("default", {"tier": "backend", "app": "app-7000"})
    assert list(kept.matching("default", tokens)) == [7000]
    assert tried <= 4
    assert kept.may_match("default", {"tier": "backend", "app": "app-7000"})
    # A label that nobody looks for is told by itself.
    assert not kept.may_match("default", {"app": "other"})
    exists = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    kept.add("key", PodSelector(_selector(exists)), -2)
    assert kept.may_match("default", {"app": "other"})
    kept.remove("key")
    assert not kept.may_match("default", {"app": "other"})
    kept.add(-1, PodSelector(LabelSelector()), -1)
    assert kept.may_match("default", {"app": "other"})
