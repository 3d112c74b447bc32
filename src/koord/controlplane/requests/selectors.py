# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors as text, compiled to functions.

What the operators mean is :func:`koord.api.selectors.holds`; every list and watch asks the compiled
form for each object, so that it has a closure an operator.

Grammar of labels: ``a=b``, ``a==b``, ``a!=b``, ``a in (b,c)``, ``a notin (b,c)``, ``a``, ``!a``,
``a>1``, ``a<1``, joined by commas. Fields: ``a=b``, ``a==b``, ``a!=b``, with a backslash before
commas, equals signs and backslashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from koord.api.selectors import integer
from koord.controlplane.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controlplane.storage.collection import Entry

LabelMatch = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")
_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@lru_cache(maxsize=1024)
def labels(text: str) -> LabelMatch | None:
    """What a label selector says; None where it says nothing.

    Raises:
        ApiError: 400, it cannot be read.
    """
    tokens = _tokens(text)
    if not tokens:
        return None
    requirements = []
    while True:
        requirements.append(_requirement(tokens))
        if not tokens:
            break
        if tokens.pop(0) != ",":
            raise _unreadable("expected ',' between requirements")
        if not tokens or tokens[0] == ",":
            raise bad_request(f"found '{''.join(tokens[:1])}', expected: identifier after ','")
    if len(requirements) == 1:
        return requirements[0]
    return lambda found: all(requirement(found) for requirement in requirements)


def fields(text: str, selectable: Sequence[str]) -> Callable[[Entry], bool] | None:
    """What a field selector says; None where it says nothing.

    Args:
        selectable: names of ``Entry.fields``, in their order.

    Raises:
        ApiError: 400, it cannot be read or names another field.
    """
    terms = [_field_term(term) for term in _split(text) if term]
    if not terms:
        return None
    checks = [_field_check(name, value, same, selectable) for name, value, same in terms]
    if len(checks) == 1:
        return checks[0]
    return lambda entry: all(check(entry) for check in checks)


def named(text: str) -> str:
    """The name that ``metadata.name=NAME`` alone asks for; empty for another selector."""
    if not text.startswith("metadata.name=") or "," in text or "\\" in text:
        return ""
    return text.removeprefix("metadata.name=").removeprefix("=")


def matching(
    label_selector: str, field_selector: str, selectable: Sequence[str]
) -> Callable[[Entry], bool] | None:
    """Both selectors as one function; None where they say nothing."""
    by_label = labels(label_selector) if label_selector else None
    by_field = fields(field_selector, selectable) if field_selector else None
    if by_label is None:
        return by_field
    if by_field is None:
        return lambda entry: by_label(entry.labels)
    return lambda entry: by_label(entry.labels) and by_field(entry)


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


def _requirement(tokens: list[str]) -> LabelMatch:
    first = tokens.pop(0)
    if first == "!":
        key = _key(tokens.pop(0) if tokens else "")
        return lambda found: key not in found
    key = _key(first)
    if not tokens or tokens[0] == ",":
        return lambda found: key in found
    operator = tokens.pop(0)
    if operator in ("=", "=="):
        value = _value(tokens)
        return lambda found: found.get(key) == value
    if operator == "!=":
        value = _value(tokens)
        return lambda found: found.get(key) != value
    if operator in ("in", "notin"):
        values = _values(tokens)
        if operator == "in":
            return lambda found: key in found and found[key] in values
        return lambda found: key not in found or found[key] not in values
    if operator in (">", "<"):
        return _compared(key, operator, _value(tokens))
    raise _unreadable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _compared(key: str, operator: str, text: str) -> LabelMatch:
    bound = integer(text)
    if bound is None:
        raise _unreadable(
            f'values[0][{key}]: Invalid value: "{text}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )

    def compare(labels: Mapping[str, str]) -> bool:
        number = integer(labels.get(key, ""))
        return number is not None and (number > bound if operator == ">" else number < bound)

    return compare


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


def _split(text: str) -> list[str]:
    """The terms of a field selector: cut at commas that no backslash precedes."""
    if re.search(r"(?<!\\)(\\\\)*\\$", text):
        raise bad_request("invalid field selector: invalid escape sequence: \\")
    return [part.strip() for part in re.findall(r"(?:^|,)((?:\\.|[^,\\])*)", text)]


def _field_term(term: str) -> tuple[str, str, bool]:
    match = re.fullmatch(r"([^=!\\]+)(==|!=|=)((?:\\[\\,=]|[^\\,=])*)", term)
    if match is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    return match[1], re.sub(r"\\([\\,=])", r"\1", match[3]), match[2] != "!="


def _field_check(
    name: str, value: str, same: bool, selectable: Sequence[str]
) -> Callable[[Entry], bool]:
    if name == "metadata.name":
        return lambda entry: (entry.name == value) is same
    if name == "metadata.namespace":
        return lambda entry: (entry.namespace == value) is same
    if name not in selectable:
        raise bad_request(f"field label not supported: {name}")
    index = list(selectable).index(name)
    return lambda entry: (entry.fields[index] == value) is same


def _unreadable(why: str) -> Exception:
    return bad_request(f"unable to parse requirement: {why}")
