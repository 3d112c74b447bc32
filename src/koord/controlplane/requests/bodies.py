# SPDX-License-Identifier: Apache-2.0
"""Bodies beside those of objects: options, subresources, applied documents."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.codec import parse_json
from koord.base.documents import decode_text, parse_documents
from koord.base.errors import KoordError
from koord.controlplane.api_errors import bad_request, too_large, unsupported_media_type
from koord.controlplane.schema import core_schema
from koord.controlplane.schema.proto import protobuf
from koord.controlplane.schema.proto.wire import WireError
from koord.kube.transport.messages import JSON

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.resource import Resource
    from koord.controlplane.schema import CoreSchema
    from koord.kube.transport.messages import Request

YAML = "application/yaml"
PROTOBUF = protobuf.MEDIA_TYPE
# Reviews are read at once: longer ones would hold the loop, and none has so much to say.
REVIEW_LIMIT_BYTES = 128 << 10
_YAML_WEIGHT = 4
_NO_YAML = (b"{", b"k8s\x00")  # JSON, protobuf
MEDIA_TYPES = (JSON, YAML, PROTOBUF)


def media_type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip()


def weight_bytes(body: bytes) -> int:
    """What a body costs to read, in bytes of JSON: YAML takes many times as long."""
    return len(body) * (1 if body.startswith(_NO_YAML) else _YAML_WEIGHT)


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


def review(body: bytes, content_type: str) -> Document:
    """The document of a review's body, which says little.

    Raises:
        ApiError: 400, as for :func:`plain`; 413, it is longer than a review is.
    """
    if weight_bytes(body) > REVIEW_LIMIT_BYTES:
        raise too_large(REVIEW_LIMIT_BYTES)
    return plain(body, content_type)


def decoded(
    request: Request, resource: Resource, field_validation: str
) -> tuple[Document, list[str]]:
    """The object of a request's body, checked and cleaned by its schema, and the warnings.

    Raises:
        ApiError: 415, it is in no known form; what ``Schema.decode`` says.
    """
    media, body = media_type(request.content_type), request.body
    if media and media not in MEDIA_TYPES:
        raise unsupported_media_type(media, MEDIA_TYPES)
    if media and media != JSON:
        body = msgspec.json.encode(plain(body, media))
    return resource.schema.decode(body, field_validation)


def checked(document: Document, group: str, version: str, kind: str) -> Document:
    """The document with the fields of a core type alone.

    Raises:
        ApiError: 400, a value of the wrong type.
    """
    api_version = f"{group}/{version}" if group else version
    named = {**document, "apiVersion": api_version, "kind": kind}
    return _schema(group, version, kind).decode(msgspec.json.encode(named), "Ignore")[0]


@lru_cache
def _schema(group: str, version: str, kind: str) -> CoreSchema:
    return core_schema(group, version, kind)
