# SPDX-License-Identifier: Apache-2.0
"""How custom resources and their definitions behave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.controlplane.ages import age
from koord.controlplane.api_errors import invalid_value
from koord.controlplane.customresources.jsonpath import JsonPath
from koord.controlplane.resource import Column, ScalePaths, Strategy
from koord.controlplane.schema import check_crd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.base.documents import Document
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_TERMINATING_SOON = {
    "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
    "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin "
    "soon",
}  # fmt: skip
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


class CustomStrategy(Strategy):
    """Objects of one version of a definition.

    Args:
        version: an entry of ``spec.versions``.
        api_version: that objects must name.
        kind: the same.
    """

    any_finalizer = True
    generation = True
    unconditional_update = False

    def __init__(self, version: Document, api_version: str, kind: str) -> None:
        self._identity = {"apiVersion": api_version, "kind": kind}
        subresources = version.get("subresources") or {}
        self.status_subresource = "status" in subresources
        if "scale" in subresources:
            self.scale = _scale(subresources["scale"])
        columns = version.get("additionalPrinterColumns") or [_AGE]
        self.columns = (
            Column("Name", format="name"),
            *(_column(column) for column in columns),
        )
        self._cells = [(column["type"], JsonPath(column["jsonPath"])) for column in columns]
        paths = [field["jsonPath"] for field in version.get("selectableFields") or ()]
        self.selectable = tuple(path.removeprefix(".") for path in paths)
        self._selected = [JsonPath(path) for path in paths]

    def validate(self, document: Document) -> list[StatusCause]:
        """Another kind or version than the definition's."""
        return [
            invalid_value(key, document.get(key), f"must be {wanted}")
            for key, wanted in self._identity.items()
            if document.get(key) != wanted
        ]

    def fields(self, document: Document) -> Mapping[str, str]:
        """The selectable fields; empty text for one that is not set."""
        found = {}
        for name, path in zip(self.selectable, self._selected, strict=True):
            values = path.find(document)
            found[name] = _text(values[0]) if values else ""
        return found

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The name and the additional printer columns."""
        cells: list[Any] = [document["metadata"]["name"]]
        for kind, path in self._cells:
            values = path.find(document)
            cells.append(_cell(kind, values[0], now_seconds) if values else None)
        return cells


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions."""

    any_finalizer = True
    cleanup_finalizer = CLEANUP
    status_subresource = True
    generation = True
    columns = (Column("Name", format="name"), Column("Created At", "date"))

    def prepare_delete(self, document: Document, context: Context) -> None:
        """Tells that the instances go first; a definition has no grace of its own."""
        document["metadata"].pop("deletionGracePeriodSeconds", None)
        put_condition(document.setdefault("status", {}), _TERMINATING_SOON, context.now)

    def default(self, document: Document) -> None:
        """Singular and list kind from the kind; versions without conversion."""
        spec = document.setdefault("spec", {})
        names = spec.setdefault("names", {})
        if kind := names.get("kind"):
            names["singular"] = names.get("singular") or kind.lower()
            names["listKind"] = names.get("listKind") or f"{kind}List"
        conversion = spec.setdefault("conversion", {})
        conversion.setdefault("strategy", "None")

    def validate(self, document: Document) -> list[StatusCause]:
        """What is wrong with a definition."""
        return check_crd(document)

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The same, and what stays for good."""
        causes = self.validate(document)
        spec, before = document["spec"], old["spec"]
        fixed = (
            ("spec.group", spec.get("group"), before.get("group")),
            ("spec.scope", spec.get("scope"), before.get("scope")),
            ("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural")),
            ("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind")),
        )
        causes += [invalid_value(field, new, "field is immutable")
                   for field, new, old_value in fixed if new != old_value]  # fmt: skip
        return causes

    def prepare_create(self, document: Document, context: Context) -> None:
        """Nothing is accepted or stored yet."""
        document["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""},
                              "storedVersions": []}  # fmt: skip

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """Name and time of creation."""
        meta = document["metadata"]
        return [meta["name"], meta.get("creationTimestamp")]


def put_condition(status: Document, condition: Document, now: str) -> bool:
    """Puts a condition in place of the one of its type; whether that made a difference."""
    conditions = status.get("conditions") or []
    status["conditions"] = conditions
    for index, present in enumerate(conditions):
        if present["type"] == condition["type"]:
            since = present["lastTransitionTime"]
            since = since if present["status"] == condition["status"] else now
            conditions[index] = _dated(condition, since)
            return bool(conditions[index] != present)
    conditions.append(_dated(condition, now))
    return True


def _dated(condition: Document, since: str) -> Document:
    kind, status = condition["type"], condition["status"]
    return {"type": kind, "status": status, "lastTransitionTime": since, **condition}


def _scale(scale: Document) -> ScalePaths:
    return ScalePaths(
        scale["specReplicasPath"].lstrip("."),
        scale["statusReplicasPath"].lstrip("."),
        (scale.get("labelSelectorPath") or "").lstrip("."),
    )


def _column(column: Document) -> Column:
    return Column(
        column["name"],
        column["type"],
        column.get("format", ""),
        column.get("description", ""),
        column.get("priority", 0),
    )


def _cell(kind: str, value: Any, now_seconds: float) -> Any:
    """A value as kube-apiserver's table convertor shows it."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return value if number else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind == "date":
        try:
            return age(value, now_seconds) if isinstance(value, str) else None
        except ValueError:
            return "<invalid>"
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
