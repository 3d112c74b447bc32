# SPDX-License-Identifier: Apache-2.0
"""What goes to an API server and comes back, before anything is decoded.

A transport carries these over HTTP or calls a server in the same process; everything above it is
the same for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.kube.errors import TransportError

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
APPLY_PATCH = "application/apply-patch+yaml"


class Request(msgspec.Struct, frozen=True, gc=False):
    """A call to an API server.

    Attributes:
        method: HTTP verb in capitals.
        path: percent-encoded path from the root, e.g. ``/api/v1/pods``.
        query: parameters in order, not yet encoded.
        body: what is sent; empty for none.
        content_type: of the body.
        accept: what may come back.
        user_agent: who asks.
        timeout_seconds: until the whole answer is there; None for no limit. For a watch: until
            the answer has begun.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    user_agent: str = ""
    timeout_seconds: float | None = None


class Response(msgspec.Struct, frozen=True, gc=False):
    """An answer of an API server.

    Attributes:
        status: HTTP status.
        body: the whole body.
        content_type: of the body.
        headers: other headers that matter here (``retry-after``), in lower case.
        warnings: texts of the ``Warning`` headers.
    """

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it is none of the refusals, nor sends elsewhere."""
        return 200 <= self.status < 300


class Stream(Protocol):
    """A watch in progress."""

    async def read(self) -> list[bytes]:
        """Waits for events and gives all that are there, each the JSON of one watch event.

        Returns:
            At least one event, or an empty list when the server has ended the watch.

        Raises:
            TransportError: the connection broke.
        """
        ...

    async def close(self) -> None:
        """Gives the connection back; may be called more than once."""
        ...


class Transport(Protocol):
    """Carries requests to one API server."""

    async def send(self, request: Request) -> Response:
        """Sends a request and waits for the whole answer, whatever its status.

        Raises:
            TransportError: no answer came.
        """
        ...

    async def open(self, request: Request) -> Stream:
        """Begins a watch.

        Raises:
            ApiError: the server answered with another status than 200.
            TransportError: no answer came.
        """
        ...

    async def close(self) -> None:
        """Ends all connections; may be called more than once."""
        ...


@runtime_checkable
class PipeliningTransport(Transport, Protocol):
    """A transport that can send several writes in one go."""

    @property
    def pipelines(self) -> bool:
        """Whether it does, on its way to this server."""
        ...

    async def send_all(self, requests: Sequence[Request]) -> list[Response | TransportError]:
        """Sends writes over one connection without a wait for answers between them.

        A server takes them one after the other. That costs a fraction of the CPU of as many calls
        of :meth:`send`, and is for what may be written twice without harm: where the connection
        breaks, those that have no answer may have had an effect.

        Args:
            requests: at least one; the shortest of their timeouts is that of all.

        Returns:
            What became of each, in order.
        """
        ...
