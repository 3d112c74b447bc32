# SPDX-License-Identifier: Apache-2.0
"""What In, NotIn, Exists, DoesNotExist, Gt and Lt mean, written out, and everyone who asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import selectors
from koord.api.kinds.constraints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from koord.api.kinds.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.pod import PodSpec
from koord.controllers.cluster import node_selectors
from koord.controllers.scheduler.plugins.reservation.objects import node_selector_terms
from koord.controlplane.controllers.base import constraints
from koord.controlplane.kinds.validation import workload_spec
from koord.controlplane.requests import selectors as texts

_CASES = [
    # operator, values, value of the label (None: there is none), whether it holds
    ("In", ["a", "b"], "a", True),
    ("In", ["a", "b"], "c", False),
    ("In", ["a"], None, False),
    ("In", [""], "", True),
    ("In", [""], None, False),
    ("NotIn", ["a", "b"], "a", False),
    ("NotIn", ["a", "b"], "c", True),
    ("NotIn", ["a"], None, True),
    ("NotIn", [""], "", False),
    ("NotIn", [""], None, True),
    ("Exists", [], "a", True),
    ("Exists", [], "", True),
    ("Exists", [], None, False),
    ("DoesNotExist", [], "a", False),
    ("DoesNotExist", [], "", False),
    ("DoesNotExist", [], None, True),
    ("Gt", ["5"], "6", True),
    ("Gt", ["5"], "5", False),
    ("Gt", ["5"], "10", True),
    ("Gt", ["5"], "+6", True),
    ("Gt", ["5"], "0000000000000000000000006", True),
    ("Gt", ["5"], "6.5", False),
    ("Gt", ["5"], "1_0", False),
    ("Gt", ["5"], " 6", False),
    ("Gt", ["5"], "\u0666", False),
    ("Gt", ["5"], "9223372036854775807", True),
    ("Gt", ["5"], "9223372036854775808", False),
    ("Gt", ["5"], "many", False),
    ("Gt", ["5"], None, False),
    ("Lt", ["5"], "4", True),
    ("Lt", ["5"], "5", False),
    ("Lt", ["5"], "-9223372036854775808", True),
    ("Lt", ["5"], "-9223372036854775809", False),
    ("Lt", ["5"], "", False),
    ("Lt", ["5"], None, False),
]


def labels_of(value: str | None) -> dict[str, str]:
    return {"other": "1"} if value is None else {"k": value, "other": "1"}


def node_selector(operator: str, values: list[str]) -> list[NodeSelectorTerm]:
    requirement = NodeSelectorRequirement("k", operator, values)
    return [NodeSelectorTerm(match_expressions=[requirement])]


@pytest.mark.parametrize(("operator", "values", "value", "right"), _CASES)
def test_what_a_requirement_wants(
    operator: str, values: list[str], value: str | None, right: bool
) -> None:
    assert selectors.holds(operator, values, value) is right


@pytest.mark.parametrize(("operator", "values", "value", "right"), _CASES)
def test_everyone_who_asks_has_the_same_answer(
    operator: str, values: list[str], value: str | None, right: bool
) -> None:
    labels, found = labels_of(value), node_selector(operator, values)
    assert node_selector_terms.match(found, labels, "r") is right
    condition = node_selectors.label_predicate(found[0].match_expressions[0])
    node = Node(metadata=ObjectMeta(name="n", labels=labels))
    assert not isinstance(condition, str)
    assert condition.node(node) is right
    required = NodeAffinity(NodeSelector(found))
    spec = PodSpec(affinity=Affinity(node_affinity=required))
    assert constraints.selects(spec, node) is right
    if operator in selectors.OPERATORS:
        document = {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}
        assert workload_spec.matches(document, labels) is right
        requirement = LabelSelectorRequirement("k", operator, values)
        assert selectors.matches(LabelSelector(match_expressions=[requirement]), labels) is right


def test_label_selectors_know_no_comparison_and_terms_that_say_nothing_match_nothing() -> None:
    for operator in ("Gt", "Lt", "in", ""):
        requirement = LabelSelectorRequirement("k", operator, ["1"])
        selector = LabelSelector(match_expressions=[requirement])
        assert not selectors.matches(selector, {"k": "2"})
        assert not selectors.matches(selector, {"k": "0"})
    # No label has such a value, and so no selector may ask for it.
    assert selectors.holds("Gt", ["-5"], "-4")
    assert isinstance(
        node_selectors.label_predicate(NodeSelectorRequirement("k", "Gt", ["-5"])), str
    )
    assert not selectors.holds("Gt", [], "1")
    assert not selectors.holds("Gt", ["1", "2"], "3")
    assert not selectors.holds("Gt", ["x"], "3")
    assert not selectors.matches_terms([], {}, {})
    assert not selectors.matches_terms([NodeSelectorTerm()], {}, {})


def test_terms_are_alternatives_and_their_requirements_are_not() -> None:
    one = NodeSelectorRequirement("zone", "In", ["a"])
    named = NodeSelectorRequirement("metadata.name", "In", ["n1"])
    both = NodeSelectorTerm(match_expressions=[one], match_fields=[named])
    other = NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("gpu", "Exists")])
    for labels, name, right in (
        ({"zone": "a"}, "n1", True),
        ({"zone": "a"}, "n2", False),
        ({"zone": "b"}, "n1", False),
        ({"zone": "b", "gpu": ""}, "n2", True),
    ):
        assert selectors.matches_terms([both, other], labels, {"metadata.name": name}) is right


_TEXTS = {
    "In": "k in ({})", "NotIn": "k notin ({})", "Exists": "k", "DoesNotExist": "!k",
    "Gt": "k > {}", "Lt": "k < {}",
}  # fmt: skip
_VALUES = st.sampled_from(("a", "b", "1", "10", "007", "x1", "99999999999999999999"))


@given(
    operator=st.sampled_from(selectors.NODE_OPERATORS),
    values=st.lists(_VALUES, min_size=1, max_size=3),
    bound=st.integers(-20, 20).map(abs),
    value=st.none() | _VALUES,
)
def test_selectors_written_as_text_are_compiled_from_the_same_rule(
    operator: str, values: list[str], bound: int, value: str | None
) -> None:
    if operator in ("Gt", "Lt"):
        values = [str(bound)]
    compiled = texts.labels(_TEXTS[operator].format(",".join(values)))
    assert compiled is not None
    assert compiled(labels_of(value)) is selectors.holds(operator, values, value)
    if operator in ("In", "NotIn"):
        sign = "=" if operator == "In" else "!="
        equal = texts.labels(f"k{sign}{values[0]}")
        assert equal is not None
        assert equal(labels_of(value)) is selectors.holds(operator, values[:1], value)
