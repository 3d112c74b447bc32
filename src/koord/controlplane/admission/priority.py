# SPDX-License-Identifier: Apache-2.0
"""The numbers behind ``priorityClassName``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.controlplane.admission.plugin import AdmissionPlugin, LookupCache
from koord.controlplane.api_errors import forbidden
from koord.controlplane.kinds.cluster.priority_classes import SYSTEM_CLASSES

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.extension import Attributes, Reader

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
PREEMPT = "PreemptLowerPriority"


class _Class(NamedTuple):
    name: str
    value: int
    policy: str


_NO_CLASS = _Class("", 0, PREEMPT)


class Priority(AdmissionPlugin):
    """Kubernetes' plugin Priority: pods get a value, classes one global default."""

    mutates = True
    validates = True
    resources = ("pods", PRIORITY_CLASSES)
    depends_on = (PRIORITY_CLASSES,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._classes = LookupCache(reader, PRIORITY_CLASSES, self._look_up)

    def mutate(self, attributes: Attributes) -> None:
        """Sets ``priority`` and ``preemptionPolicy`` of a new pod; an update keeps the old ones."""
        if attributes.resource.storage != "pods" or attributes.subresource:
            return
        if attributes.document is None:
            return
        spec: Document = attributes.document["spec"]
        if attributes.operation == "UPDATE":
            before = (attributes.old or {}).get("spec") or {}
            for key in ("priority", "preemptionPolicy"):
                if key not in spec and key in before:
                    spec[key] = before[key]
        elif attributes.operation == "CREATE":
            self._set(attributes, spec)

    def validate(self, attributes: Attributes) -> None:
        """At most one class is the global default."""
        document = attributes.document
        if attributes.resource.storage != PRIORITY_CLASSES or document is None:
            return
        if not document.get("globalDefault"):
            return
        default = self._classes.get("")
        if default is not None and default.name not in ("", attributes.name):
            why = (
                f"PriorityClass {default.name} is already marked as default. "
                "Only one default can exist"
            )
            raise forbidden(attributes.resource, attributes.name, why)

    def _set(self, attributes: Attributes, spec: Document) -> None:
        name = spec.get("priorityClassName") or ""
        found = self._classes.get(name)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(attributes.resource, attributes.name, why)
        if found.name:
            spec["priorityClassName"] = found.name
        given = spec.get("priority")
        if given is not None and given != found.value:
            why = (
                f"the integer value of priority ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {found.value} "
                "from the given PriorityClass name"
            )
            raise forbidden(attributes.resource, attributes.name, why)
        policy = spec.get("preemptionPolicy")
        if policy is not None and policy != found.policy:
            why = (
                f"the string value of PreemptionPolicy ({policy}) must not be provided in pod "
                f"spec; priority admission controller computed {found.policy} "
                "from the given PriorityClass name"
            )
            raise forbidden(attributes.resource, attributes.name, why)
        spec["priority"], spec["preemptionPolicy"] = found.value, found.policy

    def _look_up(self, name: str) -> _Class | None:
        """A class; for no name the global default (of several the lowest) or none at all."""
        if name:
            document = self._reader.document(PRIORITY_CLASSES, "", name)
            if document is None and name in SYSTEM_CLASSES:
                return _Class(name, SYSTEM_CLASSES[name], PREEMPT)
            return None if document is None else _read(document)
        defaults = [
            _read(document)
            for document in self._reader.documents(PRIORITY_CLASSES)
            if document.get("globalDefault")
        ]
        return min(defaults, key=lambda entry: entry.value, default=_NO_CLASS)


def _read(document: Document) -> _Class:
    policy = document.get("preemptionPolicy") or PREEMPT
    return _Class(document["metadata"]["name"], document.get("value", 0), policy)
