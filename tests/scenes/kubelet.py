# SPDX-License-Identifier: Apache-2.0
"""A kubelet to be asked over HTTPS, which can be told to misbehave."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Mood(StrEnum):
    """How it answers."""

    WELL = "well"
    HANG = "hang"  #: takes the request and says nothing
    ERROR = "error"  #: 500
    GARBAGE = "garbage"  #: 200 with half a document
    EMPTY = "empty"  #: a list of no pods


class Kubelet:
    """Serves ``/pods/``, ``/configz`` and ``/healthz`` to who has the token.

    Args:
        pods: gives the pods as documents, asked at each request.
        certificates: folder with ``server.crt`` and ``server.key``.
        token: what callers must bring.
        configuration: the kubelet's, as ``/configz`` tells it.
        keeps: whether connections stay open, as a real one's do; stopping then ends none of them.
    """

    def __init__(
        self,
        pods: Callable[[], list[dict[str, Any]]],
        certificates: Path,
        token: str,
        configuration: dict[str, Any] | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        self.mood = Mood.WELL
        self.served: list[str] = []
        self.refused = 0
        self._pods = pods
        self._certificates = certificates
        self._token = token
        self.configuration = configuration or {"cpuManagerPolicy": "none"}
        self._released = threading.Event()
        self._protocol = "HTTP/1.1" if keeps else "HTTP/1.0"
        self.port = 0
        self.start()

    def start(self) -> None:
        """Listens, on the same port as before where it was stopped."""
        kubelet = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = kubelet._protocol

            def do_GET(self) -> None:
                kubelet._answer(self)

            def log_message(self, *_: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        folder = self._certificates
        context.load_cert_chain(folder / "server.crt", folder / "server.key")
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()

    def stop(self) -> None:
        """Connections are refused from now on; hanging requests end."""
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def set(self, mood: Mood) -> None:
        """Changes how it answers, from the next request on."""
        self._released.set()
        self._released = threading.Event()
        self.mood = mood

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.headers.get("Authorization") != f"Bearer {self._token}":
            self.refused += 1
            self._send(handler, 401, b"Unauthorized")
            return
        self.served.append(handler.path)
        if self.mood is Mood.HANG:
            self._released.wait()
            return
        if self.mood is Mood.ERROR:
            self._send(handler, 500, b"no")
            return
        body = self._body(handler.path)
        if body is None:
            self._send(handler, 404, b"not found")
        elif self.mood is Mood.GARBAGE:
            self._send(handler, 200, body[: len(body) // 2])
        else:
            self._send(handler, 200, body)

    def _body(self, path: str) -> bytes | None:
        if path.rstrip("/") == "/pods":
            items = [] if self.mood is Mood.EMPTY else self._pods()
            document = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
            return json.dumps(document).encode()
        if path == "/configz":
            return json.dumps({"kubeletconfig": self.configuration}).encode()
        return b"ok" if path == "/healthz" else None

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
