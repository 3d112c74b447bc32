# SPDX-License-Identifier: Apache-2.0
"""A cluster for checks: gets and lists, each once, and nothing that writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.meta import Object
    from koord.api.kinds.registry import Kind
    from koord.kube.client import Client

_NOT_FOUND = 404


class LiveCluster:
    """A cluster that is read, each object and each kind once; calls block until it has answered.

    Args:
        runner: whose loop the client's connections belong to.
        client: the way to the cluster.
    """

    def __init__(self, runner: asyncio.Runner, client: Client) -> None:
        self._runner = runner
        self._client = client
        self._objects: dict[tuple[str, str, str, str], Object | None] = {}
        self._lists: dict[tuple[str, str], list[Any] | None] = {}

    def get(self, kind: Kind, name: str, namespace: str) -> Object | None:
        """An object; None if there is none, or its kind is not served.

        Raises:
            ApiError: the cluster refuses to tell.
            ConnectionError: it cannot be reached.
        """
        key = kind.group, kind.name, namespace, name
        if key not in self._objects:
            self._objects[key] = self._runner.run(self._got(kind, name, namespace))
        return self._objects[key]

    def serves(self, kind: Kind) -> bool:
        """Whether the cluster has a kind; raises as :meth:`get`."""
        return self._listed(kind) is not None

    def all(self, kind: Kind) -> Sequence[Any]:
        """All objects of a kind, none if it is not served; raises as :meth:`get`."""
        return self._listed(kind) or []

    def _listed(self, kind: Kind) -> list[Any] | None:
        key = kind.group, kind.name
        if key not in self._lists:
            self._lists[key] = self._runner.run(self._pages(kind))
        return self._lists[key]

    async def _got(self, kind: Kind, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(kind.type, name, namespace)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
            return None

    async def _pages(self, kind: Kind) -> list[Any] | None:
        try:
            return list((await self._client.list(kind.type)).items)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
            return None
