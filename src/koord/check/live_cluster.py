# SPDX-License-Identifier: Apache-2.0
"""A cluster for checks: gets and lists, each once, and nothing that writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.kube.errors import unless_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.meta import Object
    from koord.api.kinds.registry import Kind
    from koord.base.documents import Document
    from koord.kube.client import Client


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
        self._documents: dict[tuple[str, str], list[Document]] = {}

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

    def documents(self, kind: Kind) -> Sequence[Document]:
        """As :meth:`all`, each object whole and as it was sent; its kind is not said in it."""
        key = kind.group, kind.name
        if key not in self._documents:
            found = self._runner.run(unless_missing(self._client.list(kind)))
            self._documents[key] = list(found.items) if found is not None else []
        return self._documents[key]

    def document(self, kind: Kind, name: str, namespace: str) -> Document | None:
        """As :meth:`get`, the object whole and as it was sent; it is asked for each time."""
        return self._runner.run(unless_missing(self._client.get(kind, name, namespace)))

    def _listed(self, kind: Kind) -> list[Any] | None:
        key = kind.group, kind.name
        if key not in self._lists:
            self._lists[key] = self._runner.run(self._pages(kind))
        return self._lists[key]

    async def _got(self, kind: Kind, name: str, namespace: str) -> Object | None:
        return await unless_missing(self._client.get(kind.type, name, namespace))

    async def _pages(self, kind: Kind) -> list[Any] | None:
        found = await unless_missing(self._client.list(kind.type))
        return None if found is None else list(found.items)
