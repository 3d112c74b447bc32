# SPDX-License-Identifier: Apache-2.0
"""Webhook configurations and admission policies (stored)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from koord.base.documents import Document
from koord.controlplane.cel.conditions import VARIABLES
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.table_cells import AGE, NAME, UNSET, age_of, integer
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.expressions import check_conditions
from koord.controlplane.kinds.validation.scheduling import check_selector
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause


REVIEW_VERSIONS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
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
    """ValidatingAdmissionPolicies: stored; their expressions are not evaluated."""

    any_finalizer = True
    status_subresource = True
    generation = True
    columns = (NAME, integer("Validations"), Column("ParamKind"), AGE)

    def default(self, document: Document) -> None:
        """A failing policy refuses."""
        document.setdefault("spec", {}).setdefault("failurePolicy", "Fail")

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
    """ValidatingAdmissionPolicyBindings: stored."""

    any_finalizer = True
    generation = True
    columns = (NAME, Column("PolicyName"), Column("ParamRef"), AGE)

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
