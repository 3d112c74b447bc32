# SPDX-License-Identifier: Apache-2.0
"""Expressions: what they give, what does not compile, how far they may go.

The cases are those of the language's own documentation and of Kubernetes' (CEL in Kubernetes).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controlplane.cel.conditions import are_met
from koord.controlplane.cel.expression import (
    MAX_CHARACTERS,
    EvaluationError,
    ExpressionError,
    compiled,
    uses,
)

SELF: dict[str, Any] = {
    "name": "a", "count": 3, "ratio": 0.5, "none": None,
    "labels": {"team": "search"}, "items": [{"n": 1}, {"n": 2}],
}  # fmt: skip


def value(text: str, self: Any = SELF) -> Any:
    return compiled(text, ("self",)).evaluate({"self": self})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("self.count + 1", 4),
        ("self.count > 2.5", True),
        ("'team' in self.labels && self.labels['team'] == 'search'", True),
        ("has(self.missing)", False),
        ("self.?missing.orValue(7)", 7),
        ("self.items.all(i, i.n > 0) && self.items.exists_one(i, i.n == 2)", True),
        ("self.items.map(i, i.n).sum()", 3),
        ("self.items.filter(i, i.n > 1).size()", 1),
        ("[3, 1].isSorted() || [1, 3].max() == 3 && [1.5, 2.0].min() == 1.5", True),
        ("self.none == null", True),
        ("1 / 0 == 1 || true", True),
        ("'a,b'.split(',').join('-') + ' %d'.format([self.count])", "a-b 3"),
        ("cel.bind(x, self.count, x * x)", 9),
        ("duration('90s') == duration('1m30s')", True),
        ("quantity('1.5Gi') == quantity('1536Mi')", True),
        ("quantity('1').add(quantity('500m')).sub(1).compareTo(quantity('0.5'))", 0),
        ("quantity('2k').isInteger() && quantity('2k').asInteger() == 2000", True),
        ("quantity('-1').sign()", -1),
        ("isQuantity('1Gi') && !isQuantity('1 Gi')", True),
        ("url('https://a.b:80/c?d=e').getHost()", "a.b:80"),
        ("url('https://a.b:80/c?d=e').getQuery()", {"d": ["e"]}),
        ("isURL('/a') && !isURL('a')", True),
        ("sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2])", True),
        ("sets.equivalent([1, 2, 2], [2, 1])", True),
        ("'abc 123'.find('[0-9]+') + 'abc'.find('[0-9]+')", "123"),
        ("'123 abc 456'.findAll('[0-9]*')", ["123", "", "", "", "", "456"]),
    ],
)
def test_values(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nope(1)", "undeclared reference to 'nope'"),
        ("semver('1.0.0')", "undeclared reference to 'semver'"),
        ("authorizer.group('')", "undeclared reference to 'authorizer'"),
        ("other.x", "undeclared reference to 'other"),
        ("1 +", "Syntax error"),
        ("1 + 'a'", "no matching overload"),
        ("(" * 200 + "1" + ")" * 200, "recursion"),
        ("'" + "a" * MAX_CHARACTERS + "'", f"expected at most {MAX_CHARACTERS}"),
    ],
)
def test_what_does_not_compile(text: str, told: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compiled(text, ("self",))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("self.missing.x == 1", "no such key: missing"),
        ("self.items[5].n == 1", "index"),
        ("self.count + self.name == 1", "no such overload"),
        ("9223372036854775807 + self.count > 0", "overflow"),
        ("self.count / (self.count - 3) == 1", "division by zero"),
        ("quantity('x').sign() == 0", "got 'x'"),
        ("quantity('1.5').asInteger() == 1", "integer"),
        ("[].max() == 1", "empty"),
        ("'a'.find('(') == ''", "Illegal regex: missing )"),
        ("self.count", "got int, expected true or false"),
    ],
)
def test_what_has_no_value(text: str, told: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        compiled(text, ("self",)).holds({"self": SELF})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_work_is_bounded() -> None:
    many = {"a": list(range(20_000))}
    with pytest.raises(EvaluationError, match="budget"):
        value("self.a.all(x, x >= 0)", many)
    with pytest.raises(EvaluationError, match="budget"):
        value("self.a.all(x, self.a.all(y, x + y >= 0))", {"a": list(range(200))})
    assert value("self.matches('^(a+)+$')", "a" * 50_000 + "b") is False
    assert value("self.find('^(a+)+$')", "a" * 50_000 + "b") == ""
    with pytest.raises(EvaluationError, match="budget"):
        value("self.findAll('a.*b|a')", "a" * 50_000)


def test_which_variables_an_expression_uses() -> None:
    assert uses("self == oldSelf", "oldSelf", ("self",))
    assert not uses("self == 'oldSelf'", "oldSelf", ("self",))


def test_one_condition_that_is_false_is_enough() -> None:
    false, broken = {"expression": "1 > 2"}, {"expression": "self.x"}
    assert not are_met([broken, false], {"self": {}}, ("self",))
    with pytest.raises(EvaluationError, match=r"expression 'self\.x' resulted in error"):
        are_met([broken, {"expression": "true"}], {"self": {}}, ("self",))
    assert are_met([], {}, ())


_AMOUNTS = st.builds(
    lambda number, suffix: (f"{number}{suffix[0]}", number * suffix[1]),
    st.integers(-10_000, 10_000),
    st.sampled_from(
        [
            ("", Fraction(1)),
            ("m", Fraction(1, 1000)),
            ("k", Fraction(1000)),
            ("Ki", Fraction(1024)),
            ("Mi", Fraction(1024**2)),
        ]
    ),
)
_COMPARED: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("quantity(self.a) == quantity(self.b)", operator.eq),
    ("quantity(self.a).isGreaterThan(quantity(self.b))", operator.gt),
    ("quantity(self.a).isLessThan(quantity(self.b))", operator.lt),
    ("quantity(self.a).add(quantity(self.b)).sign()", lambda a, b: (a + b > 0) - (a + b < 0)),
    ("quantity(self.a).sub(quantity(self.b)).isInteger()", lambda a, b: (a - b).denominator == 1),
]


@given(a=_AMOUNTS, b=_AMOUNTS)
def test_quantities_are_exact(a: tuple[str, Fraction], b: tuple[str, Fraction]) -> None:
    for text, model in _COMPARED:
        assert value(text, {"a": a[0], "b": b[0]}) == model(a[1], b[1]), text
