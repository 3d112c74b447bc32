# SPDX-License-Identifier: Apache-2.0
"""Label selectors as text, as URLs, flags and configuration files have them.

Grammar: ``a=b``, ``a==b``, ``a!=b``, ``a in (b,c)``, ``a notin (b,c)``, ``a``, ``!a``, ``a>1``,
``a<1``, joined by commas (apimachinery's labels.Parse). What operators mean is
:func:`koord.api.selectors.holds`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")
_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class LabelRequirement(NamedTuple):
    """One condition on one label.

    Args:
        key: of the label.
        operator: one of :data:`koord.api.selectors.NODE_OPERATORS`.
        values: what it is compared with; one for ``Gt`` and ``Lt``.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()


def parse(text: str) -> tuple[LabelRequirement, ...]:
    """The conditions of a selector; none where it says nothing.

    Raises:
        ValueError: it cannot be read; worded as a kube-apiserver does.
    """
    tokens = _tokens(text)
    requirements: list[LabelRequirement] = []
    while tokens:
        requirements.append(_requirement(tokens))
        if not tokens:
            break
        if tokens.pop(0) != ",":
            raise _unreadable("expected ',' between requirements")
        if not tokens or tokens[0] == ",":
            raise ValueError(f"found '{''.join(tokens[:1])}', expected: identifier after ','")
    return tuple(requirements)


def matches(requirements: Iterable[LabelRequirement], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy all conditions."""
    return all(selectors.holds(op, values, labels.get(key)) for key, op, values in requirements)


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(f"found '{text[at:]}'")
        tokens.append(match[1])
        at = match.end()
    return tokens


def _requirement(tokens: list[str]) -> LabelRequirement:
    first = tokens.pop(0)
    if first == "!":
        return LabelRequirement(_key(tokens.pop(0) if tokens else ""), selectors.DOES_NOT_EXIST)
    key = _key(first)
    if not tokens or tokens[0] == ",":
        return LabelRequirement(key, selectors.EXISTS)
    operator = tokens.pop(0)
    if operator in ("=", "=="):
        return LabelRequirement(key, selectors.IN, frozenset({_value(tokens)}))
    if operator == "!=":
        return LabelRequirement(key, selectors.NOT_IN, frozenset({_value(tokens)}))
    if operator == "in":
        return LabelRequirement(key, selectors.IN, _values(tokens))
    if operator == "notin":
        return LabelRequirement(key, selectors.NOT_IN, _values(tokens))
    if operator in (">", "<"):
        comparison = selectors.GREATER if operator == ">" else selectors.LESS
        return LabelRequirement(key, comparison, frozenset({_bound(key, _value(tokens))}))
    raise _unreadable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _bound(key: str, text: str) -> str:
    if selectors.integer(text) is None:
        raise _unreadable(
            f'values[0][{key}]: Invalid value: "{text}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    return text


def _key(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    good = _NAME.fullmatch(name) and (
        not slash or (_PREFIX.fullmatch(prefix) and len(prefix) < 254)
    )
    if not good:
        raise _unreadable(f"found '{text}', expected: !, identifier, or 'end of string'")
    return text


def _value(tokens: list[str]) -> str:
    if not tokens or tokens[0] == ",":
        return ""
    value = tokens.pop(0)
    if not _VALUE.fullmatch(value):
        raise _unreadable(f"found '{value}', expected: identifier")
    return value


def _values(tokens: list[str]) -> frozenset[str]:
    if not tokens or tokens.pop(0) != "(":
        raise _unreadable("expected: '('")
    values = []
    while True:
        values.append("" if tokens and tokens[0] == ")" else _value(tokens))
        if not tokens:
            raise _unreadable("expected: ',' or ')'")
        if (separator := tokens.pop(0)) == ")":
            return frozenset(values)
        if separator != ",":
            raise _unreadable(f"found '{separator}', expected: ',' or ')'")


def _unreadable(why: str) -> ValueError:
    return ValueError(f"unable to parse requirement: {why}")
