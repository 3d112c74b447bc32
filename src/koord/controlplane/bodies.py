# SPDX-License-Identifier: Apache-2.0
"""Bodies that no schema checks: options, subresources, applied documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.codec import parse_json
from koord.base.documents import decode_text, parse_documents
from koord.base.errors import KoordError
from koord.controlplane.failures import bad_request
from koord.controlplane.schema import protobuf
from koord.controlplane.schema.wire import WireError
from koord.kube.messages import JSON

if TYPE_CHECKING:
    from koord.controlplane.resource import Document

YAML = "application/yaml"
PROTOBUF = protobuf.MEDIA_TYPE
MEDIA_TYPES = (JSON, YAML, PROTOBUF)


def media_type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip()


def plain(body: bytes, content_type: str) -> Document:
    """The document of a body in one of :data:`MEDIA_TYPES`; JSON if it is of another.

    Raises:
        ApiError: 400, it is none.
    """
    media = media_type(content_type)
    try:
        if media == PROTOBUF:
            return protobuf.document(body)
        if media == YAML:
            documents = parse_documents(decode_text(body, "body"), "body")
            found: Any = documents[0] if len(documents) == 1 else None
        else:
            found = parse_json(body, "body")
    except (KoordError, WireError) as error:
        raise bad_request(f"error decoding the body: {error}") from None
    if not isinstance(found, dict):
        raise bad_request("the body of the request is not an object")
    return found
