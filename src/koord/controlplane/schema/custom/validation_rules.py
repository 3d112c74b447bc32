# SPDX-License-Identifier: Apache-2.0
"""The rules of a schema that are expressions (``x-kubernetes-validations``).

A rule is asked about the value at its place, ``self``, and about the one before, ``oldSelf``, where
there is one that can be told to be the same: fields, values of a map, items of a list by their
keys. What breaks a rule and was left as it is stays, as in a kube-apiserver, unless the rule
compares. Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.controlplane.api_errors import (
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from koord.controlplane.cel.expression import (
    EvaluationError,
    Expression,
    ExpressionError,
    compiled,
    uses,
)
from koord.controlplane.schema.custom.rule_values import value_of
from koord.controlplane.schema.custom.structural import LIST_TYPE, values_schema
from koord.controlplane.schema.custom.validation import ABSENT, NO_FIELD, item_key, old_items
from koord.kube.errors import StatusCause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.base.documents import Document
    from koord.controlplane.schema.custom.structural import Structural

RULES = "x-kubernetes-validations"
_REASONS = (
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
)  # fmt: skip
_STEP = re.compile(r"\.([^.\[\]]+)|\['([^']+)'\]")
_MAX_MESSAGE_BYTES = 5 * 1024
_BEFORE = "koord_before"
# An optional value has no form in Python, so that a list of none or one goes in its place.
_OPTIONAL = (
    f"cel.bind(oldSelf, size({_BEFORE}) > 0 ? optional.of({_BEFORE}[0]) : optional.none(), {{}})"
)


@dataclass(frozen=True)
class ValidationRule:
    """One rule of one schema.

    Attributes:
        text: as users write it, for messages.
        expression: compiled.
        message_expression: compiled; None for none.
        message: empty for none.
        reason: of the cause.
        field_path: of the field that is blamed, below the rule's place; with its first dot.
        compares: whether it needs the value before.
        optional_before: whether it is asked where there is none, too.
    """

    text: str
    expression: Expression
    message_expression: Expression | None
    message: str
    reason: str
    field_path: str
    compares: bool
    optional_before: bool

    def failure(self, value: Any, old: Any, schema: Structural, path: str, root: bool) -> Any:
        """The cause of a value that breaks the rule; None of one that does not."""
        if old is ABSENT and self.compares and not self.optional_before:
            return None
        values = {"self": value_of(value, schema, root=root)}
        before = [] if old is ABSENT or old is None else [value_of(old, schema, root=root)]
        values |= {_BEFORE: before} if self.optional_before else {"oldSelf": (before or [None])[0]}
        try:
            if self.expression.holds(values):
                return None
        except EvaluationError as error:
            told = f"{error} evaluating rule: {self.message or self.text}"
            return invalid_value(path or NO_FIELD, schema.get("type") or "", told)
        blamed = f"{path}{self.field_path}" if path else self.field_path.lstrip(".")
        return self._cause(blamed or NO_FIELD, value, self._message_of(values))

    def _message_of(self, values: Document) -> str:
        if self.message_expression is not None:
            try:
                told = self.message_expression.evaluate(values)
            except EvaluationError:
                told = ""
            text = told.strip() if isinstance(told, str) else ""
            if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_BYTES:
                return text
        return self.message or f"failed rule: {self.text}"

    def _cause(self, field: str, value: Any, message: str) -> StatusCause:
        if self.reason == "FieldValueForbidden":
            return forbidden_field(field, message)
        if self.reason == "FieldValueRequired":
            return required(field, message)
        if self.reason == "FieldValueDuplicate":
            return duplicate(field, value)
        if isinstance(value, dict | list):
            return StatusCause("FieldValueInvalid", f"Invalid value: {message}", field)
        return invalid_value(field, value, message)


class ValidationRules:
    """All rules of a schema, compiled.

    Args:
        schema: of a whole document; :func:`rule_causes` finds nothing wrong with it.
    """

    def __init__(self, schema: Structural) -> None:
        self._schema = schema
        self._has_rules: dict[int, bool] = {}
        self._rules: dict[int, list[ValidationRule]] = {}
        self._prepare(schema)

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return not self._has_rules[id(self._schema)]

    def causes(self, document: Document, old: Document | None) -> list[StatusCause]:
        """What breaks a rule.

        Args:
            document: that fits the schema.
            old: as it was before an update.
        """
        before = ABSENT if old is None else old
        return list(self._walk(document, before, self._schema, "", is_same=False))

    def _prepare(self, schema: Structural) -> bool:
        self._rules[id(schema)] = [_rule(each) for each in schema.get(RULES) or ()]
        inner = [self._prepare(each) for each in _children(schema)]
        found = bool(self._rules[id(schema)]) or any(inner)
        self._has_rules[id(schema)] = found
        return found

    def _walk(
        self, value: Any, old: Any, schema: Structural, path: str, *, is_same: bool
    ) -> Iterator[StatusCause]:
        if value is None or not self._has_rules.get(id(schema)):
            return
        if old is not ABSENT:
            is_same = old == value
        for rule in self._rules[id(schema)]:
            if is_same and not rule.compares:
                continue
            cause = rule.failure(value, old, schema, path, not path)
            if cause is not None:
                yield cause
        for each in schema.get("allOf") or ():
            yield from self._walk(value, ABSENT, each, path, is_same=is_same)
        if isinstance(value, dict):
            yield from self._members(value, old, schema, path, is_same)
        elif isinstance(value, list):
            items = schema.get("items") or {}
            before = old_items(old, schema)
            for number, item in enumerate(value):
                was = before.get(item_key(item, schema), ABSENT)
                yield from self._walk(item, was, items, f"{path}[{number}]", is_same=is_same)

    def _members(
        self, value: Document, old: Any, schema: Structural, path: str, is_same: bool
    ) -> Iterator[StatusCause]:
        properties, inner = schema.get("properties") or {}, values_schema(schema)
        before = old if isinstance(old, dict) else {}
        for key, item in value.items():
            was = before.get(key, ABSENT)
            if key in properties:
                where = f"{path}.{key}" if path else key
                yield from self._walk(item, was, properties[key], where, is_same=is_same)
            elif inner is not None:
                yield from self._walk(item, was, inner, f"{path}[{key}]", is_same=is_same)


def rule_causes(schema: Structural, path: str) -> list[StatusCause]:
    """What is wrong with the rules of a schema that is structural.

    Args:
        schema: of a whole document.
        path: of the schema in its definition.
    """
    return list(_checked(schema, path, may_compare=True))


def _checked(schema: Structural, path: str, *, may_compare: bool) -> Iterator[StatusCause]:
    for number, rule in enumerate(schema.get(RULES) or ()):
        where = f"{path}.{RULES}[{number}]"
        yield from _checked_rule(rule, where, may_compare)
        blamed = (rule.get("fieldPath") or "").strip()
        if blamed and not _has_field(schema, blamed):
            yield invalid_value(f"{where}.fieldPath", blamed, "must be a valid path")
    for key, inner in (schema.get("properties") or {}).items():
        yield from _checked(inner, f"{path}.properties[{key}]", may_compare=may_compare)
    items = schema.get("items")
    if isinstance(items, dict):
        # Only items that have keys can be told to be those of before.
        compares = may_compare and schema.get(LIST_TYPE) == "map"
        yield from _checked(items, f"{path}.items", may_compare=compares)
    additional = values_schema(schema)
    if additional:
        where = f"{path}.additionalProperties"
        yield from _checked(additional, where, may_compare=may_compare)
    for number, inner in enumerate(schema.get("allOf") or ()):
        yield from _checked(inner, f"{path}.allOf[{number}]", may_compare=may_compare)


def _has_field(schema: Structural, path: str) -> bool:
    """Whether a schema has a field, by a path such as ``.spec.min`` or ``.labels['a.b']``."""
    if _STEP.sub("", path):
        return False
    here: Structural | None = schema
    for name, key in _STEP.findall(path):
        if here is None:
            return False
        properties = here.get("properties")
        here = properties.get(name or key) if properties else values_schema(here)
    return here is not None


def _checked_rule(rule: Document, path: str, may_compare: bool) -> Iterator[StatusCause]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
        return
    if message and not message.strip():
        yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message:
        told = "message must be specified if rule contains line breaks"
        yield required(f"{path}.message", told)
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    try:
        compiled_rule = _rule(rule)
    except ExpressionError as error:
        yield invalid_value(f"{path}.{error.args[1]}", text, f"compilation failed: {error.args[0]}")
        return
    if not compiled_rule.expression.may_be("BOOL"):
        yield invalid_value(f"{path}.rule", text, "must evaluate to a bool")
    if compiled_rule.compares and not may_compare:
        told = "oldSelf cannot be used in this part of the schema"
        yield invalid_value(f"{path}.rule", text, told)


def _rule(rule: Document) -> ValidationRule:
    """A rule, compiled.

    Raises:
        ExpressionError: it does not compile; why, and the field that has it.
    """
    text, optional = rule["rule"].strip(), bool(rule.get("optionalOldSelf"))
    message_text = (rule.get("messageExpression") or "").strip()
    compares = uses(text, "oldSelf", ("self",))
    return ValidationRule(
        text,
        _expression(text, optional, "rule"),
        _expression(message_text, optional, "messageExpression") if message_text else None,
        (rule.get("message") or "").strip(),
        rule.get("reason") or "FieldValueInvalid",
        (rule.get("fieldPath") or "").strip(),
        compares,
        optional,
    )


def _expression(text: str, optional: bool, field: str) -> Expression:
    try:
        if optional:
            return compiled(_OPTIONAL.replace("{}", text), ("self", _BEFORE))
        return compiled(text, ("self", "oldSelf"))
    except ExpressionError as error:
        raise ExpressionError(str(error), field) from None


def _children(schema: Structural) -> Iterator[Structural]:
    yield from (schema.get("properties") or {}).values()
    if isinstance(schema.get("items"), dict):
        yield schema["items"]
    additional = values_schema(schema)
    if additional:
        yield additional
    yield from schema.get("allOf") or ()
