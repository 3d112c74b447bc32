# SPDX-License-Identifier: Apache-2.0
"""What comes with a request, read and unpacked no further than a body may be long."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from aiohttp import web

from koord.controlplane.api_errors import bad_request, failure, too_large
from koord.kube.errors import StatusDetails

if TYPE_CHECKING:
    from koord.kube.errors import ApiError

BODY_LIMIT_BYTES = 3 << 20
# For a whole request to arrive, so that half-sent ones do not pile up; as kube-apiserver.
REQUEST_SECONDS = 32.0
# What zlib calls a stream with either header.
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


async def body_of(request: web.BaseRequest) -> bytes:
    """The body of a request, unpacked.

    Raises:
        ApiError: 400, it has not arrived in time or is damaged; 413, it is longer than
            :data:`BODY_LIMIT_BYTES`; 415, it is packed in a way that is not known here.
    """
    if not request.can_read_body:
        return b""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large(BODY_LIMIT_BYTES) from None
    except TimeoutError:
        raise bad_request("the body did not arrive") from None
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise _unknown_encoding()
    # 3 MiB are unpacked in 10 ms, whatever they say would follow.
    return unpacked(body)


def unpacked(body: bytes) -> bytes:
    """A gzip or zlib stream without its packing.

    Raises:
        ApiError: 400, it is none; 413, it is longer than :data:`BODY_LIMIT_BYTES`.
    """
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        plain = stream.decompress(body, BODY_LIMIT_BYTES + 1)
    except zlib.error:
        raise bad_request("the body is not packed as its Content-Encoding says") from None
    if len(plain) > BODY_LIMIT_BYTES:
        raise too_large(BODY_LIMIT_BYTES)
    if not stream.eof:
        raise bad_request("the body ends before its packing does")
    return plain


def _unknown_encoding() -> ApiError:
    message = "the body of the request has an unknown Content-Encoding: gzip and deflate are read"
    return failure(415, "UnsupportedMediaType", message, StatusDetails())
