# SPDX-License-Identifier: Apache-2.0
"""Keeps which objects are invalid, and says so of each once a cause.

Plugins judge the objects they read; here is noted what they found. While this process leads, each
finding is written on its object (:mod:`.traces`) and told by an event. What an object says already
is neither written nor told again, so a restart tells nothing anew. There is at most one finding an
object.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from koord.api.kinds.meta import ObjectReference
from koord.api.kinds.registry import kind_of_type
from koord.base import faults, log
from koord.base.errors import Code, KoordError, one_line
from koord.controllers.scheduler.invalid import status_writer
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.meta import Object
    from koord.base.clock import Clock
    from koord.kube.client import Client
    from koord.kube.codec.decoder import UnreadableObject

_LOG = log.get("scheduler")
_LOOK_SECONDS, _AGAIN_SECONDS = 1.0, 10.0
_NOT_FOUND = 404
CONTRADICTED: Final = "Contradicted"
"""Reason of events about pods that hold a node; these are not settled by it."""
# A message stands in an event, a condition or an annotation.
_LONGEST = 1024


class InvalidObject(NamedTuple):
    """What is wrong with an object.

    Attributes:
        about: the object.
        message: one line; empty once nothing is wrong any more.
        reason: of the event.
    """

    about: ObjectReference
    message: str
    reason: str = Code.INVALID.value


class InvalidObjects:
    """Keeps what plugins found wrong with objects, one finding each; writes and tells each once.

    Args:
        client: writes; None where there is no cluster.
        event: writes one: about, type, reason, message.
        clock: the time.
    """

    def __init__(
        self,
        client: Client | None,
        event: Callable[[object, str, str, str], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._event = event
        self._clock = clock
        self._findings: dict[tuple[type, str], InvalidObject] = {}
        # What is to be written; those that are no longer invalid have an empty message.
        self._waiting: dict[tuple[type, str], InvalidObject] = {}
        self._last_written: dict[tuple[type, str], tuple[str, str]] = {}
        # What could not be written and was logged; it is tried again without a word.
        self._unwritten: dict[tuple[type, str], InvalidObject] = {}
        self._running = False
        self._writing: tuple[tuple[type, str], InvalidObject] | None = None

    def message(self, kind: type[Object], key: str) -> str:
        """What is wrong with an object; empty if nothing is known to be."""
        found = self._findings.get((kind, key))
        return found.message if found is not None else ""

    def named(self, kind: type[Object], name: str) -> str:
        """What is wrong with the first object of a name, whatever its namespace; empty for none."""
        for (other, key), finding in sorted(self._findings.items(), key=lambda each: each[0][1]):
            if other is kind and key.rpartition("/")[2] == name:
                return finding.message
        return ""

    def judge(
        self,
        kind: type[Object],
        item: Object,
        error: KoordError | str | None,
        reason: str = Code.INVALID.value,
    ) -> None:
        """Notes what is wrong with an object that was read; None or an empty text for nothing."""
        meta, key = item.metadata, _key(item)
        said = status_writer.recorded_message(item)
        if not error and not said and (kind, key) not in self._findings:
            return
        finding = InvalidObject(_reference(kind, key, meta.uid), _line(error), reason)
        if said and said == finding.message:
            self._findings[kind, key] = finding
            # A watch may show what is being written before the server has answered: the event is
            # still to come then. Else another leader wrote it, or this one before.
            if self._writing != ((kind, key), finding):
                self._last_written[kind, key] = meta.uid, said
                self._waiting.pop((kind, key), None)
        else:
            self._put(kind, key, finding)

    def unreadable(
        self,
        kind: type[Object],
        key: str,
        why: UnreadableObject | None,
        reason: str = Code.INVALID.value,
    ) -> None:
        """Notes that an object does not decode; None once it does, or is gone."""
        if why is None:
            known = self._findings.get((kind, key))
            if known is not None:
                self._put(kind, key, known._replace(message=""))
            return
        about = _reference(kind, key, why.uid)
        named = KoordError(f"{about.kind} {key}", *_parts(why.error))
        self._put(kind, key, InvalidObject(about, _line(named), reason))

    def gone(self, kind: type[Object], item: Object) -> None:
        """An object was deleted."""
        self._forget((kind, _key(item)))

    def settled(self, kind: type[Object], item: Object) -> None:
        """What was found of an object no longer matters; what is being told of it still is."""
        at = (kind, _key(item))
        known = self._waiting.get(at) or self._findings.get(at)
        if known is not None and known.reason == CONTRADICTED:
            return  # that matters as long as the object is there
        self._findings.pop(at, None)
        self._last_written.pop(at, None)
        if not self._running:
            self._waiting.pop(at, None)

    async def run(self) -> None:
        """Writes what is new every second, until cancelled."""
        self._running = True
        try:
            while True:
                failed = await self.step()
                await asyncio.sleep(_AGAIN_SECONDS if failed else _LOOK_SECONDS)
        finally:
            self._running = False

    async def step(self) -> int:
        """Writes what is new; gives how many writes failed, which are tried again."""
        failed = 0
        for key, finding in list(self._waiting.items()):
            self._writing = key, finding
            try:
                written = await self._write(key[0], finding)
            except Exception as error:
                if isinstance(error, ApiError) and error.http_status == _NOT_FOUND:
                    self._forget(key)
                    continue
                failed += 1
                self._failed(key, finding, error)
                # Who may not write on it may still be heard.
                written = True
            else:
                self._unwritten.pop(key, None)
                if self._waiting.get(key) == finding:
                    del self._waiting[key]
            finally:
                self._writing = None
            if written:
                self._write_later(key, finding)
        return failed

    def _put(self, kind: type[Object], key: str, finding: InvalidObject) -> None:
        at = (kind, key)
        if self._findings.get(at) == finding:
            return
        if finding.message:
            self._findings[at] = finding
        else:
            self._findings.pop(at, None)
            self._last_written.pop(at, None)
        self._waiting[at] = finding

    def _forget(self, at: tuple[type, str]) -> None:
        self._findings.pop(at, None)
        self._last_written.pop(at, None)
        self._waiting.pop(at, None)
        self._unwritten.pop(at, None)

    async def _write(self, kind: type[Object], finding: InvalidObject) -> bool:
        """Whether the object did not say so already."""
        trace = status_writer.of(kind)
        if self._client is None or trace is None:
            return True
        faults.point("scheduler.invalid")
        now = self._clock.wall_seconds()
        return await trace(self._client, kind, finding.about, finding.message, now)

    def _write_later(self, at: tuple[type, str], finding: InvalidObject) -> None:
        said = (finding.about.uid, finding.message)
        if finding.message and self._last_written.get(at) != said:
            if at in self._findings:
                self._last_written[at] = said
            self._event(finding.about, "Warning", finding.reason, finding.message)

    def _failed(self, at: tuple[type, str], finding: InvalidObject, error: Exception) -> None:
        if self._unwritten.get(at) == finding:
            return
        self._unwritten[at] = finding
        told = log.fields(
            kind=finding.about.kind, name=finding.about.name, error=one_line(str(error))
        )
        _LOG.warning("what is wrong with an object is not written on it", extra=told)


def _key(item: Object) -> str:
    meta = item.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _reference(kind: type[Object], key: str, uid: str) -> ObjectReference:
    served = kind_of_type(kind)
    namespace, _, name = key.rpartition("/")
    return ObjectReference(served.api_version, served.name, namespace, name, uid)


def _parts(error: KoordError) -> tuple[str, object, str, Code]:
    return error.field, error.value, error.expected, error.code


def _line(error: KoordError | str | None) -> str:
    text = str(error) if error else ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."
