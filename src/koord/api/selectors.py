# SPDX-License-Identifier: Apache-2.0
"""Label selectors: whether one is well formed, what it matches, and whether two can overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.api.kinds.meta import LabelSelector, LabelSelectorRequirement

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)


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
    present = requirement.key in labels
    if requirement.operator == EXISTS:
        return present
    if requirement.operator == DOES_NOT_EXIST:
        return not present
    if requirement.operator == IN:
        return present and labels[requirement.key] in requirement.values
    if requirement.operator == NOT_IN:
        return not present or labels[requirement.key] not in requirement.values
    return False
