# SPDX-License-Identifier: Apache-2.0
"""A few objects by name, each followed by a watch of its own; what was written counts at once.

Whoever may not watch them still gets them: until a watch has its object, and while it has lost its
way, they are asked for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from koord.kube.errors import ApiError
from koord.kube.informers.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.api.kinds.registry import Kind
    from koord.base.documents import Document
    from koord.base.supervision import Supervisor
    from koord.kube.client import Client


class NamedObject(NamedTuple):
    """Which object; ``namespace`` is empty for kinds without."""

    kind: Kind
    name: str
    namespace: str = ""


class WatchedDocuments:
    """Objects as the API server has them.

    Args:
        client: lists, watches and gets.
        objects: which.
        supervisor: keeps the watches going.
        changed: called whenever one of them is another than was last told or written.
    """

    def __init__(
        self,
        client: Client,
        objects: Iterable[NamedObject],
        supervisor: Supervisor,
        changed: Callable[[], None],
    ) -> None:
        self._client, self._changed = client, changed
        self._written: dict[NamedObject, Document] = {}
        self._informers: dict[NamedObject, Informer[Document]] = {}
        for each in objects:
            selection = f"metadata.name={each.name}"
            informer: Informer[Document] = Informer(
                client, each.kind, namespace=each.namespace, field_selector=selection,
                share=False, supervisor=supervisor,
            )  # fmt: skip
            self._informers[each] = informer
            self._follow(each, informer)

    def _follow(self, named: NamedObject, informer: Informer[Document]) -> None:
        informer.on_change(
            lambda document: self._seen(named, document),
            lambda _, document: self._seen(named, document),
            lambda _gone, _missed: self._seen(named, None),
        )

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._informers.values():
                tasks.create_task(each.run(), name=f"watch of {each.name}")

    async def get(self, named: NamedObject) -> Document | None:
        """An object as it is, which nobody changes; None where there is none.

        Raises:
            ApiError: the server refuses.
            OSError: no answer.
        """
        informer = self._informers[named]
        if not (informer.has_synced and informer.connected):
            return await self.fresh(named)
        key = f"{named.namespace}/{named.name}" if named.namespace else named.name
        known, written = informer.get(key), self._written.get(named)
        if written is not None and (known is None or _version(known) < _version(written)):
            return written
        return known

    async def fresh(self, named: NamedObject) -> Document | None:
        """An object past what is known; otherwise as :meth:`get`."""
        try:
            document: Document = await self._client.get(named.kind, named.name, named.namespace)
        except ApiError as error:
            if error.http_status != 404:
                raise
            self._written.pop(named, None)
            return None
        self.keep(named, document)
        return document

    def keep(self, named: NamedObject, document: Document) -> None:
        """Takes note of what was written or read, until the watch brings it."""
        self._written[named] = document

    def _seen(self, named: NamedObject, document: Document | None) -> None:
        written = self._written.get(named)
        if written is not None and document is not None and _version(document) < _version(written):
            return
        self._written.pop(named, None)
        if document is None or written is None or _version(document) != _version(written):
            self._changed()


def _version(document: Document) -> int:
    text = str((document.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
