# SPDX-License-Identifier: Apache-2.0
"""The verbs of the Kubernetes API that change nothing: get, list, watch, discovery.

Every verb raises ApiError where the server refuses, TransportError where no answer comes, and
KoordError for names that cannot be and answers that do not decode.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from koord.api import codec
from koord.api.kinds.meta import Object
from koord.api.kinds.registry import Kind
from koord.base.documents import Document
from koord.kube.codec.decoder import ObjectList, decoded, decoder_of
from koord.kube.errors import ApiError
from koord.kube.requests.discovery import ServedKind, discover, serves
from koord.kube.requests.options import (
    GetOptions,
    ListOptions,
    SelectionOptions,
    WatchOptions,
    query,
    resolve,
)
from koord.kube.requests.paths import collection_path, object_path
from koord.kube.requests.pipeline import RequestPipeline
from koord.kube.requests.subresources import Scale
from koord.kube.requests.watch import Watch
from koord.kube.transport.messages import JSON, METADATA_LIST, Request, Response

if TYPE_CHECKING:
    from koord.base.metrics import MetricRegistry
    from koord.kube.dry_run import DryRun
    from koord.kube.requests.retry import RetryPolicy
    from koord.kube.transport.messages import Transport

T = TypeVar("T")
Pages = AsyncIterator[ObjectList[T]]

PAGE = 500
_GONE = 410


class ReadClient:
    """Typed access to an API server, as far as nothing is written.

    Args:
        transport: how requests get there. The client does not close it.
        policy: what is tried again.
        requests_per_second: of the rate limiter; None for none, as in process.
        burst: how many requests may go at once before the rate counts.
        timeout_seconds: for a call with all its tries, where the call names none.
        registry: where calls are counted.
        dry_run: takes all that would be written.
    """

    def __init__(
        self,
        transport: Transport,
        policy: RetryPolicy | None,
        requests_per_second: float | None,
        burst: int,
        timeout_seconds: float,
        registry: MetricRegistry | None,
        dry_run: DryRun | None,
    ) -> None:
        self._calls = RequestPipeline(
            transport, policy, requests_per_second, burst, timeout_seconds, registry, dry_run
        )
        # Whether what its watches bring does not wait for the loop's share of large objects.
        self.prompt = False

    @property
    def dry_run(self) -> DryRun | None:
        """What takes the writes in a dry run; nobody may wait there for what would follow."""
        return self._calls.dry_run

    @overload
    async def get(
        self, target: type[T], name: str, namespace: str = "", **options: Unpack[GetOptions]
    ) -> T: ...
    @overload
    async def get(
        self, target: Kind, name: str, namespace: str = "", **options: Unpack[GetOptions]
    ) -> Document: ...
    async def get(
        self, target: Any, name: str, namespace: str = "", **options: Unpack[GetOptions]
    ) -> Any:
        """An object by its name.

        Args:
            target: a type for a typed object, a Kind for a whole document.
            name: of the object.
            namespace: of the object; empty for kinds that have none.
            options: see :class:`koord.kube.requests.options.GetOptions`.
        """
        kind, into = resolve(target, options.get("kind"))
        version = query(resourceVersion=options.get("resource_version", ""))
        request = Request("GET", object_path(kind, name, namespace), version)
        answer = await self._calls.send(request, kind, True, options.get("timeout_seconds"))
        return await decoded(decoder_of(kind, into), answer.body)

    @overload
    async def list(self, target: type[T], **options: Unpack[ListOptions]) -> ObjectList[T]: ...
    @overload
    async def list(self, target: Kind, **options: Unpack[ListOptions]) -> ObjectList[Document]: ...
    async def list(self, target: Any, **options: Unpack[ListOptions]) -> ObjectList[Any]:
        """All objects that are selected, fetched page by page.

        Where the server forgets the version of the first page on the way (410), all are asked for
        once more and at once, as client-go's pager does.

        Args:
            target: a type for typed objects, a Kind for whole documents.
            options: see :class:`koord.kube.requests.options.ListOptions`.
        """
        found: ObjectList[Any] | None = None
        try:
            async for page in self.pages(target, **options):
                if found is None:
                    found = page
                else:
                    found.items += page.items
        except ApiError as error:
            if error.http_status != _GONE or found is None:
                raise
            at_once: ListOptions = {**options, "limit": 0}
            again: ObjectList[Any] = await self.list(target, **at_once)
            return again
        assert found is not None, "a list has at least one page"
        found.continue_token, found.remaining = "", None
        return found

    @overload
    def pages(self, target: type[T], **options: Unpack[ListOptions]) -> Pages[T]: ...
    @overload
    def pages(self, target: Kind, **options: Unpack[ListOptions]) -> Pages[Document]: ...
    async def pages(self, target: Any, **options: Unpack[ListOptions]) -> Pages[Any]:
        """The pages of a list, so that no more than one need be held.

        A page that the server can no longer give is an ApiError 410: begin again.

        Args:
            target: a type for typed objects, a Kind for whole documents.
            options: see :class:`koord.kube.requests.options.ListOptions`.
        """
        kind, into = resolve(target, options.get("kind"))
        path = collection_path(kind, options.get("namespace", ""))
        decoder = decoder_of(kind, into)
        fixed = selectors(options) + query(limit=options.get("limit", PAGE))
        # The token of a page stands for the version as well, and goes alone.
        where = query(
            resourceVersion=options.get("resource_version", ""),
            resourceVersionMatch=options.get("resource_version_match", ""),
        )
        accept = METADATA_LIST if options.get("metadata_only") else JSON
        while True:
            request = Request("GET", path, fixed + where, accept=accept)
            seconds = options.get("timeout_seconds")
            answer = await self._calls.send(request, kind, True, seconds, verb="LIST")
            page = decoder.page(answer.body, options.get("reader"))
            del answer
            if page.unreadable and not options.get("lenient"):
                raise page.unreadable[0].error
            yield page
            if not page.continue_token:
                return
            where = query(**{"continue": page.continue_token})

    @overload
    def watch(self, target: type[T], **options: Unpack[WatchOptions]) -> Watch[T]: ...
    @overload
    def watch(self, target: Kind, **options: Unpack[WatchOptions]) -> Watch[Document]: ...
    def watch(self, target: Any, **options: Unpack[WatchOptions]) -> Watch[Any]:
        """The changes of the selected objects; use it with ``async with``.

        Args:
            target: a type for typed objects, a Kind for whole documents.
            options: see :class:`koord.kube.requests.options.WatchOptions`.
        """
        kind, into = resolve(target, options.get("kind"))
        initial = options.get("initial_events", False)
        asked = query(
            watch=True,
            resourceVersion=options.get("resource_version", ""),
            allowWatchBookmarks=options.get("bookmarks", True),
            sendInitialEvents=initial,
            resourceVersionMatch="NotOlderThan" if initial else "",
            timeoutSeconds=options.get("last_seconds"),
        )
        path = collection_path(kind, options.get("namespace", ""))
        request = Request("GET", path, selectors(options) + asked)
        seconds = options.get("timeout_seconds")
        decoder, lenient = decoder_of(kind, into), options.get("lenient", False)
        opening = partial(self._calls.open, request, kind, seconds)
        return Watch(opening, decoder, lenient, options.get("reader"), self.prompt)

    async def get_scale(
        self, target: type[Object] | Kind, name: str, namespace: str = "",
        *, timeout_seconds: float | None = None,
    ) -> Scale:  # fmt: skip
        """How many replicas a workload should have and has."""
        kind, _ = resolve(target)
        request = Request("GET", object_path(kind, name, namespace, "scale"))
        answer = await self._calls.send(request, kind, True, timeout_seconds)
        return codec.decode_json(answer.body, Scale, f"{kind.name} scale")

    async def discover(self, *, timeout_seconds: float | None = None) -> tuple[ServedKind, ...]:
        """Every kind that the server serves, at each of its versions."""
        return tuple(
            await discover(lambda request: self._calls.send(request, None, True, timeout_seconds))
        )

    async def serves(self, kind: Kind) -> bool:
        """Whether the server says that it has a kind of another group than the core.

        Raises:
            ApiError, TransportError: it does not say.
            KoordError: whoever answered is no API server.
        """
        return await serves(lambda request: self._calls.send(request, None, True), kind)

    async def request(self, request: Request, *, repeatable: bool = False) -> Response:
        """Any other call, with tries and rate limit as ever; the answer is a success.

        Args:
            request: its timeout is for all tries together.
            repeatable: whether sending it twice does no harm.
        """
        repeatable = repeatable or request.method in ("GET", "HEAD")
        return await self._calls.send(request, None, repeatable, request.timeout_seconds)


def selectors(options: SelectionOptions) -> tuple[tuple[str, str], ...]:
    """The query of label and field selectors."""
    return query(
        labelSelector=options.get("label_selector", ""),
        fieldSelector=options.get("field_selector", ""),
    )
