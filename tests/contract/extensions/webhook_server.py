# SPDX-License-Identifier: Apache-2.0
"""A small admission webhook over HTTPS; what it answers is told by the path it is called at."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.real.certificates import Authority

SLOW_SECONDS = 2.5


class WebhookServer:
    """Listens on loopback while it is entered.

    Paths: ``/allow``, ``/warn``, ``/deny`` (with a message), ``/broken`` (500), ``/slow`` (answers
    after the time-out of the tests), ``/label/NAME`` (adds the label NAME), ``/append/NAME``
    (appends NAME to the annotation ``order``).

    Attributes:
        requests: each path called and the request in the review, in order.
    """

    def __init__(self, folder: Path) -> None:
        authority = Authority.create(folder, "webhook-authority")
        self.authority = base64.b64encode(authority.certificate.read_bytes()).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("webhook", server=True))
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> WebhookServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def client(self, path: str) -> dict[str, str]:
        """``clientConfig`` for one of the paths."""
        url = f"https://127.0.0.1:{self._server.server_address[1]}{path}"
        return {"url": url, "caBundle": self.authority}

    def called(self, path: str) -> list[dict[str, Any]]:
        """The requests that came at a path."""
        return [request for at, request in self.requests if at == path]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.split("?")[0]
                webhook.requests.append((path, review["request"]))
                if path == "/slow":
                    time.sleep(SLOW_SECONDS)
                body = json.dumps(
                    {
                        "apiVersion": "admission.k8s.io/v1",
                        "kind": "AdmissionReview",
                        "response": {"uid": review["request"]["uid"], **_answer(path, review)},
                    }
                ).encode()
                self.send_response(500 if path == "/broken" else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Says nothing."""

        return Handler


def _answer(path: str, review: dict[str, Any]) -> dict[str, Any]:
    verb, _, name = path.strip("/").partition("/")
    metadata = (review["request"]["object"] or {}).get("metadata", {})
    if verb == "deny":
        return {"allowed": False, "status": {"message": "not on my watch", "code": 418}}
    if verb == "warn":
        return {"allowed": True, "warnings": ["think again"]}
    if verb == "label":
        return _patched({"labels": {**metadata.get("labels", {}), name: "set"}})
    if verb == "append":
        annotations = metadata.get("annotations", {})
        return _patched(
            {"annotations": {**annotations, "order": annotations.get("order", "") + name}}
        )
    return {"allowed": True}


def _patched(metadata: dict[str, Any]) -> dict[str, Any]:
    operations = [
        {"op": "add", "path": f"/metadata/{key}", "value": value} for key, value in metadata.items()
    ]
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}
