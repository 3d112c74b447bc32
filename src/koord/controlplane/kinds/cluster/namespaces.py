# SPDX-License-Identifier: Apache-2.0
"""Namespaces: active until deleted, then terminating until ``spec.finalizers`` is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.ages import age
from koord.controlplane.kinds.documents import bring, section
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    """Namespaces (``registry/core/namespace``)."""

    status_subresource = True
    returns_deleted = True
    columns = (Column("Name", format="name"), Column("Status"), Column("Age"))
    selectable = ("status.phase", "name")

    def default(self, document: Document) -> None:
        """The label with the name; a phase."""
        metadata = document.setdefault("metadata", {})
        if metadata.get("name"):
            metadata.setdefault("labels", {})[NAME_LABEL] = metadata["name"]
        document.setdefault("spec", {})
        status = document.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Active"

    def prepare_create(self, document: Document, context: Context) -> None:
        """Active, and held by the namespace controller."""
        metadata = document["metadata"]
        if metadata.get("name"):  # a generated name has come since the defaults were set
            metadata.setdefault("labels", {})[NAME_LABEL] = metadata["name"]
        document["status"] = {"phase": "Active"}
        finalizers = document["spec"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def prepare_update(self, document: Document, old: Document, context: Context) -> None:
        """Finalizers of the spec go through ``/finalize``, the status through ``/status``."""
        bring(document, old, "status")
        bring(document["spec"], section(old, "spec"), "finalizers")

    def prepare_subresource(
        self, subresource: str, document: Document, old: Document, context: Context
    ) -> None:
        """Through ``/finalize`` only the finalizers of the spec change."""
        if subresource == "finalize":
            bring(document, old, "status")
        else:
            self.prepare_status(document, old, context)

    def prepare_delete(self, document: Document, context: Context) -> None:
        """A namespace that is going is Terminating."""
        document["status"] = {**section(document, "status"), "phase": "Terminating"}

    def stays(self, document: Document) -> bool:
        """Until the namespace controller has emptied it."""
        return bool(section(document, "spec").get("finalizers"))

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Only a deleted namespace is terminating."""
        causes = Causes()
        phase = section(document, "status").get("phase", "")
        deleted = "deletionTimestamp" in document["metadata"]
        if phase != ("Terminating" if deleted else "Active"):
            wanted = "Terminating" if deleted else "Active"
            when = "not empty" if deleted else "empty"
            why = f"may only be '{wanted}' if `deletionTimestamp` is {when}"
            causes.invalid("status.Phase", phase, why)
        return causes

    def fields(self, document: Document) -> Mapping[str, str]:
        """The phase; ``name`` is an old word for ``metadata.name``."""
        return {
            "status.phase": section(document, "status").get("phase", ""),
            "name": document["metadata"].get("name", ""),
        }

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        phase = section(document, "status").get("phase", "")
        return [metadata["name"], phase, age(metadata.get("creationTimestamp"), now_seconds)]
