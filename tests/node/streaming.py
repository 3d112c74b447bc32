# SPDX-License-Identifier: Apache-2.0
"""What of a container runtime streams, or is about images, as a kubelet asks for it."""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc

from koord.delivery.proto import types_of

_FILE = Path(__file__).with_name("streaming.proto")
STREAMS: Any = types_of(_FILE.name, _FILE.read_text(encoding="utf-8"))
_RUNTIME, _IMAGES = "/runtime.v1.RuntimeService", "/runtime.v1.ImageService"
_SECONDS = 60.0
_PROTOCOL = "v4.channel.k8s.io"


class StreamingClient:
    """One runtime's.

    Args:
        socket: where it listens.
    """

    def __init__(self, socket: str) -> None:
        self._channel = grpc.insecure_channel(f"unix://{socket}")

    def _call(self, path: str, request: Any, kind: str = "") -> Any:
        raw = request.SerializeToString() if request is not None else b""
        answer = self._channel.unary_unary(path)(raw, timeout=_SECONDS)
        return getattr(STREAMS, kind).FromString(answer) if kind else None

    def exec_sync(self, container: str, *command: str) -> tuple[str, int]:
        """Standard output and exit status."""
        request = STREAMS.ExecSyncRequest(container_id=container, cmd=command, timeout=30)
        found = self._call(f"{_RUNTIME}/ExecSync", request, "ExecSyncResponse")
        return found.stdout.decode(), found.exit_code

    def exec(self, container: str, *command: str) -> str:
        """What a command prints, over its stream."""
        request = STREAMS.ExecRequest(container_id=container, cmd=command, stdout=True)
        return _first_output(self._call(f"{_RUNTIME}/Exec", request, "ExecResponse").url)

    def attach(self, container: str) -> str:
        """What a container prints next."""
        request = STREAMS.AttachRequest(container_id=container, stdout=True)
        return _first_output(self._call(f"{_RUNTIME}/Attach", request, "AttachResponse").url)

    def port_forward(self, sandbox: str, port: int, message: bytes) -> bytes:
        """What a port of a pod answers to a message."""
        request = STREAMS.PortForwardRequest(pod_sandbox_id=sandbox, port=[port])
        url = self._call(f"{_RUNTIME}/PortForward", request, "PortForwardResponse").url
        return asyncio.run(_over_port(url, message))

    def reopen_log(self, container: str) -> None:
        """As after a rotation."""
        request = STREAMS.ReopenContainerLogRequest(container_id=container)
        self._call(f"{_RUNTIME}/ReopenContainerLog", request)

    def images(self) -> list[str]:
        """Names of all."""
        found = self._call(f"{_IMAGES}/ListImages", None, "ListImagesResponse").images
        return sorted(tag for image in found for tag in image.repo_tags)

    def image_id(self, name: str) -> str:
        """Of one that is there; else empty."""
        request = STREAMS.ImageStatusRequest(image=STREAMS.ImageSpec(image=name))
        return str(self._call(f"{_IMAGES}/ImageStatus", request, "ImageStatusResponse").image.id)

    def pull(self, name: str) -> str:
        """Fetches an image; gives its reference, or the code of the failure."""
        request = STREAMS.PullImageRequest(image=STREAMS.ImageSpec(image=name))
        try:
            return str(self._call(f"{_IMAGES}/PullImage", request, "PullImageResponse").image_ref)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"

    def events(self) -> Any:
        """A stream of what becomes of containers; iterate over it, and cancel it."""
        call = self._channel.unary_stream(
            f"{_RUNTIME}/GetContainerEvents",
            response_deserializer=STREAMS.ContainerEventResponse.FromString,
        )
        return call(b"")

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()


def _first_output(url: str) -> str:
    async def read() -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, protocols=(_PROTOCOL,)) as stream,
        ):
            async for message in stream:
                if message.type is aiohttp.WSMsgType.BINARY and message.data[1:]:
                    return f"{message.data[0]} {message.data[1:].decode()}"
        return ""

    return asyncio.run(asyncio.wait_for(read(), _SECONDS))


async def _over_port(url: str, message: bytes) -> bytes:
    async with (
        asyncio.timeout(_SECONDS),
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=(_PROTOCOL,)) as stream,
    ):
        await stream.send_bytes(b"\0" + message)
        # Each of the two channels begins with the port's number.
        async for got in stream:
            if got.type is aiohttp.WSMsgType.BINARY and got.data[:1] == b"\0" and len(got.data) > 3:
                return bytes(got.data[1:])
    return b""


@contextmanager
def registry(archive: Path) -> Iterator[int]:
    """A registry of one image, out of an OCI archive, on a port of loopback; gives the port."""
    with tarfile.open(archive) as opened:
        blobs = {}
        for each in opened.getmembers():
            if each.name.startswith("blobs/") and (file := opened.extractfile(each)):
                blobs[f"sha256:{each.name.rpartition('/')[2]}"] = file.read()
    manifest = next(blob for blob in blobs.values() if b"image.manifest.v1" in blob)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.partition("?")[0].rpartition("/")[2]
            digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
            found = manifest if name in ("1", digest) else blobs.get(name)
            self.send_response(200 if found is not None else 404)
            kind = "manifest.v1+json" if found is manifest else "layer.v1.tar"
            self.send_header("Content-Type", f"application/vnd.oci.image.{kind}")
            self.send_header("Content-Length", str(len(found or b"")))
            if found is not None:
                digest = hashlib.sha256(found).hexdigest()
                self.send_header("Docker-Content-Digest", f"sha256:{digest}")
            self.end_headers()
            if found is not None and self.command == "GET":
                self.wfile.write(found)

        do_HEAD = do_GET  # noqa: N815

        def send_error(self, *_: Any, **__: Any) -> None:
            # A client that begins with TLS goes on without where the answer is one of HTTP.
            self.wfile.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Not to the output of the scene."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
