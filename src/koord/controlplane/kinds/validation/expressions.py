# SPDX-License-Identifier: Apache-2.0
"""Whether expressions in objects compile, and give what they have to.

Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.cel.expression import ExpressionError, compiled
from koord.controlplane.kinds.validation import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.documents import Document
    from koord.controlplane.kinds.validation.causes import Causes

MAX_CONDITIONS = 64


def check_conditions(
    conditions: Sequence[Document], path: str, causes: Causes, variables: tuple[str, ...]
) -> None:
    """What is wrong with them.

    Args:
        conditions: as they stand in an object.
        path: of the list.
        causes: gets it.
        variables: that they may use.
    """
    if len(conditions) > MAX_CONDITIONS:
        causes.too_many(path, len(conditions), MAX_CONDITIONS)
        return
    names_before: set[str] = set()
    for index, condition in enumerate(conditions):
        where, name = f"{path}[{index}]", condition.get("name") or ""
        check_expression(condition, f"{where}.expression", causes, variables)
        if not name:
            causes.required(f"{where}.name")
        else:
            causes.invalid_all(f"{where}.name", name, names.label_key(name))
        if name in names_before:
            causes.duplicate(f"{where}.name", name)
        names_before.add(name)


def check_expression(
    holder: Document,
    path: str,
    causes: Causes,
    variables: tuple[str, ...],
    type_name: str = "BOOL",
) -> None:
    """What is wrong with an expression.

    Args:
        holder: has it under the last name of ``path``.
        path: of the expression.
        causes: gets it.
        variables: that it may use.
        type_name: what it must give; empty for anything.
    """
    text = (holder.get(path.rpartition(".")[2]) or "").strip()
    if not text:
        causes.required(path)
        return
    try:
        expression = compiled(text, variables)
    except ExpressionError as error:
        causes.invalid(path, text, f"compilation failed: {error}")
        return
    if type_name and not expression.may_be(type_name):
        causes.invalid(path, text, f"must evaluate to {type_name.lower()}")
