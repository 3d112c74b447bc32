# SPDX-License-Identifier: Apache-2.0
"""``matchConditions`` of webhooks and policies: which requests they are asked about.

Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.cel.expression import EvaluationError, ExpressionError, compiled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.base.documents import Document

_SEEN = ("object", "oldObject", "request", "namespaceObject")
VARIABLES = (*_SEEN, "authorizer")
"""What conditions of webhooks and policies may use; policies with parameters these, too."""

PARAMS = "params"


def condition_variables(*, has_params: bool) -> tuple[str, ...]:
    """What conditions of a policy may use."""
    return (*VARIABLES, PARAMS) if has_params else VARIABLES


def policy_variables(*, has_params: bool) -> tuple[str, ...]:
    """What variables and validations of a policy may use."""
    return (*condition_variables(has_params=has_params), "variables")


def message_variables(*, has_params: bool) -> tuple[str, ...]:
    """What messages of a policy may use."""
    return (*_SEEN, PARAMS, "variables") if has_params else (*_SEEN, "variables")


def are_met(
    conditions: Sequence[Document], values: Mapping[str, Any], variables: tuple[str, ...]
) -> bool:
    """Whether all hold. One that does not is enough, whatever becomes of the others.

    Args:
        conditions: that compile.
        values: of the variables.
        variables: their names.

    Raises:
        EvaluationError: none is false, and one has no value.
    """
    failures = []
    for condition in conditions:
        text = condition["expression"].strip()
        try:
            if not compiled(text, variables).holds(values):
                return False
        except (EvaluationError, ExpressionError) as error:
            failures.append(f"expression '{text}' resulted in error: {error}")
    if failures:
        shown = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
        raise EvaluationError(shown)
    return True
