# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors as text, compiled to functions.

What the operators mean is :func:`koord.api.selectors.holds`; every list and watch asks the compiled
form for each object, so that it has a closure an operator.

The grammar of labels is :mod:`koord.api.label_text`. Fields: ``a=b``, ``a==b``, ``a!=b``, with a
backslash before commas, equals signs and backslashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from koord.api import label_text
from koord.api.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, holds
from koord.base.memory.text_cache import text_cache
from koord.controlplane.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.label_text import LabelRequirement
    from koord.controlplane.storage.collection import Entry

LabelMatch = Callable[[Mapping[str, str]], bool]


# A compiled one takes 200 times its text.
@text_cache(256)
def labels(text: str) -> LabelMatch | None:
    """What a label selector says; None where it says nothing.

    Raises:
        ApiError: 400, it cannot be read.
    """
    try:
        requirements = [_compiled(requirement) for requirement in label_text.parse(text)]
    except ValueError as error:
        raise bad_request(str(error)) from None
    if len(requirements) < 2:
        return requirements[0] if requirements else None
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


def _compiled(requirement: LabelRequirement) -> LabelMatch:
    """A condition as a function of labels."""
    key, operator, values = requirement
    if operator == DOES_NOT_EXIST:
        return lambda found: key not in found
    if operator == EXISTS:
        return lambda found: key in found
    if operator == IN:
        return lambda found: key in found and found[key] in values
    if operator == NOT_IN:
        return lambda found: key not in found or found[key] not in values
    return lambda found: holds(operator, values, found.get(key))


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
