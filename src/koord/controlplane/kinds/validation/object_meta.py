# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an object's ``metadata``: the same rules for every kind, built-in or custom.

Names, labels, annotations, owner references, finalizers (apimachinery's ``ValidateObjectMeta``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import IMMUTABLE, Causes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.controlplane.resource import Resource


ANNOTATIONS_LIMIT_BYTES = 256 * 1024

_FIXED = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_NAME_RULES: dict[str, Callable[[str], names.NameErrors]] = {
    "namespaces": names.dns_label,
    "services": names.dns_1035_label,
    "roles.rbac.authorization.k8s.io": names.path_segment,
    "rolebindings.rbac.authorization.k8s.io": names.path_segment,
    "clusterroles.rbac.authorization.k8s.io": names.path_segment,
    "clusterrolebindings.rbac.authorization.k8s.io": names.path_segment,
}


def validate_create(resource: Resource, document: Document) -> Causes:
    """What is wrong with the metadata of a new object whose name has been generated already."""
    metadata = document["metadata"]
    causes = Causes()
    rule = _NAME_RULES.get(resource.storage, names.dns_subdomain)
    if (prefix := metadata.get("generateName")) and (whys := rule(names.as_prefix(prefix))):
        causes.invalid_all("metadata.generateName", prefix, whys)
    name = metadata.get("name")
    if not name:
        causes.required("metadata.name", "name or generateName is required")
    elif whys := rule(name):
        causes.invalid_all("metadata.name", name, whys)
    _check_namespace(resource, metadata, causes)
    _check_common(metadata, causes)
    _check_qualified(resource, metadata, causes)
    return causes


def validate_update(resource: Resource, document: Document, old: Document) -> Causes:
    """What is wrong with the metadata of a change: fixed fields, new finalizers while deleted."""
    metadata, before = document["metadata"], old["metadata"]
    causes = Causes()
    if before.get("deletionTimestamp"):
        added = set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ())
        if added:
            listed = ", ".join(json.dumps(name) for name in sorted(added))
            why = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.forbidden("metadata.finalizers", why)
    for key in _FIXED:
        if metadata.get(key) != before.get(key):
            causes.invalid(f"metadata.{key}", metadata.get(key), IMMUTABLE)
    _check_common(metadata, causes)
    _check_qualified(resource, metadata, causes)
    return causes


def check_labels(labels: Mapping[str, str], path: str, causes: Causes) -> None:
    """Adds what is wrong with a map of labels."""
    for key, value in labels.items():
        if whys := names.label_key(key):
            causes.invalid_all(path, key, whys)
        if whys := names.label_value(value):
            causes.invalid_all(path, value, whys)


def check_annotations(annotations: Mapping[str, str], path: str, causes: Causes) -> None:
    """Adds what is wrong with a map of annotations."""
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if whys := names.label_key(key.lower()):
            causes.invalid_all(path, key, whys)
    if size > ANNOTATIONS_LIMIT_BYTES // 4:  # only then may the count of bytes be over the limit
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > ANNOTATIONS_LIMIT_BYTES:
            causes.too_long(path, ANNOTATIONS_LIMIT_BYTES)


def _check_namespace(resource: Resource, metadata: Document, causes: Causes) -> None:
    namespace = metadata.get("namespace")
    if not resource.namespaced:
        if namespace:
            causes.forbidden("metadata.namespace", "not allowed on this type")
    elif not namespace:
        causes.required("metadata.namespace")
    elif whys := names.dns_label(namespace):
        causes.invalid_all("metadata.namespace", namespace, whys)


def _check_common(metadata: Document, causes: Causes) -> None:
    if labels := metadata.get("labels"):
        check_labels(labels, "metadata.labels", causes)
    if annotations := metadata.get("annotations"):
        check_annotations(annotations, "metadata.annotations", causes)
    if owners := metadata.get("ownerReferences"):
        _check_owners(owners, causes)
    if finalizers := metadata.get("finalizers"):
        _check_finalizers(finalizers, causes)


def _check_owners(owners: list[Document], causes: Causes) -> None:
    path, controller = "metadata.ownerReferences", ""
    for owner in owners:
        if not owner.get("apiVersion", "").rpartition("/")[2]:
            why = "version must not be empty"
            causes.invalid(f"{path}.apiVersion", owner.get("apiVersion", ""), why)
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                causes.invalid(f"{path}.{key}", "", "must not be empty")
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            why = "/v1, Kind=Event is disallowed from being an owner"
            causes.invalid(path, owner, why)
        if owner.get("controller"):
            named = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                why = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {named}'
                )
                causes.invalid(path, owners, why)
            else:
                controller = named


def _check_qualified(resource: Resource, metadata: Document, causes: Causes) -> None:
    """Finalizers of most built-in kinds have a domain, but for those of Kubernetes itself."""
    finalizers = metadata.get("finalizers")
    if not finalizers or resource.strategy.any_finalizer:
        return
    for index, name in enumerate(finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            causes.invalid(f"metadata.finalizers[{index}]", name, why)


def _check_finalizers(finalizers: list[str], causes: Causes) -> None:
    path = "metadata.finalizers"
    for name in finalizers:
        if whys := names.label_key(name):
            causes.invalid_all(path, name, whys)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.invalid(path, finalizers, why)
