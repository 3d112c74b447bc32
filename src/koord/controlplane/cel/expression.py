# SPDX-License-Identifier: Apache-2.0
"""One expression: compiled when the object that has it is written, evaluated at requests.

The work is CEL's own runtime's (``cel-expr-python``), within its bounds: 10,000 iterations of all
comprehensions of an expression together, a depth of 32, regular expressions in linear time. What
does not compile, a function that is not there among it, is refused by name.
Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CHARACTERS = 10_240
"""No expression may be longer."""

_CACHED = 1_024
# The runtime's own words around a message: a status before it, and the same behind it.
_STATUS = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$")
_SOURCE_LINES = re.compile(r"\n \| .*")
# What Kubernetes' users know under other words.
_WORDS = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"No matching overloads found : .*"), "no such overload"),
    (re.compile("divide by zero"), "division by zero"),
)


class ExpressionError(ValueError):
    """An expression that does not compile: where and why, one line."""


class EvaluationError(ValueError):
    """An expression has no value for these variables: why, one line."""


class Expression:
    """A compiled expression.

    Args:
        text: as users write it.
        variables: names that it may use.

    Raises:
        ExpressionError: it does not compile.
    """

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        if len(text) > MAX_CHARACTERS:
            raise ExpressionError(f"{len(text)} characters, expected at most {MAX_CHARACTERS}")
        try:
            self._compiled = _environment(variables).compile(text)
        except RuntimeError as error:
            raise ExpressionError(_message(error)) from None
        self.text = text
        self._type: str = self._compiled.return_type().name()

    def may_be(self, type_name: str) -> bool:
        """Whether the value can be of a type.

        Args:
            type_name: as CEL writes it, e.g. ``BOOL``, ``STRING``.
        """
        return self._type in (type_name, "DYN")

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value.

        Args:
            values: of all variables: what JSON has, and dates, durations and bytes.

        Raises:
            EvaluationError: there is none.
        """
        try:
            result = self._compiled.eval(data=values)
        except RuntimeError as error:
            raise EvaluationError(_message(error)) from None
        if result.type().name() == "ERROR":
            raise EvaluationError(_message(result.plain_value()))
        return result.plain_value()

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the value is true.

        Raises:
            EvaluationError: there is none, or it is neither true nor false.
        """
        found = self.evaluate(values)
        if not isinstance(found, bool):
            raise EvaluationError(f"got {type(found).__name__}, expected true or false")
        return found


@lru_cache(_CACHED)
def compiled(text: str, variables: tuple[str, ...]) -> Expression:
    """An expression, compiled once for all that have the same.

    Raises:
        ExpressionError: it does not compile.
    """
    return Expression(text, variables)


def uses(text: str, name: str, others: tuple[str, ...]) -> bool:
    """Whether an expression that compiles with a variable does not without it.

    Args:
        text: the expression.
        name: the variable.
        others: the rest of the names that it may use.
    """
    try:
        compiled(text, others)
    except ExpressionError:
        return name in text
    return False


@lru_cache(64)
def _environment(variables: tuple[str, ...]) -> Any:
    # Nobody waits for it who has no expression.
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    from koord.controlplane.cel.functions import declarations

    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=[
            ext_strings.ExtStrings(), ext_optional.ExtOptional(), ext_bindings.ExtBindings(),
        ],
        functions=declarations(),
    )  # fmt: skip


def _message(error: object) -> str:
    """What the runtime says, in one line."""
    text = _SOURCE_LINES.sub("", _STATUS.sub("", str(error)))
    parts = (_STATUS.sub("", part.strip()) for part in text.splitlines())
    line = "; ".join(part.replace("<input>:", "") for part in parts if part)
    for pattern, words in _WORDS:
        line = pattern.sub(words, line)
    return line
