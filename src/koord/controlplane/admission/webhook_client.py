# SPDX-License-Identifier: Apache-2.0
"""How webhooks are reached: over HTTPS, or as a function in this process."""

from __future__ import annotations

import asyncio
import base64
import binascii
import inspect
import json
import ssl
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base import faults
from koord.base.documents import Document

if TYPE_CHECKING:
    import aiohttp

LocalWebhook = Callable[[str, Document], Document | Awaitable[Document]]
"""Takes the URL's path and a review, gives the review that answers it."""

# What client-go says of a status, whatever the body.
_WORDED = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}
_BUNDLES_KEPT = 64
LARGEST_ANSWER_BYTES = 3 * 1024 * 1024


class WebhookCallError(Exception):
    """A webhook was not reached, or its answer is no review."""


class WebhookClient:
    """Calls webhooks by their ``clientConfig``.

    Args:
        resolve: where a service listens: namespace, name, port to host and port. Without one,
            services are reached through :meth:`register_local` alone.
    """

    def __init__(self, resolve: Callable[[str, str, int], tuple[str, int]] | None = None) -> None:
        self._resolve = resolve
        self._local: dict[str, LocalWebhook] = {}
        self._session: aiohttp.ClientSession | None = None

    def register_local(self, name: str, webhook: LocalWebhook) -> None:
        """Serves a service in this process; an OSError that it raises is a call that failed.

        Args:
            name: ``namespace/name`` of the service that configurations refer to.
        """
        self._local[name] = webhook

    async def call(self, client: Document, review: Document, timeout_seconds: float) -> Any:
        """Sends a review and gives the JSON that comes back.

        Raises:
            WebhookCallError: no answer in time, or none that is JSON with status 200.
        """
        faults.point("admission.webhook")
        service = client.get("service") or {}
        path = service.get("path") or "/"
        local = self._local.get(f"{service.get('namespace')}/{service.get('name')}")
        waited: Awaitable[Any] | None = None
        try:
            if local is not None:
                found = local(path, review)
                if not inspect.isawaitable(found):
                    return found
                waited = found
            async with asyncio.timeout(timeout_seconds):
                return await (waited or self._post(client, review, timeout_seconds))
        except TimeoutError:
            shown = f"{_address(client)}?timeout={timeout_seconds:.0f}s"
            raise WebhookCallError(f'Post "{shown}": context deadline exceeded') from None
        except OSError as error:
            raise WebhookCallError(_first_line(error)) from None

    async def close(self) -> None:
        """Ends all connections; may be called more than once."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, client: Document, review: Document, timeout_seconds: float) -> Any:
        import aiohttp

        url, shown, server_name = self._url(client)
        shown = f"{shown}?timeout={timeout_seconds:.0f}s"
        context = _tls(client.get("caBundle"))
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                f"{url}?timeout={timeout_seconds:.0f}s",
                data=msgspec.json.encode(review),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=context,
                server_hostname=server_name,
                allow_redirects=False,
            ) as response:
                body = await response.content.read(LARGEST_ANSWER_BYTES + 1)
        except (aiohttp.ClientError, OSError) as error:
            raise WebhookCallError(f'Post "{shown}": {_first_line(error)}') from None
        if response.status != 200:
            raise WebhookCallError(_refused(response.status, body))
        if len(body) > LARGEST_ANSWER_BYTES:
            raise WebhookCallError(f"the answer is larger than {LARGEST_ANSWER_BYTES} bytes")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise WebhookCallError(f"the answer is not JSON: {_first_line(error)}") from None

    def _url(self, client: Document) -> tuple[str, str, str | None]:
        """Where to connect, how messages show it, and the name in the certificate if another."""
        if url := client.get("url"):
            return url, url, None
        service = client.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        port, path = service.get("port", 443), service.get("path") or "/"
        server_name, shown = f"{name}.{namespace}.svc", _address(client)
        if self._resolve is None:
            raise WebhookCallError(f'Post "{shown}": service "{name}" not found')
        host, real_port = self._resolve(namespace, name, port)
        return f"https://{host}:{real_port}{path}", shown, server_name


def _address(client: Document) -> str:
    """The address of a webhook as messages show it."""
    if url := client.get("url"):
        return str(url)
    service = client.get("service") or {}
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    return f"https://{host}:{service.get('port', 443)}{service.get('path') or '/'}"


def _refused(status: int, body: bytes) -> str:
    """An answer other than 200, worded as client-go words it."""
    text = body[:2048].decode("utf-8", "replace").strip() or "unknown"
    if status in _WORDED:
        return _WORDED[status]
    if status in (403, 406, 415):
        return text
    if status >= 500:
        shown = json.dumps(text, ensure_ascii=False)
        return f"an error on the server ({shown}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


@lru_cache(_BUNDLES_KEPT)
def _tls(bundle: str | None) -> ssl.SSLContext:
    """Trusts the bundle (base64 of PEM), or the system's authorities where there is none.

    The same one for the same bundle: connections are kept by it, and a call over one that stands
    is ten times as fast.
    """
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise WebhookCallError(f"unable to load root certificates: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
