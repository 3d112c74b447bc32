# SPDX-License-Identifier: Apache-2.0
"""Node selector terms over the labels of a reservation: checked once, then only compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.constraints import NodeSelectorRequirement, NodeSelectorTerm

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_NAME = "metadata.name"
_DIGITS = 19  # of a 64-bit integer


def check(terms: Sequence[NodeSelectorTerm], object_name: str, field: str) -> None:
    """Accepts terms that can be evaluated.

    Raises:
        KoordError: an unknown operator or field, a missing key, or values where they make no sense.
    """
    for index, term in enumerate(terms):
        for part, listed in (
            ("matchExpressions", term.match_expressions),
            ("matchFields", term.match_fields),
        ):
            for place, requirement in enumerate(listed):
                where = f"{field}[{index}].{part}[{place}]"
                _check(requirement, object_name, where)
                if part == "matchFields" and requirement.key != _NAME:
                    raise KoordError(object_name, f"{where}.key", requirement.key, _NAME)


def _check(requirement: NodeSelectorRequirement, object_name: str, where: str) -> None:
    operator, values = requirement.operator, requirement.values
    if not requirement.key:
        raise KoordError(object_name, f"{where}.key", "", "a label key")
    if operator not in _OPERATORS:
        expected = "one of " + ", ".join(_OPERATORS)
        raise KoordError(object_name, f"{where}.operator", operator, expected)
    if operator in ("In", "NotIn") and not values:
        raise KoordError(object_name, f"{where}.values", values, "one value or more")
    if operator in ("Exists", "DoesNotExist") and values:
        raise KoordError(object_name, f"{where}.values", values, "no values")
    if operator in ("Gt", "Lt") and (len(values) != 1 or _integer(values[0]) is None):
        raise KoordError(object_name, f"{where}.values", values, "one integer")


def match(terms: Sequence[NodeSelectorTerm], labels: Mapping[str, str], name: str) -> bool:
    """Whether labels and name satisfy one of the terms; a term that says nothing matches nothing.

    Args:
        terms: which :func:`check` accepts.
        labels: of the reservation, over those of its node.
        name: of the reservation.
    """
    fields = {_NAME: name}
    return any(
        (term.match_expressions or term.match_fields)
        and all(_holds(each, labels) for each in term.match_expressions)
        and all(_holds(each, fields) for each in term.match_fields)
        for term in terms
    )


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    operator, value = requirement.operator, labels.get(requirement.key)
    if operator == "In":
        return value is not None and value in requirement.values
    if operator == "NotIn":
        return value is None or value not in requirement.values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    number = _integer(value) if value is not None else None
    bound = _integer(requirement.values[0])
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if len(digits) > _DIGITS or not digits.isascii() or not digits.isdigit():
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
