# SPDX-License-Identifier: Apache-2.0
"""What is served beside the resources: version, health, metrics."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from koord.controlplane.api_errors import method_not_allowed, no_such_path
from koord.kube.transport.messages import JSON, Response

if TYPE_CHECKING:
    from koord.kube.transport.messages import Request

Page = Callable[["Request"], Awaitable[Response]]

# The Kubernetes whose behaviour the server has.
VERSION = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.4",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": f"linux/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), '') }",
}
_NOT_READY = b"[-]journal failed: it took no writes\nreadyz check failed\n"


def pages(figures: Callable[[], bytes], ready: Callable[[], bool]) -> dict[str, Page]:
    """Every page by its path.

    Args:
        figures: the text of ``/metrics``.
        ready: whether ``/readyz`` says so.
    """
    found: dict[str, Page] = {"/version": _document(VERSION)}
    for path in ("/healthz", "/livez"):
        found[path] = text_page(lambda: b"ok")
    found["/readyz"] = _readiness(ready)
    found["/metrics"] = text_page(figures)
    found["/.well-known/openid-configuration"] = _nothing
    return found


def _document(document: dict[str, Any]) -> Page:
    return text_page(lambda: msgspec.json.encode(document), JSON)


def text_page(
    content: Callable[[], bytes], content_type: str = "text/plain; charset=utf-8"
) -> Page:
    """A page whose text is made anew for each request."""

    async def show(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        return Response(200, content(), content_type)

    return show


def _readiness(ready: Callable[[], bool]) -> Page:
    fine = text_page(lambda: b"ok")

    async def show(request: Request) -> Response:
        if ready():
            return await fine(request)
        return Response(500, _NOT_READY, "text/plain; charset=utf-8")

    return show


async def _nothing(request: Request) -> Response:
    del request
    raise no_such_path()
