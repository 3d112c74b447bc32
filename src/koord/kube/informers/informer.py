# SPDX-License-Identifier: Apache-2.0
"""A cache of all objects of one kind, kept true by a list and a watch, and who is told of changes.

The promises stand in ``docs/kube.md``. A list that is repeated tells handlers of what differs and
of nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from koord.api.kinds.registry import Kind, title_of
from koord.base import log
from koord.base.errors import one_line
from koord.base.supervision import Supervisor
from koord.kube.codec.decoder import no_collection
from koord.kube.codec.interner import Interner
from koord.kube.codec.page_reader import PageReader
from koord.kube.informers.indexer import Indexer, IndexFunction
from koord.kube.informers.reflector import InformerMetrics, Reflector, ReflectorSink
from koord.kube.requests.options import resolve

if TYPE_CHECKING:
    from collections.abc import ItemsView

    from koord.kube.client import Client
    from koord.kube.codec.decoder import UnreadableObject, WatchEvent
    from koord.kube.requests.retry import RetryPolicy

O = TypeVar("O")  # noqa: E741

_LOG = log.get("informer")
# Objects that a resync tells of before others get a turn.
_RESYNC_CHUNK = 500

AddHandler = Callable[[O], None]
UpdateHandler = Callable[[O, O], None]
DeleteHandler = Callable[[O, bool], None]
ListHandler = Callable[[list[O]], list[O]]
ServedHandler = Callable[[bool], None]
UnreadableHandler = Callable[[str, "UnreadableObject | None"], None]


class Handlers(NamedTuple, Generic[O]):
    """What is called at changes, in the order of registration; none of these may wait."""

    added: AddHandler[O] | None
    updated: UpdateHandler[O] | None
    deleted: DeleteHandler[O] | None
    listed: ListHandler[O] | None = None


class Informer(Generic[O]):
    """Lists and watches one kind.

    Args:
        client: the way to the API server.
        kind: a type of ``koord.api``, or a Kind for plain documents.
        namespace: empty for all.
        label_selector: which objects; one that stops to match is told of as deleted.
        field_selector: likewise.
        project: a smaller type to decode into, with ``metadata`` as the whole one has it.
        transform: what objects pass through before the cache and handlers have them, deleted ones
            too. It gives back the object itself or a changed copy, of the same ``metadata``; parts
            may be other objects' too.
        skip_unread: whether handlers are not told of changes in nothing that the type has but the
            version; these are told apart before anything is decoded.
        indexers: see :class:`koord.kube.informers.indexer.Indexer`.
        resync_seconds: how often handlers are told of every object as updated; 0 for never.
        page_size: objects a list request asks for.
        stream_list: ask for the first list as part of the watch where the server can do that.
        share: whether equal parts of objects are kept once, see :mod:`koord.kube.codec.interner`.
        policy: the back-off between failed lists and watches.
        seed: of how long each watch lasts, so that those of many programs do not end together.
        metrics: shared by the informers of a component.
        supervisor: of the component; keeps the informer going.
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
        transform: Callable[[O], O] | None = None,
        skip_unread: bool = False,
        indexers: Mapping[str, IndexFunction[O]] | None = None,
        resync_seconds: float = 0.0,
        page_size: int = 500,
        stream_list: bool = False,
        share: bool = True,
        policy: RetryPolicy | None = None,
        seed: int = 0,
        metrics: InformerMetrics | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        served, decoded = resolve(kind)
        self.name = title_of(served)
        documents = decoded is dict and project is None
        self._key = _key_of_document if documents else _key
        self._state = _state_of_document if documents else _state
        self._cache: Indexer[O] = Indexer(indexers)
        self._transform = transform
        self._skip_unread = skip_unread
        self._set_handlers(())
        self._served_handlers: list[ServedHandler] = []
        self._not_read: dict[str, UnreadableObject] = {}
        # The versions of writes that neither watch nor list has told of so far.
        self._written: dict[str, str] = {}
        self._unread_handlers: tuple[UnreadableHandler, ...] = ()
        self._resync_seconds = resync_seconds
        self._sharer = Interner() if share else None
        self._metrics = metrics or InformerMetrics()
        self._supervisor = supervisor or Supervisor("informer")
        self._objects = self._metrics.objects.labels(self.name)
        self._handler_calls = {
            change: self._metrics.events.labels(self.name, change)
            for change in ("added", "updated", "deleted")
        }
        self._synced = asyncio.Event()
        self._reflector: Reflector[O] = Reflector(
            client,
            project or kind,
            self.name,
            {
                "kind": served,
                "namespace": namespace,
                "label_selector": label_selector,
                "field_selector": field_selector,
            },
            ReflectorSink(
                self._listed,
                self._completed,
                self._changed,
                self._vanished,
                self._not_decoded,
                self._call_served,
            ),
            page_size=page_size,
            stream_list=stream_list,
            policy=policy,
            seed=seed,
            metrics=self._metrics,
            reader=PageReader.of(project or decoded, self._sharer, self._known, skip_unread),
        )

    def __len__(self) -> int:
        return len(self._cache)

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the cache, or it is known that there is nothing to list."""
        return self._synced.is_set()

    @property
    def served(self) -> bool:
        """Whether the server has the kind; one that it lacks is empty, and asked for again."""
        return self._reflector.served

    @property
    def connected(self) -> bool:
        """Whether a watch is open, so that silence means that nothing has changed."""
        return self._reflector.watching

    @property
    def resource_version(self) -> str:
        """The version up to which the cache is complete; empty before the first list."""
        return self._reflector.version

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Objects that are there and did not decode: key to the version that did not."""
        return self._reflector.unreadable

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
        added: AddHandler[O] | None = None,
        updated: UpdateHandler[O] | None = None,
        deleted: DeleteHandler[O] | None = None,
        listed: ListHandler[O] | None = None,
    ) -> Handlers[O]:
        """Registers handlers. They are told at once of what is in the cache already, as added.

        Args:
            added: gets the new object.
            updated: gets the object before and after; the same one twice at a resync.
            deleted: gets the last known state, and whether a later one was missed
                (``final_state_unknown``).
            listed: gets the new objects of a page of a list, all in the cache already, in the
                place of ``added``, and gives back those that ``added`` is to be told of.

        Returns:
            What :meth:`remove_handlers` takes.
        """
        handlers: Handlers[O] = Handlers(added, updated, deleted, listed)
        for key, value in list(self._cache.items()):
            if added is not None:
                self._call(key, added, value)
        self._set_handlers((*self._handlers, handlers))
        return handlers

    def on_served(self, changed: ServedHandler) -> None:
        """Registers who is told when the kind goes from the server, or comes after all.

        Args:
            changed: gets whether it is served now; what handlers of objects have to hear of it
                they have heard by then.
        """
        self._served_handlers.append(changed)

    def on_unreadable(self, handler: UnreadableHandler) -> None:
        """Registers who is told of objects that are there and do not decode.

        Args:
            handler: gets the key of one with what is wrong, at each state that does not decode;
                with None once it decodes again, or is gone. It is told at once of those there are.
        """
        for key, unreadable in list(self._not_read.items()):
            self._call(key, handler, key, unreadable)
        self._unread_handlers = (*self._unread_handlers, handler)

    def remove_handlers(self, handlers: Handlers[O]) -> None:
        """Tells these handlers of nothing more."""
        self._set_handlers(tuple(other for other in self._handlers if other is not handlers))

    def _set_handlers(self, handlers: tuple[Handlers[O], ...]) -> None:
        self._handlers = handlers
        # Most events are theirs alone.
        self._update_handlers = tuple(each.updated for each in handlers if each.updated is not None)

    def observe_write(self, written: O) -> None:
        """Takes in what the server answered to a write of ours, which the watch tells of later.

        So who follows hears of it no later than who wrote. The watch's own event is of the same
        version then, and passed over. An answer that is not newer than what is known of that very
        object changes nothing, nor does one about an object that is not known: it may be gone.
        """
        key, (uid, version) = self._key(written), self._state(written)
        old = self._cache.get(key)
        if old is None or self._state(old)[0] != uid or not is_newer(version, self._state(old)[1]):
            return
        self._put(key, old, written, False)
        self._written[key] = version

    async def run(self) -> None:
        """Keeps the cache true until cancelled, whatever the server does."""
        async with asyncio.TaskGroup() as tasks:
            if self._resync_seconds > 0:
                resync = self._supervisor.keep(f"resync of {self.name}", self._resync)
                tasks.create_task(resync, name=f"resync of {self.name}")
            await self._supervisor.keep(f"informer of {self.name}", self._reflector.run)

    def _listed(self, values: list[O], shared: bool) -> list[str]:
        with no_collection():
            return self._take(values, shared)

    def _take(self, values: list[O], shared: bool) -> list[str]:
        keys: list[str] = []
        fresh: dict[str, O] = {}
        for value in values:
            key = self._key(value)
            keys.append(key)
            if key not in fresh and self._cache.get(key) is None:
                fresh[key] = value
                continue
            self._add(fresh, shared)
            fresh = {}
            self._relisted(key, value, shared)
        self._add(fresh, shared)
        return keys

    def _relisted(self, key: str, value: O, shared: bool) -> None:
        # The version says whether an object of a list differs, not which is newer: a server that
        # went back to a backup is believed.
        old = self._cache.get(key)
        assert old is not None
        had, found = self._state(old), self._state(value)
        written = self._written.pop(key, None)
        if had == found:
            return
        if written is not None and had[0] == found[0] and is_newer(written, found[1]):
            return  # The list was asked for before the write, which the watch is to tell of.
        if had[0] != found[0]:
            self._gone(key)
            old = None
        self._put(key, old, value, shared)

    def _add(self, fresh: dict[str, O], shared: bool) -> None:
        """Takes objects in that were not known."""
        if not fresh:
            return
        for key, value in fresh.items():
            fresh[key] = self._take_in(value, shared)
            self._cache.put(key, fresh[key])
        self._objects.set(len(self._cache))
        self._handler_calls["added"].inc(len(fresh))
        values = list(fresh.values())
        for handlers in self._handlers:
            left = values
            if handlers.listed is not None:
                first = next(iter(fresh))
                left = self._call(first, handlers.listed, values) or []
            if handlers.added is not None:
                for value in left:
                    self._call(self._key(value), handlers.added, value)

    def _completed(self, seen: set[str]) -> None:
        for key in [key for key, _ in self._cache.items() if key not in seen]:
            self._gone(key)
        self._objects.set(len(self._cache))
        self._synced.set()

    def _changed(self, event: WatchEvent[O]) -> str:
        assert event.object is not None
        key = self._key(event.object)
        if event.type == "DELETED":
            self._deleted(key, event.object)
        else:
            self._upserted(key, event.object, event.shared)
        return key

    def _not_decoded(self, key: str, unreadable: UnreadableObject | None) -> None:
        if unreadable is None:
            self._not_read.pop(key, None)
        else:
            self._not_read[key] = unreadable
        for handler in self._unread_handlers:
            self._call(key, handler, key, unreadable)

    def _vanished(self, key: str) -> None:
        if self._cache.get(key) is not None:
            self._gone(key)

    def _known(self, value: Any) -> O | None:
        """The state in the cache of an object that a list or an event brought."""
        return self._cache.get(_key(value))

    def _upserted(self, key: str, value: O, shared: bool) -> None:
        uid, version = self._state(value)
        if self._written and key in self._written and not is_newer(self._written[key], version):
            del self._written[key]
        old = self._cache.get(key)
        if old is not None:
            had_uid, had_version = self._state(old)
            if not is_newer(version, had_version):
                return
            if had_uid != uid:
                self._gone(key)
                old = None
        self._put(key, old, value, shared)

    def _put(self, key: str, old: O | None, value: O, shared: bool) -> None:
        if old is None:
            self._add({key: value}, shared)
            return
        value = self._take_in(value, shared)
        self._cache.put(key, value)
        if self._skip_unread and _differ_by_version(old, value):
            return
        self._handler_calls["updated"].inc()
        self._call_updated(key, old, value)

    def _take_in(self, value: O, shared: bool) -> O:
        """An object as the cache has it."""
        if self._transform is not None:
            made = self._transform(value)
            # The copies of objects that were equal share their parts as those did.
            value, shared = made, shared and made is value
        if self._sharer is not None and not shared:
            value = self._sharer.share(value)
        return value

    def _deleted(self, key: str, last: O) -> None:
        uid, version = self._state(last)
        old = self._cache.get(key)
        if old is None:
            return
        had_uid, had_version = self._state(old)
        # A deletion may have the version of the last change, where nothing else changed.
        if had_uid == uid and (had_version == version or is_newer(version, had_version)):
            self._remove(key, last if self._transform is None else self._transform(last), False)

    def _gone(self, key: str) -> None:
        """An object went away and nobody said so."""
        last = self._cache.get(key)
        assert last is not None
        self._remove(key, last, True)

    def _remove(self, key: str, last: O, final_state_unknown: bool) -> None:
        self._cache.remove(key)
        self._written.pop(key, None)
        self._objects.set(len(self._cache))
        self._handler_calls["deleted"].inc()
        for handlers in self._handlers:
            if handlers.deleted is not None:
                self._call(key, handlers.deleted, last, final_state_unknown)

    def _call_updated(self, key: str, old: O, value: O) -> None:
        # As by _call, which would cost as much as most handlers do.
        for updated in self._update_handlers:
            try:
                updated(old, value)
            except Exception as error:
                self._handler_failed(key, error)

    def _call_served(self, served: bool) -> None:
        for changed in self._served_handlers:
            self._call("", changed, served)

    def _call(self, key: str, handler: Callable[..., Any], *arguments: object) -> Any:
        try:
            return handler(*arguments)
        except Exception as error:
            self._handler_failed(key, error)
            return None

    def _handler_failed(self, key: str, error: Exception) -> None:
        """Says so; one handler's mistake must not keep the others from the event."""
        self._metrics.errors.labels(self.name).inc()
        told = log.fields(kind=self.name, key=key, error=one_line(repr(error)))
        _LOG.error("a handler failed", extra=told)
        _LOG.debug("where it failed", exc_info=error, extra=log.fields(key=key))

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_seconds)
            keys = [key for key, _ in self._cache.items()]
            for number, key in enumerate(keys, 1):
                value = self._cache.get(key)
                if value is not None:
                    self._call_updated(key, value, value)
                if number % _RESYNC_CHUNK == 0:
                    await asyncio.sleep(0)


def is_newer(version: str, than: str) -> bool:
    """Whether a resource version comes later; any other one where they are no numbers."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


def _differ_by_version(old: Any, value: Any) -> bool:
    """Whether two states of an object are equal but for the version."""
    for name in value.__struct_fields__:
        had, has = getattr(old, name), getattr(value, name)
        if had is has or (name != "metadata" and had == has):
            continue
        if name != "metadata":
            return False
        had = copy(had)
        had.resource_version = has.resource_version
        if had != has:
            return False
    return True


def _key(value: Any) -> str:
    meta = value.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _state(value: Any) -> tuple[str, str]:
    """Which life of an object, and which state."""
    meta = value.metadata
    return meta.uid, meta.resource_version


def _key_of_document(value: Any) -> str:
    meta = value["metadata"]
    namespace, name = meta.get("namespace"), meta["name"]
    return f"{namespace}/{name}" if namespace else name


def _state_of_document(value: Any) -> tuple[str, str]:
    meta = value["metadata"]
    return meta.get("uid", ""), meta.get("resourceVersion", "")
