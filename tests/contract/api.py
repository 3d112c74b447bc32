# SPDX-License-Identifier: Apache-2.0
"""A plain HTTP client for the contract tests: one request, one answer, documents as dicts.

It shares nothing with ``koord.kube``, so that a mistake there cannot hide one in the server.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

Document = dict[str, Any]

TIMEOUT_SECONDS = 20.0
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_GROUPS = {
    "/api/v1": "configmaps endpoints events namespaces nodes persistentvolumeclaims "
    "persistentvolumes pods replicationcontrollers secrets serviceaccounts services",
    "/apis/admissionregistration.k8s.io/v1": "mutatingwebhookconfigurations "
    "validatingwebhookconfigurations",
    "/apis/apiextensions.k8s.io/v1": "customresourcedefinitions",
    "/apis/apps/v1": "daemonsets deployments replicasets statefulsets",
    "/apis/batch/v1": "cronjobs jobs",
    "/apis/coordination.k8s.io/v1": "leases",
    "/apis/policy/v1": "poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1": "clusterroles clusterrolebindings roles rolebindings",
    "/apis/scheduling.k8s.io/v1": "priorityclasses",
    "/apis/storage.k8s.io/v1": "storageclasses",
}
_ROOTS = {plural: root for root, plurals in _GROUPS.items() for plural in plurals.split()}


def at(plural: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a collection, an object or its subresource; ``group/v1/plural`` for others."""
    root = _ROOTS.get(plural)
    if root is None:
        group_version, _, plural = plural.rpartition("/")
        root = f"/apis/{group_version}"
    scope = ("namespaces", namespace) if namespace else ()
    return "/".join(part for part in (root, *scope, plural, name, subresource) if part)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    headers: Mapping[str, str]
    text: str

    @property
    def document(self) -> Document:
        """The body, whatever the code."""
        document: Document = json.loads(self.text)
        return document

    @property
    def ok(self) -> Document:
        """The body of a request that must have succeeded."""
        assert self.code < http.HTTPStatus.BAD_REQUEST, self.text
        return self.document

    @property
    def refusal(self) -> tuple[int, str, str]:
        """Code, reason and message of a request that must have failed, in the Status shape."""
        assert self.code >= http.HTTPStatus.BAD_REQUEST, self.text
        status = self.document
        assert status["kind"] == "Status"
        assert (status["apiVersion"], status["status"]) == ("v1", "Failure")
        assert status["code"] == self.code
        return self.code, status.get("reason", ""), status["message"]

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """Field, reason and message of each cause of a refusal."""
        causes = self.document.get("details", {}).get("causes", [])
        return [(c.get("field", ""), c.get("reason", ""), c.get("message", "")) for c in causes]

    @property
    def warnings(self) -> list[str]:
        """The texts of ``Warning`` headers."""
        header = self.headers.get("Warning", "")
        quoted = re.findall(r'299 - "((?:[^"\\]|\\.)*)"', header)
        return [re.sub(r"\\(.)", r"\1", text) for text in quoted]


class Api:
    """Requests to one server, over one connection."""

    def __init__(
        self,
        port: int,
        tls: ssl.SSLContext,
        headers: Mapping[str, str] = {},
        *,
        host: str = "127.0.0.1",
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._host = host
        self._port = port
        self._timeout_seconds = timeout_seconds
        self._tls = tls
        self._headers = {"User-Agent": "contract/1.0", **headers}
        self._connection = self._connect()

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = JSON,
        accept: str = JSON,
        headers: Mapping[str, str] = {},
        **query: object,
    ) -> Answer:
        """One request; a body that is not bytes goes as JSON. Query names are as on the wire."""
        sent = {**self._headers, "Accept": accept, **headers}
        if body is not None:
            sent["Content-Type"] = content
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            return self._exchange(method, _target(path, query), data, sent)
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
            # The server may close an idle connection at any time.
            return self._exchange(method, _target(path, query), data, sent)

    def get(self, path: str, **options: Any) -> Answer:
        """GET."""
        return self.call("GET", path, **options)

    def post(self, path: str, body: object, **options: Any) -> Answer:
        """POST."""
        return self.call("POST", path, body, **options)

    def put(self, path: str, body: object, **options: Any) -> Answer:
        """PUT."""
        return self.call("PUT", path, body, **options)

    def patch(self, path: str, body: object, content: str = MERGE_PATCH, **options: Any) -> Answer:
        """PATCH, a merge patch unless told otherwise."""
        return self.call("PATCH", path, body, content=content, **options)

    def apply(
        self,
        path: str,
        body: object,
        manager: str = "applier",
        *,
        force: bool = False,
        **query: Any,
    ) -> Answer:
        """Server-side apply."""
        options = {"fieldManager": manager, **({"force": "true"} if force else {}), **query}
        return self.call("PATCH", path, body, content=APPLY_PATCH, **options)

    def delete(self, path: str, body: object = None, **options: Any) -> Answer:
        """DELETE, with DeleteOptions as a body where given."""
        return self.call("DELETE", path, body, **options)

    def watch(self, path: str, accept: str = JSON, **query: object) -> Watch:
        """Opens a watch; to be used as a context manager."""
        connection = self._connect()
        connection.connect()
        target = _target(path, {"watch": "true", **query})
        connection.request("GET", target, headers={**self._headers, "Accept": accept})
        return Watch(connection)

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._host, self._port, context=self._tls, timeout=self._timeout_seconds
        )

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        try:
            self._connection.request(method, target, data, dict(headers))
            response = self._connection.getresponse()
            text = response.read().decode()
        except BaseException:
            # Half of an exchange is not what the next one may begin with.
            self._connection.close()
            raise
        received = {
            name: ", ".join(response.headers.get_all(name, [])) for name in response.headers
        }
        return Answer(response.status, received, text)


class Watch:
    """The events of one watch, each a dict with ``type`` and ``object``."""

    def __init__(self, connection: http.client.HTTPSConnection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        self.code = self._response.status

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._response.close()
        self._connection.close()

    def __iter__(self) -> Iterator[Document]:
        while line := self._response.readline():
            yield json.loads(line)

    def next(self) -> Document:
        """The next event; fails when none comes within the time-out."""
        return next(iter(self))

    def named(self, count: int) -> list[tuple[str, str]]:
        """Type and object name of the next events, bookmarks left out."""
        found: list[tuple[str, str]] = []
        while len(found) < count:
            event = self.next()
            if event["type"] != "BOOKMARK":
                found.append((event["type"], event["object"].get("metadata", {}).get("name", "")))
        return found

    def rest(self) -> str:
        """What comes until the server ends the watch (or, refused, the answer)."""
        return self._response.read().decode()


def _target(path: str, query: Mapping[str, object]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
