# SPDX-License-Identifier: Apache-2.0
"""What a bundle has of the API server: versions, objects, events, logs.

Each file is asked for by itself: what is refused or not there is a line of its own, and the rest
comes nevertheless.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from koord.cli.commands.bundle import allow_list
from koord.cli.commands.bundle.allow_list import CONFIGURATIONS, kept
from koord.kube.errors import TransportError
from koord.kube.transport.messages import Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from koord.base.documents import Document
    from koord.cli.commands.bundle.allow_list import BundledKind, Tree
    from koord.cli.commands.bundle.archive import Bundle
    from koord.kube.transport.messages import Transport

PAGE, MOST_OBJECTS = 500, 2000
MOST_PENDING, MOST_EVENTS, MOST_AGENTS = 200, 2000, 10
LOG_LINES, LOG_BYTES = 5000, 2 << 20
_SECONDS: Final = 30.0
_KOORD: Final = ("koord", "kubelet")


class MissingPartError(Exception):
    """Why something cannot be had, a line."""


class ClusterFiles:
    """Asks an API server for what a bundle has.

    Args:
        transport: the way there.
        bundle: gets the files.
        namespace: koord's own.
    """

    def __init__(self, transport: Transport, bundle: Bundle, namespace: str) -> None:
        self._transport, self._bundle, self._namespace = transport, bundle, namespace
        self.own_pods: list[Document] = []
        self.leases: list[Document] = []

    async def version(self) -> None:
        """The server's version."""
        await self._part("versions/kubernetes.json", "/version")

    async def kind(self, kind: BundledKind) -> None:
        """The objects of a kind, with the fields that are kept."""
        name = f"objects/{kind.name}.json"
        try:
            found = await self._list(kind.path.format(namespace=self._namespace), name)
        except MissingPartError as error:
            self._bundle.note_problem(name, str(error))
            return
        if kind.name == "own-pods":
            self.own_pods = found
        if kind.name == "leases":
            self.leases = found
        self._objects(name, found, kind.fields)

    async def configurations(self) -> None:
        """koord's ConfigMaps."""
        for name in CONFIGURATIONS:
            file = f"configuration/{name}.json"
            path = f"/api/v1/namespaces/{self._namespace}/configmaps/{name}"
            await self._part(file, path, allow_list.configuration)

    async def pending(self) -> None:
        """Pods of all namespaces that have no node."""
        name, selector = "objects/pending-pods.json", ("fieldSelector", "spec.nodeName=")
        try:
            found = await self._list("/api/v1/pods", name, selector, most=MOST_PENDING)
        except MissingPartError as error:
            self._bundle.note_problem(name, str(error))
            return
        self._objects(name, found, allow_list.POD)

    async def events(self) -> None:
        """Events of koord's namespace, and what koord's programs said elsewhere; the last ones."""
        name = "events.json"
        try:
            found = await self._list("/api/v1/events", name, most=20 * MOST_EVENTS)
        except MissingPartError as error:
            self._bundle.note_problem(name, str(error))
            return
        chosen = [event for event in found if self._is_ours(event)]
        chosen.sort(key=_when)
        if len(chosen) > MOST_EVENTS:
            self._bundle.note_problem(name, f"the last {MOST_EVENTS} of {len(chosen)}")
        last = chosen[-MOST_EVENTS:]
        self._bundle.document(name, [kept(event, allow_list.EVENT) for event in last])

    def _is_ours(self, event: Document) -> bool:
        source = event.get("reportingComponent") or event.get("source", {}).get("component") or ""
        inside = event.get("metadata", {}).get("namespace") == self._namespace
        return inside or source.startswith(_KOORD)

    async def logs(self) -> None:
        """The end of the logs of koord's pods, of few agents; of a container that died, too."""
        agents = 0
        if not self.own_pods:
            self._bundle.note_problem(
                "logs", f"no pod runs in {self._namespace}; --log FILE adds a file"
            )
        for pod in self.own_pods:
            name = pod["metadata"]["name"]
            if not name.startswith("koord"):
                continue
            agents += name.startswith("koordlet")
            if name.startswith("koordlet") and agents > MOST_AGENTS:
                continue
            for container in pod.get("status", {}).get("containerStatuses", []):
                await self._log(name, container["name"], previous=False)
                if container.get("restartCount"):
                    await self._log(name, container["name"], previous=True)
        if agents > MOST_AGENTS:
            self._bundle.note_problem("logs", f"of {MOST_AGENTS} of {agents} agents")

    async def _log(self, pod: str, container: str, previous: bool) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/log"
        query = [
            ("container", container), ("tailLines", str(LOG_LINES)),
            ("limitBytes", str(LOG_BYTES)), ("timestamps", "true"),
        ]  # fmt: skip
        if previous:
            query.append(("previous", "true"))
        name = f"logs/{pod}-{container}{'-previous' if previous else ''}.log"
        try:
            answer = await self._get(path, *query)
        except MissingPartError as error:
            self._bundle.note_problem(name, str(error))
            return
        self._bundle.text(name, answer.body.decode(errors="replace"))

    def _objects(self, name: str, documents: list[Document], fields: Tree) -> None:
        self._bundle.document(name, [kept(each, fields) for each in documents])

    async def _part(
        self, name: str, path: str, chosen: Callable[[Document], Document] = dict
    ) -> None:
        try:
            document = json.loads((await self._get(path)).body)
        except MissingPartError as error:
            self._bundle.note_problem(name, str(error))
            return
        self._bundle.document(name, chosen(document))

    async def _list(
        self, path: str, name: str, *query: tuple[str, str], most: int = MOST_OBJECTS
    ) -> list[Document]:
        """The objects of a list in the server's order, no more than so many."""
        found: list[Document] = []
        async for items, more in self._pages(path, query):
            found += items
            if len(found) > most or (len(found) == most and more):
                self._bundle.note_problem(name, f"the first {most} objects")
                return found[:most]
        return found

    async def _pages(
        self, path: str, query: tuple[tuple[str, str], ...]
    ) -> AsyncIterator[tuple[list[Document], bool]]:
        token = ""
        while True:
            paging = [("limit", str(PAGE)), *([("continue", token)] if token else [])]
            document = json.loads((await self._get(path, *query, *paging)).body)
            token = document.get("metadata", {}).get("continue") or ""
            yield document.get("items") or [], bool(token)
            if not token:
                return

    async def _get(self, path: str, *query: tuple[str, str]) -> Response:
        request = Request("GET", path, query, timeout_seconds=_SECONDS)
        try:
            answer = await self._transport.send(request)
        except (TransportError, TimeoutError, OSError) as error:
            raise MissingPartError(str(error) or type(error).__name__) from None
        if answer.status != 200:
            raise MissingPartError(_refusal(answer))
        return answer


def _refusal(answer: Response) -> str:
    """What the server said, a line."""
    try:
        said: Any = json.loads(answer.body).get("message", "")
    except (ValueError, AttributeError):
        said = ""
    return f"HTTP status {answer.status}{f': {said}' if said else ''}"


def _when(event: Document) -> tuple[str, str]:
    """When it was last said; then by name, so that the order does not change."""
    series = event.get("series") or {}
    last = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    return last or "", event.get("metadata", {}).get("name", "")
