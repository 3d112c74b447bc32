# SPDX-License-Identifier: Apache-2.0
"""An administrator's requests to a real API server, as JSON."""

from __future__ import annotations

import http.client
import json
from typing import Any

from tests.real.plane import RealControlPlane

Document = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


class RefusedError(Exception):
    """An answer of 400 or more; its code and what it says."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Admin:
    """Calls of one thread over one connection."""

    def __init__(self, plane: RealControlPlane) -> None:
        self._plane = plane
        self._connection: http.client.HTTPSConnection | None = None

    def close(self) -> None:
        """Ends the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str) -> Document:
        """GET."""
        return self.call("GET", path)

    def items(self, path: str) -> list[Document]:
        """What a list has; empty where no such kind is served."""
        try:
            return list(self.get(path).get("items") or [])
        except RefusedError as error:
            if error.code == http.HTTPStatus.NOT_FOUND:
                return []
            raise

    def create(self, path: str, body: Document) -> Document:
        """POST."""
        return self.call("POST", path, body)

    def patch(self, path: str, body: Document, form: str = STRATEGIC) -> Document:
        """PATCH."""
        return self.call("PATCH", path, body, form)

    def delete(self, path: str, **options: Any) -> Document:
        """DELETE."""
        return self.call("DELETE", path, options or None)

    def call(
        self, verb: str, path: str, body: Document | None = None, form: str = "application/json"
    ) -> Document:
        """One request.

        Raises:
            RefusedError: the answer is 400 or more.
        """
        for last in (False, True):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(
                    "127.0.0.1", self._plane.port, context=self._plane.tls(), timeout=30
                )
            try:
                text = None if body is None else json.dumps(body)
                self._connection.request(verb, path, text, {"Content-Type": form})
                answer = self._connection.getresponse()
                found = answer.read()
            except (OSError, http.client.HTTPException):
                self.close()
                if last:
                    raise
                continue
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                raise RefusedError(answer.status, found.decode(errors="replace"))
            return json.loads(found) if found else {}
        raise AssertionError
