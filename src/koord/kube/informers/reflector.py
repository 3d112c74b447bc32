# SPDX-License-Identifier: Apache-2.0
"""Follows one kind on an API server: a list, a watch from there, and again when that fails.

The list is a consistent one, so that nothing ever goes back in time; a watch resumes after the last
version seen; a 410 lists anew. A kind that the server does not have is empty, and asked for again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from koord.base import faults, log, rng
from koord.base.errors import KoordError, one_line
from koord.base.loop_share import loop_share
from koord.base.metrics import MetricRegistry, registry
from koord.kube.codec.decoder import UnreadableObject, WatchEvent
from koord.kube.codec.page_reader import FEW, MANY, PageReader
from koord.kube.errors import ApiError, TransportError, causes_of
from koord.kube.requests.retry import RetryPolicy

if TYPE_CHECKING:
    from koord.api.kinds.registry import Kind
    from koord.kube.client import Client
    from koord.kube.requests.options import SelectionOptions

O = TypeVar("O")  # noqa: E741

_FORBIDDEN, _NOT_FOUND, _GONE = 403, 404, 410
# A kind that was served is not gone until the server has said so twice, this far apart: one server
# of several may be behind the others for a moment.
_CONFIRM_SECONDS = 2.0
# The server ends a watch after a time drawn from these, as client-go has it.
_WATCH_SECONDS = (300, 600)
# Refusals of a server that does not stream lists.
_CANNOT_STREAM = (400, 403, 422)
_LOG = log.get("informer")


class InformerMetrics:
    """The metrics of all informers of a component.

    Args:
        metrics: where they are kept; by default nowhere that is exposed.
    """

    def __init__(self, metrics: MetricRegistry | None = None) -> None:
        into, kind = metrics or registry(), ("kind",)
        self.lists = into.counter("koord_informer_lists_total", "Lists begun.", kind)
        self.watches = into.counter("koord_informer_watches_total", "Watches begun.", kind)
        self.failures = into.counter(
            "koord_informer_failures_total", "Lists and watches that failed.", kind
        )
        self.events = into.counter("koord_informer_events_total", "Changes told.", ("kind", "type"))
        self.unreadable = into.counter(
            "koord_informer_unreadable_total", "States of objects that do not decode.", kind
        )
        self.errors = into.counter(
            "koord_informer_handler_errors_total", "Handlers that raised.", kind
        )
        self.objects = into.gauge("koord_informer_objects", "Objects in the cache.", kind)
        self.served = into.gauge(
            "koord_informer_served", "1: the API server has the kind; 0: it lacks it.", kind
        )
        self.lag = into.histogram(
            "koord_informer_lag_seconds", "From an event's arrival to its last handler.", kind
        )


class ReflectorSink(NamedTuple, Generic[O]):
    """What a reflector calls with what the server has.

    Attributes:
        on_listed: gets objects as a list has them, and whether their parts are shared already;
            gives their keys.
        on_completed: a whole list has been passed on: what is not among these keys is gone.
        on_changed: gets an event of the watch; its object is not None. Gives its key.
        on_vanished: gets the key of an object whose last state does not decode.
        on_unread: gets the key of an object that does not decode, with why; None once it does
            again, or is gone.
        on_served: the kind came to the server, with what it has of it; or went, with all objects.
    """

    on_listed: Callable[[list[O], bool], list[str]]
    on_completed: Callable[[set[str]], None]
    on_changed: Callable[[WatchEvent[O]], str]
    on_vanished: Callable[[str], None]
    on_unread: Callable[[str, UnreadableObject | None], None]
    on_served: Callable[[bool], None]


class Reflector(Generic[O]):
    """Keeps a sink up to date.

    Args:
        client: the way to the API server.
        target: what is decoded, as the client takes it.
        name: of the kind, in logs and metrics.
        selection: which objects.
        sink: what is called.
        page_size: objects a list request asks for.
        stream_list: ask for the first list as part of the watch where the server can do that.
        policy: the back-off between failed lists and watches.
        seed: of how long each watch lasts, so that those of many programs do not end together.
        metrics: shared by the informers of a component.
        reader: makes the objects; plain decoding if not given.
    """

    def __init__(
        self,
        client: Client,
        target: Any,
        name: str,
        selection: SelectionOptions,
        sink: ReflectorSink[O],
        *,
        page_size: int,
        stream_list: bool,
        policy: RetryPolicy | None,
        seed: int,
        metrics: InformerMetrics,
        reader: PageReader[O] | None = None,
    ) -> None:
        self._client = client
        self._reader = reader
        self._target = target
        self._name = name
        self._selection: SelectionOptions = {**selection, "lenient": True}
        self._sink = sink
        self._page_size = self._limit = page_size
        self._stream_list = stream_list
        self._policy = policy or RetryPolicy(first_seconds=0.05, most_seconds=30.0)
        self._draw = rng.stream(seed, "kube", "informer", name)
        self._metrics = metrics
        # Where the next watch begins; empty: a list must come first.
        self.version = ""
        # Whether a watch is open: what is cached is then as new as the server can tell.
        self.watching = False
        # Whether the server has the kind, as far as is known.
        self.served = True
        self._listed = self._doubted = self._came = False
        self._progress = False
        self._failures = 0
        # Key to version of what does not decode and has been warned of, while it is there.
        self.unreadable: dict[str, str] = {}
        self._warned: dict[str, str] = {}  # Key to what is wrong with it, as long.

    async def run(self) -> None:
        """Follows until cancelled, whatever the server does."""
        while True:
            self._progress = False
            failed = not await self._once()
            self._failures = 0 if self._progress else self._failures + 1
            # A watch that the server ended in good order after it brought something is resumed
            # at once.
            if failed or not self._progress:
                least = _CONFIRM_SECONDS if self._doubted else 0.0
                wait = self._policy.backoff_seconds(max(self._failures, 1))
                await asyncio.sleep(max(wait, least))

    async def _once(self) -> bool:
        """One list if there must be one, and one watch. False if either failed."""
        try:
            if not self.version and not self._stream_list:
                faults.point("kube.informer.list")
                await self._list()
            faults.point("kube.informer.watch")
            await self._watch()
        except (ApiError, TransportError, KoordError) as error:
            if not await self._is_unserved(error):
                self._failed(error)
            return False
        return True

    async def _is_unserved(self, error: Exception) -> bool:
        """Whether a list or watch failed because the server does not have the kind.

        What is there goes once that is certain.
        """
        kind = self._selection["kind"]
        if not isinstance(error, ApiError) or error.http_status != _NOT_FOUND:
            return False
        if kind is None or not kind.group:
            return False
        self.version = ""
        # It was empty already: the list's word is enough.
        if self.served and await self._says_served(kind):
            return False
        if self._listed and self.served and not self._doubted:
            self._doubted = True
        elif self.served:
            self._serve(False)
            self._doubted = self._listed = self._came = False
            self._failures = 0
            self._settled(list(self.unreadable))
            self._sink.on_completed(set())
            self._sink.on_served(False)
        return True

    async def _says_served(self, kind: Kind) -> bool:
        """Whether the server lists a kind that it gave a 404 for; True where nobody knows."""
        try:
            return await self._client.serves(kind)
        except ApiError as error:
            # Who may not ask has the list's word.
            return error.http_status != _FORBIDDEN
        except (TransportError, KoordError):
            return True

    def _serve(self, served: bool) -> None:
        self._metrics.served.labels(self._name).set(int(served))
        if served != self.served:
            self.served = served
            text = "kind served" if served else "kind not served: it counts as empty"
            # What was never there is the program's to tell of, all kinds together.
            lost = logging.WARNING if self._listed else logging.DEBUG
            _LOG.log(logging.INFO if served else lost, text, extra=log.fields(kind=self._name))

    def _failed(self, error: Exception) -> None:
        self._metrics.failures.labels(self._name).inc()
        if isinstance(error, ApiError):
            if _must_list(error):
                self.version = ""
            elif error.http_status in _CANNOT_STREAM:
                self._stream_list = False
        told = log.fields(kind=self._name, error=one_line(str(error)) or type(error).__name__)
        _LOG.warning("list or watch failed", extra=told)

    async def _list(self) -> None:
        self._metrics.lists.labels(self._name).inc()
        if self._reader is not None:
            self._reader.remember(MANY)
        seen: set[str] = set()
        version = ""
        try:
            pages = self._client.pages(
                self._target, limit=self._limit, reader=self._reader, **self._selection
            )
            async for page in pages:
                self._answered()
                seen.update(self._take(page.items, page.shared))
                seen.update(self._not_read(unreadable) for unreadable in page.unreadable)
                version = page.resource_version
                # Others get a turn between pages.
                await asyncio.sleep(0)
        except ApiError as error:
            # The version of the first page was forgotten before the last: no pages next time.
            self._limit = 0 if error.http_status == _GONE else self._limit
            raise
        finally:
            if self._reader is not None:
                self._reader.remember(FEW)
        self._limit = self._page_size
        self._complete(seen, version)

    def _answered(self) -> None:
        """The server has the kind: objects that come now are told of as such."""
        self._doubted = False
        if not self.served:
            self._came, self._failures = True, 0
        self._serve(True)

    def _complete(self, seen: set[str], version: str) -> None:
        self.version = version
        self._listed = True
        self._sink.on_completed(seen)
        self._settled([key for key in self.unreadable if key not in seen])
        if self._came:
            self._came = False
            self._sink.on_served(True)

    async def _watch(self) -> None:
        self._metrics.watches.labels(self._name).inc()
        time = asyncio.get_running_loop().time
        seen: set[str] | None = None if self.version else set()
        async with self._client.watch(
            self._target,
            resource_version=self.version,
            initial_events=seen is not None,
            last_seconds=self._draw.randint(*_WATCH_SECONDS),
            reader=self._reader,
            **self._selection,
        ) as watch:
            self._answered()
            self.watching = True
            try:
                async for batch in watch:
                    arrived = time()
                    if watch.large:
                        await watch.turn()
                        with loop_share().taken():
                            seen = self._batch(batch, seen)
                    else:
                        seen = self._batch(batch, seen)
                    self._progress = True
                    self._metrics.lag.labels(self._name).observe(time() - arrived)
                    # A stream that always has more must not keep others from running.
                    await asyncio.sleep(0)
            finally:
                self.watching = False

    def _batch(self, batch: list[WatchEvent[O]], seen: set[str] | None) -> set[str] | None:
        """Takes events; ``seen`` holds the keys of a list that is still streamed."""
        for event in batch:
            if event.unreadable is not None:
                self._odd(event.type, event.unreadable, seen)
            if seen is None:
                if event.object is not None:
                    key = self._sink.on_changed(event)
                    if self.unreadable:
                        self._settled([key])
                self.version = event.resource_version or self.version
            elif event.object is not None:
                seen.update(self._take([event.object], event.shared))
            elif event.initial_events_end:
                self._complete(seen, event.resource_version)
                seen = None
        return seen

    def _odd(self, change: str, unreadable: UnreadableObject, seen: set[str] | None) -> None:
        """An event about an object that does not decode."""
        if seen is not None:
            seen.add(self._not_read(unreadable))
        elif change == "DELETED":
            self._sink.on_vanished(unreadable.key)
            self._settled([unreadable.key])
        else:
            self._not_read(unreadable)

    def _take(self, values: list[O], shared: bool) -> list[str]:
        keys = self._sink.on_listed(values, shared)
        self._settled(keys)
        return keys

    def _settled(self, keys: list[str]) -> None:
        """Objects decode, or are gone."""
        if self.unreadable:
            for key in keys:
                if self.unreadable.pop(key, None) is not None:
                    self._warned.pop(key, None)
                    self._sink.on_unread(key, None)

    def _not_read(self, unreadable: UnreadableObject) -> str:
        """Tells of each state of an object that does not decode, warns once of what is wrong.

        It is there all the same: what is known of it stays until it decodes again or goes. One bad
        object must not stop the others.
        """
        key, version = unreadable.key, unreadable.resource_version
        if self.unreadable.get(key) != version:
            self.unreadable[key] = version
            self._metrics.unreadable.labels(self._name).inc()
            error = one_line(str(unreadable.error))
            # Its condition that says so is a new state with the old mistake.
            if self._warned.get(key) != error:
                self._warned[key] = error
                told = log.fields(kind=self._name, key=key, error=error)
                _LOG.warning("object not read", extra=told)
            self._sink.on_unread(key, unreadable)
        return key


def _must_list(error: ApiError) -> bool:
    """Whether a watch cannot go on from where it was: too old, or the server went back in time."""
    if error.http_status == _GONE:
        return True
    return any(cause.reason == "ResourceVersionTooLarge" for cause in causes_of(error))
