# SPDX-License-Identifier: Apache-2.0
"""What a controller's decision is made of: writes, events, a status, a time to look again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object
    from koord.api.kinds.registry import Kind
    from koord.base.documents import Document
    from koord.kube.events import EventType


@dataclass(frozen=True)
class Create:
    """Make an object; that it exists already is fine where ``exists_ok``."""

    kind: Kind
    document: Document
    exists_ok: bool = False

    @property
    def namespace(self) -> str:
        """Where the object will live."""
        namespace: str = self.document["metadata"].get("namespace", "")
        return namespace


@dataclass(frozen=True)
class PatchAction:
    """Change an object.

    Attributes:
        body: a merge patch; with ``strategic`` a strategic merge patch.
        subresource: ``status`` or nothing.
    """

    kind: Kind
    namespace: str
    name: str
    body: Document
    subresource: str = ""
    strategic: bool = False


@dataclass(frozen=True)
class Delete:
    """Remove the object of this uid; that it is gone already is fine.

    Attributes:
        propagation: what becomes of what it owns; None for the kind's own rule.
        grace_period_seconds: None for the pod's own.
        resource_version: only this version goes, for what a newer one may decide otherwise; empty
            for any. That there is a newer one is fine too: its event is on the way.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    propagation: str | None = None
    grace_period_seconds: int | None = None
    resource_version: str = ""


@dataclass(frozen=True)
class ObjectEvent:
    """An event on the object that the plan is for."""

    reason: str
    message: str
    type: EventType = "Normal"


Action = Create | PatchAction | Delete | ObjectEvent


@dataclass
class Plan:
    """What to do for one object.

    Attributes:
        actions: in this order; runs of the same type may go out together.
        status: what the status should be; None to leave it.
        again_seconds: when to look again though nothing changes; None for never.
    """

    actions: list[Action] = field(default_factory=list)
    status: Document | None = None
    again_seconds: float | None = None

    def again(self, seconds: float | None) -> None:
        """Looks again after ``seconds``, or sooner if that is planned."""
        if seconds is not None:
            known = self.again_seconds
            self.again_seconds = seconds if known is None else min(known, seconds)


def delete(
    kind: Kind,
    target: Object,
    propagation: str | None = None,
    grace_period_seconds: int | None = None,
) -> Delete:
    """The deletion of a known object."""
    metadata = target.metadata
    return Delete(
        kind, metadata.namespace, metadata.name, metadata.uid, propagation, grace_period_seconds
    )


def patch(
    kind: Kind, target: Object, body: Document, subresource: str = "", strategic: bool = False
) -> PatchAction:
    """The change of a known object; it fails if another one has taken the name."""
    metadata = target.metadata
    body = {**body, "metadata": {"uid": metadata.uid, **body.get("metadata", {})}}
    return PatchAction(kind, metadata.namespace, metadata.name, body, subresource, strategic)
