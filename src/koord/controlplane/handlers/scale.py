# SPDX-License-Identifier: Apache-2.0
"""The scale subresource of every resource whose strategy says where its numbers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.api_errors import bad_request, failure, invalid_value, no_such_path
from koord.controlplane.handlers.metadata import NO_VERSION, modified
from koord.kube.errors import StatusDetails

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.resource import Resource, ScalePaths

_MOST = (1 << 31) - 1


def scale_of(resource: Resource, document: Document) -> Document:
    """The ``Scale`` of an object.

    Raises:
        ApiError: 404, the resource has none.
    """
    paths = _paths(resource)
    meta = document["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Document = {"replicas": _at(document, paths.status_replicas) or 0}
    if selector := _selector(_at(document, paths.selector)):
        status["selector"] = selector
    spec = {"replicas": replicas} if (replicas := _at(document, paths.spec_replicas)) else {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": spec,
        "status": status,
    }


def scaled(resource: Resource, document: Document, scale: Document) -> Document:
    """The object with the number that a ``Scale`` asks for; changes the document.

    Raises:
        ApiError: 400 or 422, the Scale is wrong; 409, it is of another version.
    """
    paths = _paths(resource)
    meta, name = scale.get("metadata") or {}, document["metadata"]["name"]
    if not isinstance(meta, dict) or not isinstance(scale.get("spec", {}), dict):
        raise bad_request("the body of the request is not a Scale")
    version = meta.get("resourceVersion")
    if version not in NO_VERSION and version != document["metadata"]["resourceVersion"]:
        raise modified(resource, name)
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas > _MOST:
        raise bad_request("spec.replicas: expected an integer of 32 bits")
    if replicas < 0:
        why = "must be greater than or equal to 0"
        cause = invalid_value("spec.replicas", replicas, why)
        message = f'Scale.autoscaling "{name}" is invalid: {cause.field}: {cause.message}'
        details = StatusDetails(name=name, group="autoscaling", kind="Scale", causes=[cause])
        raise failure(422, "Invalid", message, details)
    *parents, last = paths.spec_replicas.split(".")
    place = document
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = replicas
    return document


def _paths(resource: Resource) -> ScalePaths:
    if resource.strategy.scale is None:
        raise no_such_path()
    return resource.strategy.scale


def _at(document: Document, path: str) -> Any:
    found: Any = document
    for part in path.split(".") if path else ():
        found = found.get(part) if isinstance(found, dict) else None
    return None if found is document else found


def _selector(selector: Any) -> str:
    """A label selector as text; custom resources keep it as text already."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for entry in selector.get("matchExpressions") or ():
        key, values = entry["key"], ",".join(sorted(entry.get("values") or ()))
        operator = entry["operator"]
        if operator == "Exists":
            terms.append(key)
        elif operator == "DoesNotExist":
            terms.append(f"!{key}")
        else:
            terms.append(f"{key} {operator.lower()} ({values})")
    return ",".join(sorted(terms))
