# SPDX-License-Identifier: Apache-2.0
"""Webhook configurations and admission policies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from koord.base.documents import Document
from koord.controlplane.cel.conditions import (
    VARIABLES,
    condition_variables,
    message_variables,
    policy_variables,
)
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.table_cells import AGE, NAME, UNSET, age_of, integer
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.expressions import check_conditions, check_expression
from koord.controlplane.kinds.validation.scheduling import check_selector
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.kube.errors import StatusCause


REVIEW_VERSIONS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_POLICY_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_CHOICES = (
    ("failurePolicy", ("Fail", "Ignore")),
    ("matchPolicy", ("Equivalent", "Exact")),
    ("sideEffects", ("None", "NoneOnDryRun")),
)


class WebhookConfigurationStrategy(Strategy):
    """Mutating and validating webhook configurations.

    Args:
        mutating: webhooks may be called again after others changed the object.
    """

    any_finalizer = True
    generation = True
    columns = (NAME, integer("Webhooks"), AGE)

    def __init__(self, mutating: bool) -> None:
        self._mutating = mutating

    def default(self, document: Document) -> None:
        """A failing webhook refuses; ten seconds; everything matches."""
        for webhook in document.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("matchPolicy", "Equivalent")
            webhook.setdefault("namespaceSelector", {})
            webhook.setdefault("objectSelector", {})
            webhook.setdefault("timeoutSeconds", 10)
            if self._mutating:
                webhook.setdefault("reinvocationPolicy", "Never")
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = section(webhook, "clientConfig").get("service")
            if service is not None:
                service.setdefault("port", 443)

    def validate(self, document: Document) -> list[StatusCause]:
        """Names, where to call, what for."""
        causes = Causes()
        seen: set[str] = set()
        for index, webhook in enumerate(document.get("webhooks") or ()):
            path, name = f"webhooks[{index}]", webhook.get("name", "")
            _check_webhook(webhook, path, causes)
            if name in seen:
                causes.duplicate(f"{path}.name", name)
            seen.add(name)
            policy = webhook.get("reinvocationPolicy")
            if self._mutating and policy not in ("Never", "IfNeeded"):
                allowed = ("IfNeeded", "Never")
                causes.not_supported(f"{path}.reinvocationPolicy", policy, allowed)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        webhooks = document.get("webhooks") or ()
        return [document["metadata"]["name"], len(webhooks), age_of(document, now_seconds)]


def _check_webhook(webhook: Document, path: str, causes: Causes) -> None:
    name = webhook.get("name", "")
    if not name:
        causes.required(f"{path}.name")
    elif whys := names.dns_subdomain(name):
        causes.invalid(f"{path}.name", name, ",".join(whys))
    elif name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        causes.invalid(f"{path}.name", name, why)
    versions = webhook.get("admissionReviewVersions") or []
    if not versions:
        causes.required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    elif not any(version in REVIEW_VERSIONS for version in versions):
        why = "must include at least one of v1, v1beta1"
        causes.invalid(f"{path}.admissionReviewVersions", versions, why)
    for field, allowed in _CHOICES:
        value = webhook.get(field)
        if value is None:
            causes.required(f"{path}.{field}", f"must specify one of {', '.join(allowed)}")
        elif value not in allowed:
            causes.not_supported(f"{path}.{field}", value, allowed)
    seconds = webhook["timeoutSeconds"]
    if not 1 <= seconds <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        causes.invalid(f"{path}.timeoutSeconds", seconds, why)
    for index, rule in enumerate(webhook.get("rules") or ()):
        _check_rule(rule, f"{path}.rules[{index}]", causes)
    for field in ("namespaceSelector", "objectSelector"):
        check_selector(webhook.get(field), f"{path}.{field}", causes)
    _check_client(webhook.get("clientConfig") or {}, f"{path}.clientConfig", causes)
    conditions = webhook.get("matchConditions") or ()
    check_conditions(conditions, f"{path}.matchConditions", causes, VARIABLES)


def _check_client(client: Document, path: str, causes: Causes) -> None:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        causes.required(path, "exactly one of url or service is required")
    elif url is not None:
        _check_url(url, f"{path}.url", causes)
    else:
        _check_service(service or {}, f"{path}.service", causes)


def _check_url(url: str, path: str, causes: Causes) -> None:
    desired = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    if parts.scheme != "https":
        why = f"'https' is the only allowed URL scheme{desired}"
        causes.invalid(path, parts.scheme, why)
    elif not parts.netloc:
        causes.invalid(path, parts.netloc, f"host must be specified{desired}")
    if parts.username is not None:
        causes.invalid(path, url, f"user information is not permitted in the URL{desired}")
    if parts.fragment:
        causes.invalid(path, parts.fragment, f"fragments are not permitted in the URL{desired}")
    if parts.query:
        causes.invalid(path, parts.query, f"query parameters are not permitted in the URL{desired}")


def _check_service(service: Document, path: str, causes: Causes) -> None:
    if not service.get("name"):
        causes.required(f"{path}.name", "service name is required")
    if not service.get("namespace"):
        causes.required(f"{path}.namespace", "service namespace is required")
    port = service["port"]
    for why in names.port_number(port):
        causes.invalid(f"{path}.port", port, f"port is not valid: {why}")
    url_path = service.get("path")
    if not url_path:
        return
    where = f"{path}.path"
    if not url_path.startswith("/"):
        causes.invalid(where, url_path, "must start with a '/'")
    segments = url_path[1:].split("/")
    for index, segment in enumerate(segments):
        if not segment and (index < len(segments) - 1 or index == 0) and url_path != "/":
            causes.invalid(where, url_path, f"segment[{index}] may not be empty")


def _check_rule(rule: Document, path: str, causes: Causes) -> None:
    if not rule.get("operations"):
        causes.required(f"{path}.operations")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            causes.not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    for field in ("apiGroups", "apiVersions", "resources"):
        listed = rule.get(field) or []
        if not listed:
            causes.required(f"{path}.{field}")
        elif field != "resources" and "*" in listed and len(listed) > 1:
            why = "if '*' is present, must not specify other "
            what = "API groups" if field == "apiGroups" else "API versions"
            causes.invalid(f"{path}.{field}", listed, why + what)
    resources = rule.get("resources") or []
    if "*/*" in resources and len(resources) > 1:
        why = "if '*/*' is present, must not specify other resources"
        causes.invalid(f"{path}.resources", resources, why)
    if rule["scope"] not in _SCOPES:
        causes.not_supported(f"{path}.scope", rule["scope"], _SCOPES)


class AdmissionPolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies."""

    any_finalizer = True
    status_subresource = True
    generation = True
    columns = (NAME, integer("Validations"), Column("ParamKind"), AGE)

    def default(self, document: Document) -> None:
        """A failing policy refuses; everything matches."""
        spec = document.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        if spec.get("matchConstraints") is not None:
            _default_match(spec["matchConstraints"])

    def validate(self, document: Document) -> list[StatusCause]:
        """What it is about, and whether its expressions compile."""
        causes = Causes()
        spec = section(document, "spec")
        kind = spec.get("paramKind")
        if kind is not None:
            _check_param_kind(kind, "spec.paramKind", causes)
        has_params = kind is not None
        if spec.get("auditAnnotations"):
            causes.forbidden("spec.auditAnnotations", "this server keeps no audit log")
        _check_match(spec.get("matchConstraints"), "spec.matchConstraints", causes)
        conditions, path = spec.get("matchConditions") or (), "spec.matchConditions"
        seen = condition_variables(has_params=has_params)
        check_conditions(conditions, path, causes, seen)
        _check_variables(spec.get("variables") or (), causes, has_params)
        validations = spec.get("validations") or ()
        if not validations:
            why = "validations or auditAnnotations must be specified"
            causes.required("spec.validations", why)
        for index, validation in enumerate(validations):
            _check_validation(validation, f"spec.validations[{index}]", causes, has_params)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec = section(document, "spec")
        kind = spec.get("paramKind")
        return [
            document["metadata"]["name"],
            len(spec.get("validations") or ()),
            f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else UNSET,
            age_of(document, now_seconds),
        ]


class AdmissionPolicyBindingStrategy(Strategy):
    """ValidatingAdmissionPolicyBindings."""

    any_finalizer = True
    generation = True
    columns = (NAME, Column("PolicyName"), Column("ParamRef"), AGE)

    def default(self, document: Document) -> None:
        """Everything matches."""
        resources = section(document, "spec").get("matchResources")
        if resources is not None:
            _default_match(resources)

    def validate(self, document: Document) -> list[StatusCause]:
        """Whose binding it is, and what becomes of a refusal."""
        causes = Causes()
        spec = section(document, "spec")
        if not spec.get("policyName"):
            causes.required("spec.policyName")
        actions = spec.get("validationActions") or ()
        if not actions:
            causes.required("spec.validationActions")
        for index, action in enumerate(actions):
            if action not in _ACTIONS:
                causes.not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
        if "Deny" in actions and "Warn" in actions:
            why = "must not contain both Deny and Warn (repeating the same validation failure "
            why += "information in the API response and headers serves no purpose)"
            causes.invalid("spec.validationActions", list(actions), why)
        if spec.get("paramRef") is not None:
            _check_param_ref(spec["paramRef"], "spec.paramRef", causes)
        if spec.get("matchResources") is not None:
            _check_match(spec["matchResources"], "spec.matchResources", causes, rules=False)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec = section(document, "spec")
        reference = spec.get("paramRef")
        shown = UNSET
        if reference:
            shown = f"{reference.get('namespace', '*')}/{reference.get('name', '*')}"
        return [
            document["metadata"]["name"],
            spec.get("policyName", ""),
            shown,
            age_of(document, now_seconds),
        ]


def _default_match(resources: Document) -> None:
    resources.setdefault("matchPolicy", "Equivalent")
    resources.setdefault("namespaceSelector", {})
    resources.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in resources.get(field) or ():
            rule.setdefault("scope", "*")


def _check_match(
    resources: Document | None, path: str, causes: Causes, *, rules: bool = True
) -> None:
    """What is wrong with the writes that a policy or binding is about."""
    if resources is None:
        causes.required(path)
        return
    if rules and not resources.get("resourceRules"):
        causes.required(f"{path}.resourceRules")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(field) or ()):
            _check_rule(rule, f"{path}.{field}[{index}]", causes)
    for field in ("namespaceSelector", "objectSelector"):
        check_selector(resources.get(field), f"{path}.{field}", causes)


def _check_param_kind(kind: Document, path: str, causes: Causes) -> None:
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    group, _, version = api_version.rpartition("/")
    if not api_version:
        causes.required(f"{path}.apiVersion")
    elif group and (whys := names.dns_subdomain(group)):
        causes.invalid(f"{path}.apiVersion", group, ",".join(whys))
    elif not version:
        causes.invalid(f"{path}.apiVersion", api_version, "version must be specified")
    elif whys := names.dns_1035_label(version):
        causes.invalid(f"{path}.apiVersion", version, ",".join(whys))
    if not name:
        causes.required(f"{path}.kind")
    elif whys := names.dns_1035_label(name.lower()):
        why = "may have mixed case, but should otherwise match: "
        causes.invalid(f"{path}.kind", name, why + ",".join(whys))


def _check_param_ref(reference: Document, path: str, causes: Causes) -> None:
    name, selector = reference.get("name") or "", reference.get("selector")
    causes.invalid_all(f"{path}.name", name, names.path_segment(name) if name else ())
    if selector is not None:
        check_selector(selector, f"{path}.selector", causes)
    if name and selector is not None:
        for field in ("name", "selector"):
            causes.forbidden(f"{path}.{field}", "name and selector are mutually exclusive")
    elif not name and selector is None:
        causes.required(path, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        causes.required(f"{path}.parameterNotFoundAction")
    elif action not in _NOT_FOUND_ACTIONS:
        causes.not_supported(f"{path}.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)


def _check_variables(variables: Sequence[Document], causes: Causes, has_params: bool) -> None:
    seen = policy_variables(has_params=has_params)
    for index, variable in enumerate(variables):
        path, name = f"spec.variables[{index}]", variable.get("name") or ""
        if not name:
            causes.required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            causes.invalid(f"{path}.name", name, "must be a valid CEL identifier")
        check_expression(variable, f"{path}.expression", causes, seen, "")


def _check_validation(validation: Document, path: str, causes: Causes, has_params: bool) -> None:
    seen = policy_variables(has_params=has_params)
    check_expression(validation, f"{path}.expression", causes, seen)
    if validation.get("messageExpression"):
        where = f"{path}.messageExpression"
        seen = message_variables(has_params=has_params)
        check_expression(validation, where, causes, seen, "STRING")
    message = (validation.get("message") or "").strip()
    if "\n" in message:
        causes.invalid(f"{path}.message", message, "message must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in _POLICY_REASONS:
        causes.not_supported(f"{path}.reason", reason, _POLICY_REASONS)
