# SPDX-License-Identifier: Apache-2.0
"""Events of both groups: stored as ``v1``, converted for ``events.k8s.io/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.ages import age
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.kube.errors import StatusCause


_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
# Names in events.k8s.io/v1, and what v1 calls the same.
_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


class EventStrategy(Strategy):
    """Core events."""

    columns = (
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        Column("Subobject", priority=1),
        Column("Source", priority=1),
        Column("Message"),
        Column("First Seen", priority=1),
        Column("Count", priority=1),
        Column("Name", format="name", priority=1),
    )
    selectable = (
        *(f"involvedObject.{name}" for name in _OBJECT_FIELDS),
        "reason",
        "reportingComponent",
        "source",
        "type",
    )

    def default(self, document: Document) -> None:
        """The fields that are always written."""
        document.setdefault("involvedObject", {})
        document.setdefault("source", {})
        document.setdefault("reportingComponent", "")
        document.setdefault("reportingInstance", "")

    def validate(self, document: Document) -> list[StatusCause]:
        """An event lies beside its object; new-style ones say more."""
        causes = Causes()
        namespace = document["metadata"].get("namespace", "")
        about = document["involvedObject"].get("namespace", "")
        if not (about == namespace or (not about and namespace == "default")):
            why = "does not match event.namespace"
            causes.invalid("involvedObject.namespace", about, why)
        if document.get("eventTime"):
            _check_new_style(document, causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Series and counts go on."""
        return self.validate(document)

    def fields(self, document: Document) -> Mapping[str, str]:
        """What it is about, why, from whom."""
        about, source = document.get("involvedObject") or {}, document.get("source") or {}
        fields = {f"involvedObject.{name}": about.get(name, "") for name in _OBJECT_FIELDS}
        fields["reason"] = document.get("reason", "")
        fields["reportingComponent"] = document.get("reportingComponent", "")
        component = source.get("component") or document.get("reportingComponent", "")
        fields["source"] = component
        fields["type"] = document.get("type", "")
        return fields

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        about, series = document.get("involvedObject") or {}, document.get("series")
        first = age(document.get("firstTimestamp") or document.get("eventTime"), now_seconds)
        last = document.get("lastTimestamp")
        last_seen = age(last, now_seconds) if last else first
        count = document.get("count") or 1
        if series:
            last_seen = age(series.get("lastObservedTime"), now_seconds)
            count = series.get("count", 0)
        kind, name = about.get("kind", "").lower(), about.get("name")
        return [
            last_seen,
            document.get("type", ""),
            document.get("reason", ""),
            f"{kind}/{name}" if name else kind,
            about.get("fieldPath", ""),
            _source(document),
            document.get("message", "").strip(),
            first,
            count,
            document["metadata"]["name"],
        ]


class EventsGroupStrategy(EventStrategy):
    """The same events under ``events.k8s.io/v1``."""

    converts = True
    selectable = (
        *(f"regarding.{name}" for name in _OBJECT_FIELDS),
        "reason",
        "reportingController",
        "type",
    )

    def default(self, document: Document) -> None:
        """The fields that are always written."""
        document.setdefault("deprecatedSource", {})
        document.setdefault("regarding", {})

    def validate(self, document: Document) -> list[StatusCause]:
        """As for core events, and new-style in any case."""
        causes = Causes()
        core = dict(document)
        self.to_storage(core)
        if not core.get("eventTime"):
            causes.required("eventTime")
            core.pop("eventTime", None)
            _check_type(core, causes)
        causes.extend(super().validate(core))
        return causes

    def to_storage(self, document: Document) -> None:
        """As v1 names the fields."""
        for new, old in _RENAMED.items():
            if new in document:
                document[old] = document.pop(new)
        super().default(document)

    def from_storage(self, document: Document) -> None:
        """As events.k8s.io/v1 names the fields."""
        for new, old in _RENAMED.items():
            if old in document:
                document[new] = document.pop(old)
        for name in ("reportingController", "reportingInstance"):
            if not document.get(name):
                document.pop(name, None)

    def fields(self, document: Document) -> Mapping[str, str]:
        """Those of core events, under the names of this group."""
        core = dict(document)
        if "regarding" in core:
            self.to_storage(core)
        found = super().fields(core)
        named = {f"regarding.{name}": found[f"involvedObject.{name}"] for name in _OBJECT_FIELDS}
        named["reason"], named["type"] = found["reason"], found["type"]
        named["reportingController"] = found["reportingComponent"]
        return named

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        core = dict(document)
        if "regarding" in core:
            self.to_storage(core)
        return super().row(core, now_seconds)


def _check_new_style(document: Document, causes: Causes) -> None:
    for field in ("reportingComponent", "reportingInstance", "action", "reason"):
        if not document.get(field):
            shown = "reportingController" if field == "reportingComponent" else field
            causes.required(shown)
    _check_type(document, causes)
    for field, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
        if len(document.get(field) or "") > limit:
            causes.invalid(field, "", f"can have at most {limit} characters")
    if len(document.get("message") or "") > 1024:
        causes.invalid("message", "", "can have at most 1024 characters")


def _check_type(document: Document, causes: Causes) -> None:
    kind = document.get("type", "")
    if kind not in ("Normal", "Warning"):
        causes.invalid("type", "", f"has invalid value: {kind}")


def _source(document: Document) -> str:
    source = section(document, "source")
    component = source.get("component") or document.get("reportingComponent") or ""
    instance = source.get("host") or document.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component
