# SPDX-License-Identifier: Apache-2.0
"""The patch types of the Kubernetes API, as bodies ready to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.codec import to_json
from koord.kube.transport.messages import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)

if TYPE_CHECKING:
    from koord.api.kinds.meta import ObjectMeta


class Patch(msgspec.Struct, frozen=True):
    """A change to an object.

    Attributes:
        content_type: which rules of merging apply.
        body: the change as JSON.
        conditional: whether the server refuses it if the object is not as expected, so that
            sending it twice does no harm.
    """

    content_type: str
    body: bytes
    conditional: bool = False

    @classmethod
    def json(cls, operations: list[dict[str, Any]]) -> Patch:
        """Operations of RFC 6902; a ``test`` among them makes it conditional."""
        tested = any(operation.get("op") == "test" for operation in operations)
        return cls(JSON_PATCH, to_json(operations), tested)

    @classmethod
    def merge(cls, change: dict[str, Any]) -> Patch:
        """RFC 7386: maps are merged, null deletes, everything else replaces."""
        return cls(MERGE_PATCH, to_json(change), _names_version(change))

    @classmethod
    def strategic(cls, change: dict[str, Any]) -> Patch:
        """As merge, but lists of core kinds merge by their keys; custom resources refuse it."""
        return cls(STRATEGIC_MERGE_PATCH, to_json(change), _names_version(change))

    @classmethod
    def apply(cls, document: object) -> Patch:
        """The fields that the field manager wants and owns, as a document or a typed object."""
        # Server-side apply gives the same object however often it is sent.
        return cls(APPLY_PATCH, to_json(document), True)


def preconditions_of(metadata: ObjectMeta) -> dict[str, str]:
    """What goes into a patch's ``metadata`` so that it is refused if anybody wrote since."""
    return {"uid": metadata.uid, "resourceVersion": metadata.resource_version}


def _names_version(change: dict[str, Any]) -> bool:
    metadata = change.get("metadata")
    return isinstance(metadata, dict) and bool(
        metadata.get("resourceVersion") or metadata.get("uid")
    )
