# SPDX-License-Identifier: Apache-2.0
"""A transport that notes which permissions a component's requests needed, and what was refused."""

from __future__ import annotations

from koord.kube.errors import ApiError, TransportError
from koord.kube.transport.messages import Request, Response, Stream, Transport
from tests.real.rbac.grants import Grant, asked

_FORBIDDEN = 403


class Recorder:
    """See the head of this file.

    Attributes:
        used: by grant, the first request that needed it and was not refused for want of it.
        forbidden: requests that were.
        lose: the answer of the next request that needs such a grant is lost on its way back.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.used: dict[Grant, Request] = {}
        self.forbidden: list[str] = []
        self.lose: set[tuple[str, str]] = set()

    async def send(self, request: Request) -> Response:
        answer = await self._inner.send(request)
        grant = self._note(request, answer.status)
        if grant is not None and (grant.verb, grant.resource) in self.lose:
            self.lose.discard((grant.verb, grant.resource))
            raise TransportError("lost on the way back")
        return answer

    async def open(self, request: Request) -> Stream:
        try:
            stream = await self._inner.open(request)
        except ApiError as error:
            self._note(request, error.http_status)
            raise
        self._note(request, 200)
        return stream

    async def close(self) -> None:
        await self._inner.close()

    def _note(self, request: Request, status: int) -> Grant | None:
        grant = asked(request)
        if grant is None:
            return None
        if status == _FORBIDDEN:
            self.forbidden.append(str(grant))
        else:
            self.used.setdefault(grant, request)
        return grant
