# SPDX-License-Identifier: Apache-2.0
"""Whether a CustomResourceDefinition may be stored."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from koord.controlplane.api_errors import invalid_value, not_supported, required
from koord.controlplane.schema.custom.structural_rules import structure_causes
from koord.controlplane.schema.custom.validation_rules import rule_causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.base.documents import Document
    from koord.kube.errors import StatusCause

APPROVAL = "api-approved.kubernetes.io"
_LABEL_1035 = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_BAD_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def check_crd(definition: Document) -> list[StatusCause]:
    """What is wrong with a definition, as a kube-apiserver tells it.

    Args:
        definition: with the names that defaulting fills in (``singular``, ``listKind``).
    """
    spec = definition.get("spec") or {}
    found = list(_group(definition, spec))
    found += _names(spec.get("names") or {})
    if not spec.get("scope"):
        found.append(required("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        found.append(not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    if spec.get("preserveUnknownFields"):
        told = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        found.append(invalid_value("spec.preserveUnknownFields", True, told))
    found += _versions(spec.get("versions") or [])
    found += _conversion(spec.get("conversion") or {})
    return found


def _group(definition: Document, spec: Document) -> Iterator[StatusCause]:
    metadata = definition.get("metadata") or {}
    group, plural = spec.get("group") or "", (spec.get("names") or {}).get("plural") or ""
    name = metadata.get("name") or ""
    if name != f"{plural}.{group}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    elif not _SUBDOMAIN.fullmatch(group):
        yield invalid_value("spec.group", group, _BAD_SUBDOMAIN)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    if group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io"):
        yield from _approval((metadata.get("annotations") or {}).get(APPROVAL) or "")


def _approval(value: str) -> Iterator[StatusCause]:
    where = f"metadata.annotations[{APPROVAL}]"
    must = f'protected groups must have approval annotation "{APPROVAL}"'
    see = ", see https://github.com/kubernetes/enhancements/pull/1111"
    if not value:
        yield required(where, must + see)
    elif not value.startswith("unapproved") and not re.match("https?://[^/]", value):
        told = f'{must} with either a URL or a reason starting with "unapproved"{see}'
        yield invalid_value(where, value, told)


def _names(names: Document) -> Iterator[StatusCause]:
    for key in ("plural", "singular", "kind", "listKind"):
        value, where = names.get(key) or "", f"spec.names.{key}"
        cased = key in ("kind", "listKind")
        if not value:
            yield required(where)
        elif not _LABEL_1035.fullmatch(value.lower() if cased else value):
            mixed = "may have mixed case, but should otherwise match: " if cased else ""
            yield invalid_value(where, value, mixed + _BAD_LABEL)
    for key in ("shortNames", "categories"):
        for number, value in enumerate(names.get(key) or ()):
            if not _LABEL_1035.fullmatch(value):
                yield invalid_value(f"spec.names.{key}[{number}]", value, _BAD_LABEL)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        told = "kind and listKind may not be the same"
        yield invalid_value("spec.names.listKind", names["listKind"], told)


def _versions(versions: list[Document]) -> Iterator[StatusCause]:
    names = [version.get("name") for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        told = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", names, told)
    if len(set(names)) < len(names):
        told = "must contain unique version names"
        yield invalid_value("spec.versions", names, told)
    # A kube-apiserver keeps what all versions have alike one level up, and says so.
    shared = {key: _is_shared(versions, key) for key in _COLUMN_PATHS}
    for number, version in enumerate(versions):
        name = version.get("name") or ""
        if not _LABEL_1035.fullmatch(name):
            yield invalid_value(f"spec.versions[{number}].name", name, _BAD_LABEL)
        for key, (place, check) in _COLUMN_PATHS.items():
            where = f"spec.{place}" if shared[key] else f"spec.versions[{number}].{key}"
            if number == 0 or not shared[key]:
                yield from check(version.get(key), where, number)


def _is_shared(versions: list[Document], key: str) -> bool:
    return all(version.get(key) == versions[0].get(key) for version in versions)


def _schema(schema: Any, path: str, number: int) -> Iterator[StatusCause]:
    openapi = (schema or {}).get("openAPIV3Schema")
    if openapi is None:
        yield required(f"spec.versions[{number}].schema.openAPIV3Schema")
    else:
        where = f"{path}.openAPIV3Schema"
        yield from structure_causes(openapi, where) or rule_causes(openapi, where)


def _subresources(subresources: Any, path: str, number: int) -> Iterator[StatusCause]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for key, below in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        value, where = scale.get(key) or "", f"{path}.scale.{key}"
        if not value:
            yield required(where)
        elif not value.startswith("."):
            yield invalid_value(where, value, "must be a simple json path starting with .")
        elif not value.startswith(f".{below}."):
            yield invalid_value(where, value, f"should be a json path under .{below}")


def _columns(columns: Any, path: str, number: int) -> Iterator[StatusCause]:
    for place, column in enumerate(columns or ()):
        where = f"{path}[{place}]"
        if not column.get("name"):
            yield required(f"{where}.name")
        if column.get("type") not in _COLUMN_TYPES:
            told = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield invalid_value(f"{where}.type", column.get("type") or "", told)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            told = f"must be one of {','.join(_COLUMN_FORMATS)}"
            yield invalid_value(f"{where}.format", column["format"], told)
        json_path = column.get("jsonPath") or ""
        if not json_path:
            yield required(f"{where}.JSONPath")
        elif not json_path.startswith("."):
            told = "must be a simple json path starting with ."
            yield invalid_value(f"{where}.JSONPath", json_path, told)


def _conversion(conversion: Document) -> Iterator[StatusCause]:
    strategy = conversion.get("strategy", "None")
    if strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif strategy == "Webhook":
        webhook = conversion.get("webhook") or {}
        if not webhook.get("clientConfig"):
            told = "required when strategy is set to Webhook"
            yield required("spec.conversion.webhookClientConfig", told)
        if not webhook.get("conversionReviewVersions"):
            yield required("spec.conversion.conversionReviewVersions")


_COLUMN_PATHS: dict[str, tuple[str, Any]] = {
    "schema": ("validation", _schema),
    "subresources": ("subresources", _subresources),
    "additionalPrinterColumns": ("additionalPrinterColumns", _columns),
}
