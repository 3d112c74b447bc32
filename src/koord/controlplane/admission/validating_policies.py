# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicies: expressions that refuse a write, or warn of it.

A policy acts where a binding names it. Policies and bindings are taken in order of their names; the
first refusal counts. Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.controlplane.admission.admission_review import variables_of
from koord.controlplane.admission.plugin import LookupCache
from koord.controlplane.admission.policy_params import (
    BINDINGS,
    POLICIES,
    PolicyConfigurationError,
)
from koord.controlplane.admission.webhook_rules import WebhookMatcher
from koord.controlplane.api_errors import failure, forbidden
from koord.controlplane.cel.access_checks import checks_by, judge_of
from koord.controlplane.cel.conditions import (
    are_met,
    condition_variables,
    message_variables,
    policy_variables,
)
from koord.controlplane.cel.expression import EvaluationError, compiled
from koord.kube.errors import StatusCause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.base.documents import Document
    from koord.controlplane.admission.policy_params import PolicyParams
    from koord.controlplane.authorization.rbac import Authorizer
    from koord.controlplane.extension import Attributes, Reader
    from koord.controlplane.resource import Resource
    from koord.kube.errors import ApiError

_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_MAX_MESSAGE_BYTES = 5 * 1024


@dataclass(frozen=True)
class _Denial:
    """What a validation, or a failure to ask it, says against a write."""

    message: str
    reason: str = "Invalid"


class ValidatingPolicies:
    """Asks the policies that are bound.

    Args:
        reader: policies, bindings and namespaces.
        equivalents: the same resource at all its versions and groups.
        params: what policies go by besides.
        authorizer: answers what expressions ask about rights.
    """

    depends_on = (POLICIES, BINDINGS)

    def __init__(
        self,
        reader: Reader,
        equivalents: Callable[[Resource], Sequence[Resource]],
        params: PolicyParams,
        authorizer: Authorizer,
    ) -> None:
        self._reader, self._params, self._authorizer = reader, params, authorizer
        self._namespaces = LookupCache(reader, "namespaces", self._namespace)
        self._matcher = WebhookMatcher(self._labels, equivalents)
        self._policies = LookupCache(reader, POLICIES, lambda _: self._sorted(POLICIES))
        self._bindings = LookupCache(reader, BINDINGS, lambda _: self._sorted(BINDINGS))

    @property
    def configured(self) -> bool:
        """Whether any policy is bound."""
        return bool(self._bindings.get() and self._policies.get())

    def validate(self, attributes: Attributes) -> None:
        """Asks all policies that are bound and match.

        Raises:
            ApiError: one refused.
        """
        if not self.configured or attributes.resource.storage in self.depends_on:
            return
        first: ApiError | None = None
        with checks_by(judge_of(self._authorizer, attributes.context)):
            for policy in self._policies.get():
                name = policy["metadata"]["name"]
                bound = [
                    each for each in self._bindings.get() if each["spec"]["policyName"] == name
                ]
                if bound:
                    refusal = self._by_policy(policy, bound, attributes)
                    first = first or refusal
        if first is not None:
            raise first

    def _by_policy(
        self, policy: Document, bound: list[Document], attributes: Attributes
    ) -> ApiError | None:
        spec = policy["spec"]
        as_resource = self._selected(spec.get("matchConstraints") or {}, attributes)
        if as_resource is None:
            return None
        kind, ignores = spec.get("paramKind"), spec.get("failurePolicy") == "Ignore"
        try:
            params_resource = self._params.resource(kind) if kind else None
        except PolicyConfigurationError as error:
            return None if ignores else _refusal(policy, None, _Denial(str(error)), attributes)
        namespace = self._namespaces.get(attributes.namespace)
        first: ApiError | None = None
        for binding in bound:
            resources = binding["spec"].get("matchResources")
            if resources and not self._binds(resources, attributes):
                continue
            reference = binding["spec"].get("paramRef")
            try:
                params = self._params.of(params_resource, reference, attributes.namespace)
            except PolicyConfigurationError as error:
                if not ignores:
                    denial = _Denial(str(error))
                    first = first or _refusal(policy, binding, denial, attributes)
                continue
            denials = [
                denial
                for param in params
                for denial in _denials(spec, attributes, as_resource, namespace, param)
            ]
            refusal = _carried_out(policy, binding, denials, attributes)
            first = first or refusal
        return first

    def _binds(self, resources: Document, attributes: Attributes) -> bool:
        """Whether a binding is for a write; without rules for whatever its policy is for."""
        if not resources.get("resourceRules"):
            anything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"]}
            resources = {**resources, "resourceRules": [{**anything, "resources": ["*/*", "*"]}]}
        return self._selected(resources, attributes) is not None

    def _selected(self, resources: Document, attributes: Attributes) -> Resource | None:
        excluded = resources.get("excludeResourceRules")
        if excluded and self._matcher.select({**resources, "rules": excluded}, attributes):
            return None
        rules = resources.get("resourceRules") or ()
        return self._matcher.select({**resources, "rules": rules}, attributes)

    def _sorted(self, storage: str) -> list[Document]:
        return sorted(self._reader.documents(storage), key=lambda each: each["metadata"]["name"])

    def _namespace(self, name: str) -> Document | None:
        return self._reader.document("namespaces", "", name) if name else None

    def _labels(self, namespace: str) -> dict[str, str] | None:
        found = self._namespaces.get(namespace)
        return None if found is None else found["metadata"].get("labels") or {}


def _denials(
    spec: Document,
    attributes: Attributes,
    as_resource: Resource,
    namespace: Document | None,
    param: Document | None,
) -> list[_Denial]:
    """What a policy has against a write, with one of its parameters."""
    ignores, has_params = spec.get("failurePolicy") == "Ignore", bool(spec.get("paramKind"))
    values: dict[str, Any] = variables_of(attributes, as_resource)
    if has_params:
        values["params"] = param
    try:
        names = condition_variables(has_params=has_params)
        if not are_met(spec.get("matchConditions") or (), values, names):
            return []
    except EvaluationError as error:
        return [] if ignores else [_Denial(str(error))]
    values |= {"namespaceObject": namespace, "variables": {}}
    names = policy_variables(has_params=has_params)
    for variable in spec.get("variables") or ():
        try:
            found = compiled(variable["expression"].strip(), names).evaluate(values)
        except EvaluationError:
            # Only who uses it fails.
            continue
        values["variables"] = {**values["variables"], variable["name"]: found}
    return [
        denial
        for validation in spec.get("validations") or ()
        if (denial := _denial(validation, values, ignores)) is not None
    ]


def _denial(validation: Document, values: dict[str, Any], ignores: bool) -> _Denial | None:
    text, has_params = validation["expression"].strip(), "params" in values
    try:
        if compiled(text, policy_variables(has_params=has_params)).holds(values):
            return None
    except EvaluationError as error:
        return None if ignores else _Denial(f"expression '{text}' resulted in error: {error}")
    told = _message_of(validation.get("messageExpression") or "", values, has_params)
    message = told or (validation.get("message") or "").strip() or f"failed expression: {text}"
    return _Denial(message, validation.get("reason") or "Invalid")


def _message_of(expression: str, values: dict[str, Any], has_params: bool) -> str:
    if not expression.strip():
        return ""
    names = message_variables(has_params=has_params)
    told = {name: values[name] for name in names}
    try:
        found = compiled(expression.strip(), names).evaluate(told)
    except EvaluationError:
        return ""
    text = found.strip() if isinstance(found, str) else ""
    return "" if "\n" in text or len(text.encode()) > _MAX_MESSAGE_BYTES else text


def _carried_out(
    policy: Document, binding: Document, denials: Sequence[_Denial], attributes: Attributes
) -> ApiError | None:
    """Warns of, or gives the refusal for, what a policy has against a write."""
    named = _named(policy, binding)
    actions = binding["spec"].get("validationActions") or ()
    if "Warn" in actions:
        told = [f"Validation failed for {named}: {denial.message}" for denial in denials]
        attributes.warnings.extend(told)
    if "Deny" not in actions or not denials:
        return None
    return _refusal(policy, binding, denials[0], attributes)


def _named(policy: Document, binding: Document | None) -> str:
    named = f"ValidatingAdmissionPolicy '{policy['metadata']['name']}'"
    return named if binding is None else f"{named} with binding '{binding['metadata']['name']}'"


def _refusal(
    policy: Document, binding: Document | None, denial: _Denial, attributes: Attributes
) -> ApiError:
    message = f"{_named(policy, binding)} denied request: {denial.message}"
    error = forbidden(attributes.resource, attributes.name, message)
    status = error.status
    if status.details is not None:
        status.details.causes.append(StatusCause(message=message))
    code = _CODES.get(denial.reason, 422)
    return failure(code, denial.reason, status.message, status.details)
