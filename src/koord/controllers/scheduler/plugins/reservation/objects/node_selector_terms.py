# SPDX-License-Identifier: Apache-2.0
"""Node selector terms over the labels of a reservation: checked once, then only compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.constraints import NodeSelectorRequirement, NodeSelectorTerm


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
                if part == "matchFields" and requirement.key != selectors.NAME_FIELD:
                    expected = selectors.NAME_FIELD
                    raise KoordError(object_name, f"{where}.key", requirement.key, expected)


def _check(requirement: NodeSelectorRequirement, object_name: str, where: str) -> None:
    operator, values = requirement.operator, requirement.values
    if not requirement.key:
        raise KoordError(object_name, f"{where}.key", "", "a label key")
    if operator not in selectors.NODE_OPERATORS:
        expected = "one of " + ", ".join(selectors.NODE_OPERATORS)
        raise KoordError(object_name, f"{where}.operator", operator, expected)
    if operator in ("In", "NotIn") and not values:
        raise KoordError(object_name, f"{where}.values", values, "one value or more")
    if operator in ("Exists", "DoesNotExist") and values:
        raise KoordError(object_name, f"{where}.values", values, "no values")
    if operator in ("Gt", "Lt") and (len(values) != 1 or selectors.integer(values[0]) is None):
        raise KoordError(object_name, f"{where}.values", values, "one integer")


def match(terms: Sequence[NodeSelectorTerm], labels: Mapping[str, str], name: str) -> bool:
    """Whether labels and name satisfy one of the terms.

    Args:
        terms: which :func:`check` accepts.
        labels: of the reservation, over those of its node.
        name: of the reservation.
    """
    return selectors.matches_terms(terms, labels, {selectors.NAME_FIELD: name})
