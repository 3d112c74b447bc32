# SPDX-License-Identifier: Apache-2.0
"""Ingresses."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import NONE, section
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NO_PART = ("//", "/./", "/../", "%2f", "%2F")
_NO_END = ("/..", "/.")
_PRINTED_HOSTS, _ADDRESS_WIDTH = 3, 16
_LABELS = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD = rf"\*\.{_LABELS}"
_is_wildcard = re.compile(_WILDCARD).fullmatch


class IngressStrategy(Strategy):
    """Ingresses."""

    status_subresource = True
    generation = True
    columns = (NAME, *map(Column, ("Class", "Hosts", "Address", "Ports")), AGE)

    def prepare_create(self, document: Document, context: Context) -> None:
        """A new one has no addresses."""
        document["status"] = {"loadBalancer": {}}

    def validate(self, document: Document) -> list[StatusCause]:
        """Rules, backends, certificates; the class is named once."""
        causes = Causes()
        spec = document.setdefault("spec", {})
        _check_spec(spec, causes)
        annotations = document["metadata"].get("annotations") or {}
        told, named = annotations.get(CLASS_ANNOTATION), spec.get("ingressClassName")
        if told is not None and named is not None and told != named:
            why = "must match `ingressClassName` when both are specified"
            causes.invalid(f"annotations.{CLASS_ANNOTATION}", told, why)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """All may change; the annotation is not looked at again."""
        causes = Causes()
        if document.get("spec") is not old.get("spec"):
            _check_spec(document.setdefault("spec", {}), causes)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec = section(document, "spec")
        addresses = {
            entry.get("ip") or entry.get("hostname") or ""
            for entry in section(document, "status", "loadBalancer").get("ingress") or ()
        }
        text = ",".join(sorted(addresses - {""}))
        if len(text) > _ADDRESS_WIDTH:
            text = f"{text[: _ADDRESS_WIDTH - 3]}..."
        return [
            document["metadata"]["name"],
            spec.get("ingressClassName", NONE),
            _hosts(spec.get("rules") or ()),
            text,
            "80, 443" if spec.get("tls") else "80",
            age_of(document, now_seconds),
        ]


def _hosts(rules: Any) -> str:
    hosts = [rule["host"] for rule in rules if rule.get("host")][:_PRINTED_HOSTS]
    if not hosts:
        return "*"
    more = len(hosts) == _PRINTED_HOSTS and len(rules) > _PRINTED_HOSTS
    return ",".join(hosts) + (f" + {len(rules) - _PRINTED_HOSTS} more..." if more else "")


def _check_spec(spec: Document, causes: Causes) -> None:
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        why = "either `defaultBackend` or `rules` must be specified"
        causes.invalid("spec", spec.get("rules") or None, why)
    if backend is not None:
        _check_backend(backend, "spec.defaultBackend", causes)
    for index, rule in enumerate(rules):
        _check_rule(rule, f"spec.rules[{index}]", causes)
    for index, tls in enumerate(spec.get("tls") or ()):
        path = f"spec.tls[{index}]"
        for number, host in enumerate(tls.get("hosts") or ()):
            causes.invalid_all(f"{path}.hosts[{number}]", host, _host_faults(host))
        if secret := tls.get("secretName"):
            causes.invalid_all(f"{path}.secretName", secret, names.dns_subdomain(secret))
    if (name := spec.get("ingressClassName")) is not None:
        causes.invalid_all("spec.ingressClassName", name, names.dns_subdomain(name))


def _check_rule(rule: Document, path: str, causes: Causes) -> None:
    if host := rule.get("host"):
        if _is_address(host):
            causes.invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        causes.invalid_all(f"{path}.host", host, _host_faults(host))
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        causes.required(f"{path}.http.paths")
    for index, entry in enumerate(http.get("paths") or ()):
        _check_path(entry, f"{path}.http.paths[{index}]", causes)


def _check_path(entry: Document, path: str, causes: Causes) -> None:
    kind, text = entry.get("pathType"), entry.get("path", "")
    if kind is None:
        causes.required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        causes.not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        causes.invalid(f"{path}.path", text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _NO_PART:
            if part in text:
                causes.invalid(f"{path}.path", text, f"must not contain '{part}'")
        for end in _NO_END:
            if text.endswith(end):
                causes.invalid(f"{path}.path", text, f"cannot end with '{end}'")
    _check_backend(entry.get("backend") or {}, f"{path}.backend", causes)


def _check_backend(backend: Document, path: str, causes: Causes) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        causes.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        check_reference(resource, f"{path}.resource", causes)
    elif service is not None:
        _check_service(service, path, causes)
    else:
        causes.invalid(path, "", "resource or service backend is required")


def check_reference(reference: Document, path: str, causes: Causes) -> None:
    """Checks a reference to an object of any kind."""
    if (group := reference.get("apiGroup")) is not None:
        causes.invalid_all(f"{path}.apiGroup", group, names.dns_subdomain(group))
    for key in ("kind", "name"):
        value = reference.get(key, "")
        if not value:
            causes.required(f"{path}.{key}")
        else:
            causes.invalid_all(f"{path}.{key}", value, names.path_segment(value))


def _check_service(service: Document, path: str, causes: Causes) -> None:
    name, port = service.get("name", ""), service.get("port") or {}
    if not name:
        causes.required(f"{path}.service.name")
    else:
        causes.invalid_all(f"{path}.service.name", name, names.dns_1035_label(name))
    word, number = port.get("name", ""), port.get("number", 0)
    if word and number:
        causes.invalid(path, "", "cannot set both port name & port number")
    elif word:
        causes.invalid_all(f"{path}.service.port.name", word, names.port_name(word))
    elif number:
        causes.invalid_all(f"{path}.service.port.number", number, names.port_number(number))
    else:
        causes.required(path, "port name or number is required")


def _host_faults(host: str) -> tuple[str, ...]:
    if "*" not in host:
        return names.dns_subdomain(host)
    if _is_wildcard(host):
        return ()
    words = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
        "which must consist of lower case alphanumeric characters, '-' or '.' and end with an "
        "alphanumeric character"
    )
    return (f"{words} (e.g. '*.example.com', regex used for validation is '{_WILDCARD}')",)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
