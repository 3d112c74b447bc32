# SPDX-License-Identifier: Apache-2.0
"""The least of an API server: objects by path, versions, lists in pages, watches, and bad days.

It is a transport, so that everything above the transport is under test. What it keeps is plain, so
that a test can ask what is true.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from koord.kube.errors import ApiError, Status, TransportError
from koord.kube.transport.messages import Request, Response

Document = dict[str, Any]


class FakeServer:
    """Objects of all kinds; documents are kept as they are sent, with uid and version added."""

    def __init__(self) -> None:
        self.version = 100
        self.oldest = 100
        self.objects: dict[str, Document] = {}
        self.history: list[tuple[int, str, str, bytes]] = []
        self.requests: Counter[str] = Counter()
        self.snapshots: dict[str, tuple[list[bytes], int]] = {}
        self.streams: list[FakeStream] = []
        self.streams_lists = True
        self._uids = count(1)
        # A test's way to delay or fail a request: called before it takes effect and after.
        self.before: Callable[[Request], Any] | None = None
        self.after: Callable[[Request], Any] | None = None

    # What a test does to the server.

    def put(self, path: str, **fields: Any) -> Document:
        """Creates or replaces the object of a path such as ``/api/v1/namespaces/a/pods/b``."""
        old = self.objects.get(path)
        document: Document = {**fields, "metadata": {**fields.get("metadata", {})}}
        return self._store(path, document, old)

    def remove(self, path: str) -> None:
        document = self.objects.pop(path)
        self.version += 1
        last = {**document["metadata"], "resourceVersion": str(self.version)}
        self._log("DELETED", path, {**document, "metadata": last})

    def compact(self) -> None:
        """Forgets the past: watches and pages of older versions are 410 from now on."""
        self.oldest = self.version
        self.history.clear()
        self.snapshots.clear()

    def cut(self) -> None:
        """Breaks every watch."""
        for stream in self.streams:
            stream.fail(TransportError("cut"))

    def end(self) -> None:
        """Ends every watch in good order, as a server does after its timeout."""
        for stream in self.streams:
            stream.fail(None)

    def bookmark(self) -> None:
        meta = {"metadata": {"resourceVersion": str(self.version)}}
        for stream in self.streams:
            stream.push(_event("BOOKMARK", meta))

    def expire(self) -> None:
        """Tells every watch that its version is too old, in the stream."""
        self.compact()
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        for stream in self.streams:
            stream.push(_event("ERROR", status))
            stream.fail(None)

    # The transport.

    async def send(self, request: Request) -> Response:
        verb = self._verb(request)
        self.requests[verb] += 1
        await _call(self.before, request)
        answer = self._answer(verb, request)
        await _call(self.after, request)
        return answer

    async def open(self, request: Request) -> FakeStream:
        self.requests["watch"] += 1
        await _call(self.before, request)
        query = dict(request.query)
        if query.get("sendInitialEvents"):
            return self._streamed_list(request)
        since = int(query["resourceVersion"])
        if since < self.oldest:
            raise _refusal(410, "Expired", "too old resource version")
        past = [
            event for version, _, path, event in self.history
            if version > since and path.startswith(request.path + "/")
        ]  # fmt: skip
        stream = FakeStream(self, request.path + "/", past)
        self.streams.append(stream)
        return stream

    async def close(self) -> None:
        self.end()

    def _verb(self, request: Request) -> str:
        whole = request.path.rpartition("/")[2] in ("pods", "configmaps", "leases", "events")
        return "list" if whole and request.method == "GET" else request.method.lower()

    def _answer(self, verb: str, request: Request) -> Response:
        path = request.path
        if verb == "list":
            return self._page(request)
        if verb == "post":
            document = msgspec.json.decode(request.body)
            path = f"{path}/{document['metadata']['name']}"
            if path in self.objects:
                return _failure(409, "AlreadyExists", f"{path} already exists")
            return _ok(self._store(path, document, None), 201)
        old = self.objects.get(path)
        if old is None:
            return _failure(404, "NotFound", f"{path} not found")
        if verb == "get":
            return _ok(old)
        if verb == "delete":
            self.remove(path)
            return _ok(old)
        document = msgspec.json.decode(request.body)
        wanted = document.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return _failure(409, "Conflict", "the object has been modified")
        if verb == "patch":
            document = {**old, **document, "metadata": {**old["metadata"]}}
        return _ok(self._store(path, document, old))

    def _streamed_list(self, request: Request) -> FakeStream:
        if not self.streams_lists:
            raise _refusal(422, "Invalid", "sendInitialEvents is forbidden")
        meta = {"resourceVersion": str(self.version)}
        end = {"metadata": {**meta, "annotations": {"k8s.io/initial-events-end": "true"}}}
        events = [_event("ADDED", document) for document in self._under(request.path)]
        stream = FakeStream(self, request.path + "/", [*events, _event("BOOKMARK", end)])
        self.streams.append(stream)
        return stream

    def _under(self, path: str) -> list[Document]:
        return [
            document for stored, document in sorted(self.objects.items(), key=lambda item: item[0])
            if any(form.startswith(path + "/") for form in _forms(stored))
        ]  # fmt: skip

    def _page(self, request: Request) -> Response:
        query = dict(request.query)
        token, limit = query.get("continue", ""), int(query.get("limit", "0"))
        if token:
            if token not in self.snapshots:
                return _failure(410, "Expired", "the provided continue parameter is too old")
            items, version = self.snapshots.pop(token)
        else:
            items = [msgspec.json.encode(document) for document in self._under(request.path)]
            version = self.version
        meta: Document = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            token = f"t{self.requests.total()}"
            self.snapshots[token] = (items[limit:], version)
            meta["continue"] = token
            items = items[:limit]
        body = msgspec.json.encode({"metadata": meta, "items": [msgspec.Raw(i) for i in items]})
        return Response(200, body)

    def _store(self, path: str, document: Document, old: Document | None) -> Document:
        self.version += 1
        *_, name = path.split("/")
        meta = document.setdefault("metadata", {})
        meta |= {"name": name, "resourceVersion": str(self.version)}
        meta["uid"] = old["metadata"]["uid"] if old else f"uid-{next(self._uids)}"
        if "/namespaces/" in path:
            meta["namespace"] = path.split("/namespaces/")[1].split("/")[0]
        self.objects[path] = document
        self._log("MODIFIED" if old else "ADDED", path, document)
        return document

    def _log(self, kind: str, path: str, document: Document) -> None:
        # Watches of all namespaces are told under the path without one.
        event = _event(kind, document)
        for told in _forms(path):
            self.history.append((self.version, kind, told, event))
            for stream in self.streams:
                if told.startswith(stream.prefix):
                    stream.push(event)


class FakeStream:
    def __init__(self, server: FakeServer, prefix: str, events: list[bytes]) -> None:
        self.prefix = prefix
        self._server = server
        self._events = events
        self._ending: list[TransportError | None] = []
        self._wake = asyncio.Event()
        if events:
            self._wake.set()

    def push(self, event: bytes) -> None:
        if self._ending:
            return
        self._events.append(event)
        self._wake.set()

    def fail(self, error: TransportError | None) -> None:
        self._ending.append(error)
        self._wake.set()

    async def read(self) -> list[bytes]:
        await self._wake.wait()
        if self._events:
            events, self._events = self._events, []
            if not self._ending:
                self._wake.clear()
            return events
        if self._ending[0] is not None:
            raise self._ending[0]
        return []

    async def close(self) -> None:
        if self in self._server.streams:
            self._server.streams.remove(self)


def _forms(path: str) -> list[str]:
    """The path, and the one under which a list of all namespaces finds the object."""
    head, mark, tail = path.partition("/namespaces/")
    if not mark or "/" not in tail:
        return [path]
    namespace, plural, name = tail.split("/")
    return [path, f"{head}/{plural}/{namespace}/{name}"]


def _event(kind: str, document: Document) -> bytes:
    return msgspec.json.encode({"type": kind, "object": document})


def _ok(document: Document, status: int = 200) -> Response:
    return Response(status, msgspec.json.encode(document))


def _failure(code: int, reason: str, message: str) -> Response:
    return Response(code, msgspec.json.encode(_status(code, reason, message)))


def _refusal(code: int, reason: str, message: str) -> ApiError:
    return ApiError(_status(code, reason, message))


def _status(code: int, reason: str, message: str) -> Status:
    return Status(status="Failure", code=code, reason=reason, message=message)


async def _call(hook: Callable[[Request], Any] | None, request: Request) -> None:
    if hook is not None:
        waiting = hook(request)
        if waiting is not None:
            await waiting
