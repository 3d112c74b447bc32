# SPDX-License-Identifier: Apache-2.0
"""Selectors of labels and of nodes: whether one is well formed, what it matches, and whether two
label selectors can overlap.

What an operator means is said once, in :func:`holds`; who compiles or tabulates selectors asks it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from koord.api.kinds.constraints import NodeSelectorRequirement, NodeSelectorTerm
    from koord.api.kinds.meta import LabelSelector, LabelSelectorRequirement

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
GREATER, LESS = "Gt", "Lt"
OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
"""Of label selectors."""
NODE_OPERATORS = (*OPERATORS, GREATER, LESS)
"""Of node selectors."""
NAME_FIELD = "metadata.name"
"""The only field that node selectors know."""

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_LEAST, _MOST = -(2**63), 2**63 - 1


def holds(operator: str, values: Collection[str], value: str | None) -> bool:
    """Whether the value of a label or field, or its lack, is what a requirement wants.

    Rule: Kubernetes' labels.Requirement (apimachinery, pkg/labels). An operator that is not known
    and a bound that is no integer never hold.

    Args:
        operator: one of :data:`NODE_OPERATORS`.
        values: of the requirement; one for ``Gt`` and ``Lt``.
        value: None where the label is missing.
    """
    if operator == IN:
        return value is not None and value in values
    if operator == NOT_IN:
        return value is None or value not in values
    if operator == EXISTS:
        return value is not None
    if operator == DOES_NOT_EXIST:
        return value is None
    if operator not in (GREATER, LESS) or value is None or len(values) != 1:
        return False
    number, bound = integer(value), integer(next(iter(values)))
    if number is None or bound is None:
        return False
    return number > bound if operator == GREATER else number < bound


def integer(text: str) -> int | None:
    """A decimal of 64 bits, with or without a sign; None for any other text."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if _LEAST <= number <= _MOST else None


def matches_terms(
    terms: Sequence[NodeSelectorTerm], labels: Mapping[str, str], fields: Mapping[str, str]
) -> bool:
    """Whether labels and fields satisfy one of the terms; a term that says nothing matches nothing.

    Args:
        terms: whose requirements are well formed.
        labels: of a node, or of what is looked for like one.
        fields: by name; see :data:`NAME_FIELD`.
    """

    def every(requirements: Iterable[NodeSelectorRequirement], have: Mapping[str, str]) -> bool:
        return all(holds(each.operator, each.values, have.get(each.key)) for each in requirements)

    return any(
        bool(term.match_expressions or term.match_fields)
        and every(term.match_expressions, labels)
        and every(term.match_fields, fields)
        for term in terms
    )


def is_empty(selector: LabelSelector) -> bool:
    """Whether a selector has no condition, and so matches everything."""
    return not selector.match_labels and not selector.match_expressions


def check(selector: LabelSelector, object_name: str, field: str) -> None:
    """Accepts a selector that can be evaluated.

    Raises:
        KoordError: an unknown operator, an empty key, or values where there should be none.
    """
    for index, requirement in enumerate(selector.match_expressions):
        where = f"{field}.matchExpressions[{index}]"
        if not requirement.key:
            raise KoordError(object_name, f"{where}.key", requirement.key, "a label key")
        if requirement.operator not in OPERATORS:
            expected = "one of " + ", ".join(OPERATORS)
            raise KoordError(object_name, f"{where}.operator", requirement.operator, expected)
        takes_values = requirement.operator in (IN, NOT_IN)
        if takes_values != bool(requirement.values):
            expected = "one value or more" if takes_values else "no values"
            raise KoordError(object_name, f"{where}.values", requirement.values, expected)


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a selector that :func:`check` accepts; no selector matches nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(_holds(requirement, labels) for requirement in selector.match_expressions)


def can_overlap(selectors: Iterable[LabelSelector]) -> bool:
    """Whether some set of labels satisfies all the selectors.

    Exact: conditions on different keys are independent, and those on one key either admit the
    key's absence, or one of finitely many listed values, or all but finitely many.
    """
    by_key: dict[str, list[LabelSelectorRequirement]] = {}
    wanted: dict[str, set[str]] = {}
    for selector in selectors:
        for key, value in selector.match_labels.items():
            wanted.setdefault(key, set()).add(value)
        for requirement in selector.match_expressions:
            by_key.setdefault(requirement.key, []).append(requirement)
    if any(len(values) > 1 for values in wanted.values()):
        return False
    for key, requirements in by_key.items():
        candidates: list[dict[str, str]] = [{key: value} for value in wanted.get(key, ())]
        if key not in wanted:
            listed = {value for r in requirements for value in r.values}
            # A value that no requirement lists stands for all of those that none does.
            unlisted = "x" * (1 + max(map(len, listed), default=0))
            candidates = [{}, {key: unlisted}, *({key: value} for value in sorted(listed))]
        if not any(all(_holds(r, labels) for r in requirements) for labels in candidates):
            return False
    return True


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    operator = requirement.operator
    value = labels.get(requirement.key)
    return operator in OPERATORS and holds(operator, requirement.values, value)
