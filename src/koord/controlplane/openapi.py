# SPDX-License-Identifier: Apache-2.0
"""``/openapi/v2`` and ``/openapi/v3``: routes to the documents of :mod:`.schema.openapi`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.api_errors import method_not_allowed, no_such_path
from koord.controlplane.schema.openapi_documents.documents import (
    V2_PROTOBUF,
    V2_PROTOBUF_SENT,
    OpenApi,
)
from koord.kube.transport.messages import JSON, Response

if TYPE_CHECKING:
    from koord.controlplane.catalog import Catalog
    from koord.kube.transport.messages import Request


class OpenApiPages:
    """Serves the documents of what the catalog has; made anew when that changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._revision = -1
        self._documents = OpenApi(())

    async def serve(self, request: Request) -> Response:
        """The answer to a request below ``/openapi``.

        Raises:
            ApiError: 404 or 405.
        """
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if self._revision != self._catalog.revision:
            self._revision = self._catalog.revision
            self._documents = OpenApi(self._catalog.resources())
        path = request.path.rstrip("/").removeprefix("/openapi/")
        if path == "v2":
            if V2_PROTOBUF in request.accept:
                return Response(200, self._documents.v2_protobuf, V2_PROTOBUF_SENT)
            return Response(200, self._documents.v2)
        if path == "v3":
            return Response(200, self._documents.index)
        document = self._documents.v3(path.removeprefix("v3/")) if path.startswith("v3/") else None
        if document is None:
            raise no_such_path()
        etag = self._documents.hash(path.removeprefix("v3/"))
        return Response(200, document, JSON, {"etag": f'"{etag}"'})
