# SPDX-License-Identifier: Apache-2.0
"""Leases: validation and table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause


class LeaseStrategy(Strategy):
    """Leases: whoever wants one may write it by PUT, new or not."""

    any_finalizer = True
    create_on_update = True
    unconditional_update = False
    columns = (NAME, Column("Holder"), AGE)

    def default(self, document: Document) -> None:
        """The spec is always written."""
        document.setdefault("spec", {})

    def validate(self, document: Document) -> list[StatusCause]:
        """Lengths and counts."""
        causes = Causes()
        spec = document["spec"]
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            causes.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
        causes.negative("spec.leaseTransitions", spec.get("leaseTransitions"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        holder = section(document, "spec").get("holderIdentity", "")
        return [document["metadata"]["name"], holder, age_of(document, now_seconds)]
