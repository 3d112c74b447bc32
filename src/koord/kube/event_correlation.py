# SPDX-License-Identifier: Apache-2.0
"""Which events are written, and as what: new, one more of the same, one of many like it, or not.

The rules and numbers are client-go's ``EventCorrelator``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

import msgspec

from koord.api.kinds.cluster import Event

V = TypeVar("V")

# A component may say 25 things of an object at once, and one more every five minutes.
SPAM_BURST = 25
SPAM_SECONDS_A_TOKEN = 300.0
# From the tenth message of one reason on within ten minutes of the last, they are told as one.
SIMILAR_MESSAGES = 10
SIMILAR_SECONDS = 600.0
COMBINED = "(combined from similar events): "
_KEPT = 4096

EventKey = tuple[str, ...]


class CorrelationResult(NamedTuple):
    """What becomes of an event.

    Attributes:
        event: what is to be stored; with a count above one it replaces what is stored already.
        key: where :meth:`Correlator.stored` notes that it was.
    """

    event: Event
    key: EventKey


class _Lru(OrderedDict[EventKey, V], Generic[V]):
    """The last things that were looked at; bounded, since objects come and go."""

    def keep(self, key: EventKey, value: V) -> V:
        self[key] = value
        self.move_to_end(key)
        if len(self) > _KEPT:
            self.popitem(last=False)
        return value


class _SimilarEvents(msgspec.Struct):
    messages: set[str]
    last_seconds: float


class _EventTokenBucket(msgspec.Struct):
    tokens: float
    filled_seconds: float


class Correlator:
    """Remembers what was said lately. Pure: times come with the calls."""

    def __init__(self) -> None:
        self._similar: _Lru[_SimilarEvents] = _Lru()
        self._stored: _Lru[Event] = _Lru()
        self._buckets: _Lru[_EventTokenBucket] = _Lru()

    def correlate(self, event: Event, now_seconds: float) -> CorrelationResult | None:
        """Decides about one event.

        Args:
            event: as it happened, count 1, with a name of its own.
            now_seconds: monotonic.

        Returns:
            What is to be stored; None where the object has been talked about too much.
        """
        event, key = self._combine(event, now_seconds)
        before = self._stored.get(key)
        if before is not None:
            event = msgspec.structs.replace(
                event,
                metadata=before.metadata,
                first_timestamp=before.first_timestamp,
                count=before.count + 1,
            )
        # An event counts for its series even where the filter holds it back.
        self._stored.keep(key, event)
        return CorrelationResult(event, key) if self._within_rate(event, now_seconds) else None

    def forget(self, key: EventKey) -> None:
        """What was stored under the key is gone: the next such event is a new one."""
        self._stored.pop(key, None)

    def _combine(self, event: Event, now_seconds: float) -> tuple[Event, EventKey]:
        alike = (*_event_key(event), event.type, event.reason)
        similar = self._similar.get(alike)
        if similar is None or now_seconds - similar.last_seconds > SIMILAR_SECONDS:
            similar = _SimilarEvents(set(), now_seconds)
        similar.messages.add(event.message)
        similar.last_seconds = now_seconds
        self._similar.keep(alike, similar)
        if len(similar.messages) < SIMILAR_MESSAGES:
            return event, (*alike, event.message)
        similar.messages.discard(event.message)
        return msgspec.structs.replace(event, message=COMBINED + event.message), alike

    def _within_rate(self, event: Event, now_seconds: float) -> bool:
        about = _event_key(event)
        bucket = self._buckets.get(about) or _EventTokenBucket(float(SPAM_BURST), now_seconds)
        earned = (now_seconds - bucket.filled_seconds) / SPAM_SECONDS_A_TOKEN
        bucket.tokens = min(float(SPAM_BURST), bucket.tokens + earned)
        bucket.filled_seconds = now_seconds
        self._buckets.keep(about, bucket)
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True


def _event_key(event: Event) -> EventKey:
    """Who says something of whom."""
    told, source = event.involved_object, event.source
    return (
        source.component, source.host, told.kind, told.namespace, told.name, told.uid,
        told.api_version,
    )  # fmt: skip
