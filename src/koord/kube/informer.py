# SPDX-License-Identifier: Apache-2.0
"""A cache of all objects of one kind, kept true by a list and a watch, and who is told of changes.

The promises stand in ``docs/kube.md``. The list is a consistent one, so that the cache never goes
back in time; a watch resumes after the last version seen; after a 410 a new list tells handlers of
what differs and of nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from koord.api.kinds.registry import Kind
from koord.base import faults, log, rng
from koord.base.errors import KoordError, one_line
from koord.base.metrics import Registry, registry
from koord.kube.errors import ApiError, TransportError, causes_of
from koord.kube.indexer import Indexer, IndexFunction
from koord.kube.retry import RetryPolicy
from koord.kube.sharing import Sharer
from koord.kube.targets import Selection, resolve

if TYPE_CHECKING:
    from collections.abc import ItemsView

    from koord.kube.answers import WatchEvent
    from koord.kube.client import Client

O = TypeVar("O")  # noqa: E741

_GONE = 410
_LOG = log.get("informer")
# The server ends a watch after a time drawn from these, as client-go has it.
_WATCH_SECONDS = (300, 600)
# Refusals of a server that does not stream lists.
_CANNOT_STREAM = (400, 403, 422)
# Objects that a resync tells of before others get a turn.
_RESYNC_CHUNK = 500

Added = Callable[[O], None]
Updated = Callable[[O, O], None]
Deleted = Callable[[O, bool], None]


class InformerMetrics:
    """The metrics of all informers of a component.

    Args:
        metrics: where they are kept; by default nowhere that is exposed.
    """

    def __init__(self, metrics: Registry | None = None) -> None:
        into, kind = metrics or registry(), ("kind",)
        self.lists = into.counter("koord_informer_lists_total", "Lists begun.", kind)
        self.watches = into.counter("koord_informer_watches_total", "Watches begun.", kind)
        self.failures = into.counter("koord_informer_failures_total", "Lists or watches that failed.", kind)  # fmt: skip # noqa: E501
        self.events = into.counter("koord_informer_events_total", "Changes told.", ("kind", "type"))
        self.errors = into.counter("koord_informer_handler_errors_total", "Handlers that raised.", kind)  # fmt: skip # noqa: E501
        self.objects = into.gauge("koord_informer_objects", "Objects in the cache.", kind)
        self.lag = into.histogram(
            "koord_informer_lag_seconds", "From an event's arrival to its last handler.", kind
        )


class Identity(NamedTuple):
    """Which object, which life of it, and which state."""

    key: str
    uid: str
    version: str


class Handlers(NamedTuple, Generic[O]):
    """Who is told. All are called in the order of registration, and must not wait."""

    added: Added[O] | None
    updated: Updated[O] | None
    deleted: Deleted[O] | None


class Informer(Generic[O]):
    """Lists and watches one kind.

    Args:
        client: the way to the API server.
        kind: a type of ``koord.api``, or a Kind for plain documents.
        namespace: empty for all.
        label_selector: which objects; one that stops to match is told of as deleted.
        field_selector: likewise.
        project: a smaller type to decode into, with ``metadata`` as the whole one has it.
        indexers: see :class:`koord.kube.indexer.Indexer`.
        resync_seconds: how often handlers are told of every object as updated; 0 for never.
        page_size: objects a list request asks for.
        stream_list: ask for the first list as part of the watch where the server can do that.
        share: whether equal parts of objects are kept once, see :mod:`koord.kube.sharing`.
        policy: the back-off between failed lists and watches.
        seed: of how long each watch lasts, so that those of many programs do not end together.
        metrics: shared by the informers of a component.
    """

    def __init__(
        self,
        client: Client,
        kind: type[O] | Kind,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        project: type[O] | None = None,
        indexers: Mapping[str, IndexFunction[O]] | None = None,
        resync_seconds: float = 0.0,
        page_size: int = 500,
        stream_list: bool = False,
        share: bool = True,
        policy: RetryPolicy | None = None,
        seed: int = 0,
        metrics: InformerMetrics | None = None,
    ) -> None:
        served, decoded = resolve(kind)
        self.name = served.name
        self._client = client
        self._target: Any = project or kind
        self._selection: Selection = {
            "kind": served,
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        documents = decoded is dict and project is None
        self._identify = _identify_document if documents else _identify
        self._cache: Indexer[O] = Indexer(indexers)
        self._handlers: tuple[Handlers[O], ...] = ()
        self._resync_seconds = resync_seconds
        self._page_size = self._limit = page_size
        self._stream_list = stream_list
        self._draw = rng.stream(seed, "kube", "informer", served.name)
        self._sharer = Sharer() if share else None
        self._policy = policy or RetryPolicy(first_seconds=0.05, most_seconds=30.0)
        self._metrics = metrics or InformerMetrics()
        # Where the next watch begins; empty: a list must come first.
        self._version = ""
        self._synced = asyncio.Event()
        self._progress = False

    def __len__(self) -> int:
        return len(self._cache)

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the cache."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version up to which the cache is complete; empty before the first list."""
        return self._version

    async def synced(self) -> None:
        """Waits until the first list is in the cache and its handlers have been called."""
        await self._synced.wait()

    def get(self, key: str) -> O | None:
        """The object ``namespace/name`` (``name`` for kinds without namespaces), or None."""
        return self._cache.get(key)

    def items(self) -> ItemsView[str, O]:
        """Keys and objects, a view that must not be kept across an ``await``."""
        return self._cache.items()

    def by_index(self, index: str, value: str) -> list[O]:
        """The objects that have a value in an index.

        Raises:
            KeyError: there is no such index.
        """
        return self._cache.by_index(index, value)

    def on_change(
        self,
        added: Added[O] | None = None,
        updated: Updated[O] | None = None,
        deleted: Deleted[O] | None = None,
    ) -> Handlers[O]:
        """Registers handlers. They are told at once of what is in the cache already, as added.

        Args:
            added: gets the new object.
            updated: gets the object before and after; the same one twice at a resync.
            deleted: gets the last known state, and whether a later one was missed
                (``final_state_unknown``).

        Returns:
            What :meth:`remove_handlers` takes.
        """
        handlers: Handlers[O] = Handlers(added, updated, deleted)
        for key, value in list(self._cache.items()):
            if added is not None:
                self._call(key, added, value)
        self._handlers = (*self._handlers, handlers)
        return handlers

    def remove_handlers(self, handlers: Handlers[O]) -> None:
        """Tells these handlers of nothing more."""
        self._handlers = tuple(other for other in self._handlers if other is not handlers)

    async def run(self) -> None:
        """Keeps the cache true until cancelled, whatever the server does."""
        resync = asyncio.create_task(self._resync(), name=f"resync of {self.name}")
        failures = 0
        try:
            while True:
                self._progress = False
                failed = not await self._once()
                failures = 0 if self._progress else failures + 1
                # A watch that the server ended in good order after it brought something is
                # resumed at once.
                if failed or not self._progress:
                    faults.point("kube.informer.retry")
                    await asyncio.sleep(self._policy.backoff_seconds(max(failures, 1)))
        finally:
            resync.cancel()
            with suppress(asyncio.CancelledError):
                await resync

    async def _once(self) -> bool:
        """One list if there must be one, and one watch. False if either failed."""
        try:
            if not self._version and not self._stream_list:
                await self._list()
            await self._watch()
        except (ApiError, TransportError, KoordError) as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: Exception) -> None:
        self._metrics.failures.labels(self.name).inc()
        if isinstance(error, ApiError):
            if _must_list(error):
                self._version = ""
            elif error.http_status in _CANNOT_STREAM:
                self._stream_list = False
        told = log.fields(kind=self.name, error=one_line(str(error)) or type(error).__name__)
        _LOG.warning("list or watch failed", extra=told)

    async def _list(self) -> None:
        self._metrics.lists.labels(self.name).inc()
        seen: set[str] = set()
        version = ""
        try:
            pages = self._client.pages(self._target, limit=self._limit, **self._selection)
            async for page in pages:
                seen.update(self._listed(value) for value in page.items)
                version = page.resource_version
                # Others get a turn between pages.
                await asyncio.sleep(0)
        except ApiError as error:
            # The version of the first page was forgotten before the last: no pages next time.
            self._limit = 0 if error.http_status == _GONE else self._limit
            raise
        self._limit = self._page_size
        self._complete(seen, version)

    def _complete(self, seen: set[str], version: str) -> None:
        """A whole list was taken: what it did not hold is gone."""
        for key in [key for key, _ in self._cache.items() if key not in seen]:
            self._gone(key)
        self._version = version
        self._metrics.objects.labels(self.name).set(len(self._cache))
        self._synced.set()

    async def _watch(self) -> None:
        self._metrics.watches.labels(self.name).inc()
        time = asyncio.get_running_loop().time
        seen: set[str] | None = None if self._version else set()
        async with self._client.watch(
            self._target,
            resource_version=self._version,
            initial_events=seen is not None,
            last_seconds=self._draw.randint(*_WATCH_SECONDS),
            **self._selection,
        ) as watch:
            async for batch in watch:
                arrived = time()
                seen = self._batch(batch, seen)
                self._progress = True
                self._metrics.lag.labels(self.name).observe(time() - arrived)
                self._metrics.objects.labels(self.name).set(len(self._cache))
                # A stream that always has more must not keep others from running.
                await asyncio.sleep(0)

    def _batch(self, batch: list[WatchEvent[O]], seen: set[str] | None) -> set[str] | None:
        """Takes events; ``seen`` holds the keys of a list that is still streamed."""
        for event in batch:
            if seen is None:
                self._event(event)
                self._version = event.resource_version or self._version
            elif event.object is not None:
                seen.add(self._listed(event.object))
            elif event.initial_events_end:
                self._complete(seen, event.resource_version)
                seen = None
        return seen

    def _event(self, event: WatchEvent[O]) -> None:
        if event.object is None:
            return
        if event.type == "DELETED":
            self._deleted(event.object)
            return
        key, uid, version = self._identify(event.object)
        old = self._cache.get(key)
        if old is not None:
            had = self._identify(old)
            if not is_newer(version, had.version):
                return
            if had.uid != uid:
                self._gone(key)
        self._put(key, event.object)

    def _listed(self, value: O) -> str:
        """Takes an object from a list; the version says whether it differs, not which is newer."""
        found = self._identify(value)
        old = self._cache.get(found.key)
        if old is not None:
            had = self._identify(old)
            if had == found:
                return found.key
            if had.uid != found.uid:
                self._gone(found.key)
        self._put(found.key, value)
        return found.key

    def _put(self, key: str, value: O) -> None:
        if self._sharer is not None:
            value = self._sharer.share(value)
        old = self._cache.get(key)
        self._cache.put(key, value)
        if old is None:
            self._metrics.events.labels(self.name, "added").inc()
            for handlers in self._handlers:
                if handlers.added is not None:
                    self._call(key, handlers.added, value)
        else:
            self._metrics.events.labels(self.name, "updated").inc()
            self._tell_updated(key, old, value)

    def _deleted(self, last: O) -> None:
        key, uid, version = self._identify(last)
        old = self._cache.get(key)
        if old is None:
            return
        had = self._identify(old)
        # A deletion may have the version of the last change, where nothing else changed.
        if had.uid == uid and (had.version == version or is_newer(version, had.version)):
            self._remove(key, last, False)

    def _gone(self, key: str) -> None:
        """An object went away and nobody said so."""
        last = self._cache.get(key)
        assert last is not None
        self._remove(key, last, True)

    def _remove(self, key: str, last: O, final_state_unknown: bool) -> None:
        self._cache.remove(key)
        self._metrics.events.labels(self.name, "deleted").inc()
        for handlers in self._handlers:
            if handlers.deleted is not None:
                self._call(key, handlers.deleted, last, final_state_unknown)

    def _tell_updated(self, key: str, old: O, value: O) -> None:
        for handlers in self._handlers:
            if handlers.updated is not None:
                self._call(key, handlers.updated, old, value)

    def _call(self, key: str, handler: Callable[..., None], *arguments: object) -> None:
        try:
            handler(*arguments)
        except Exception as error:
            # One handler's mistake must not keep the others from the event.
            self._metrics.errors.labels(self.name).inc()
            told = log.fields(kind=self.name, key=key, error=one_line(repr(error)))
            _LOG.error("a handler failed", extra=told)
            _LOG.debug("where it failed", exc_info=error, extra=log.fields(key=key))

    async def _resync(self) -> None:
        while self._resync_seconds > 0:
            await asyncio.sleep(self._resync_seconds)
            keys = [key for key, _ in self._cache.items()]
            for number, key in enumerate(keys, 1):
                value = self._cache.get(key)
                if value is not None:
                    self._tell_updated(key, value, value)
                if number % _RESYNC_CHUNK == 0:
                    await asyncio.sleep(0)


def is_newer(version: str, than: str) -> bool:
    """Whether a resource version comes later; any other one where they are no numbers."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


def _must_list(error: ApiError) -> bool:
    """Whether a watch cannot go on from where it was: too old, or the server went back in time."""
    if error.http_status == _GONE:
        return True
    return any(cause.reason == "ResourceVersionTooLarge" for cause in causes_of(error))


def _identify(value: Any) -> Identity:
    meta = value.metadata
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return Identity(key, meta.uid, meta.resource_version)


def _identify_document(value: Any) -> Identity:
    meta = value["metadata"]
    namespace, name = meta.get("namespace"), meta["name"]
    key = f"{namespace}/{name}" if namespace else name
    return Identity(key, meta.get("uid", ""), meta.get("resourceVersion", ""))
