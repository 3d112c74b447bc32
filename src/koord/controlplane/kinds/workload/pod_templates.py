# SPDX-License-Identifier: Apache-2.0
"""PodTemplates, and ControllerRevisions, which hold what templates were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import NONE, section
from koord.controlplane.kinds.pod.defaults import default_template
from koord.controlplane.kinds.pod.spec_validation import check_template
from koord.controlplane.kinds.table_cells import (
    AGE,
    NAME,
    age_of,
    container_cells,
    labels_text,
)
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause


class ControllerRevisionStrategy(Strategy):
    """ControllerRevisions: data that never changes under a number that may."""

    columns = (NAME, Column("Controller"), Column("Revision"), AGE)

    def validate(self, document: Document) -> list[StatusCause]:
        """There is data, and the number is not negative."""
        causes = Causes()
        if "data" not in document:
            causes.required("data", "data is mandatory")
        causes.negative("revision", document.setdefault("revision", 0))
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The data is fixed."""
        causes = Causes(self.validate(document))
        causes.fixed("data", document.get("data"), old.get("data"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        owners = metadata.get("ownerReferences") or ()
        owner = next((entry for entry in owners if entry.get("controller")), None)
        named = NONE
        if owner is not None:
            group = owner["apiVersion"].rpartition("/")[0]
            kind = owner["kind"].lower() + (f".{group}" if group else "")
            named = f"{kind}/{owner['name']}"
        revision = document.get("revision", 0)
        return [metadata["name"], named, revision, age_of(document, now_seconds)]


class PodTemplateStrategy(Strategy):
    """PodTemplates."""

    returns_deleted = True
    generation = True
    columns = (NAME, Column("Containers"), Column("Images"), Column("Pod Labels"))

    def default(self, document: Document) -> None:
        """As for the templates of workloads."""
        default_template(document.setdefault("template", {}))

    def validate(self, document: Document) -> list[StatusCause]:
        """As for the templates of workloads."""
        causes = Causes()
        check_template(document["template"], "template", causes)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        template = section(document, "template")
        labels = labels_text(section(template, "metadata").get("labels"))
        return [
            document["metadata"]["name"],
            *container_cells(section(template, "spec")),
            labels,
        ]
