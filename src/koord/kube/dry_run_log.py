# SPDX-License-Identifier: Apache-2.0
"""A log of writes that a dry run does not make: each once, and again when it would differ."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base import log
from koord.base.metrics import registry as new_registry

if TYPE_CHECKING:
    from koord.base.metrics import MetricRegistry

LOGGED_CHARACTERS, LOGGED_CHARACTERS_IN_FULL = 400, 16_384
"""Characters of a body in a line of the log, and with ``-v 4``."""
# Beyond so many, what has not been said for the longest time may be said again.
_REMEMBERED = 8192
_LOG = log.get("dryrun")
# Two writes that differ in nothing else say the same.
_VOLATILE = re.compile(rb'"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d)"|"resourceVersion":"[^"]*"')


class SuppressedWrite(NamedTuple):
    """A write that a dry run did not make.

    Attributes:
        verb: ``create``, ``update``, ``patch``, ``apply``, ``delete``, ``bind``, ``evict``.
        resource: plural of the kind.
        title: kind, namespace, name.
        subresource: empty for the object itself.
        body: what would be sent.
        data: the same as bytes.
    """

    verb: str
    resource: str
    title: str
    subresource: str
    body: dict[str, Any]
    data: bytes


class WriteLog:
    """Logs writes that are not made, and counts them.

    Args:
        registry: where; None for one of its own.
    """

    def __init__(self, registry: MetricRegistry | None = None) -> None:
        doc = "Writes that a dry run did not make."
        self._count = (registry or new_registry()).counter(
            "koord_dry_run_writes_total", doc, ("verb", "resource")
        )
        # By what it is about: what was said last, and how often it has come again since.
        self._last_logged: OrderedDict[tuple[str, str], list[int]] = OrderedDict()

    def record(
        self, verb: str, resource: str, about: str, words: dict[str, object], digest: int = 0
    ) -> None:
        """Counts a write, and tells of it unless it says what the last one of its object said.

        Args:
            verb: what would be done.
            resource: what it is counted as.
            about: of what; with the verb, what this write is compared by.
            words: for the log.
            digest: of what would be written; 0 for that of the words.
        """
        self._count.labels(verb, resource).inc()
        key, now = (verb, about), digest or hash(str(words))
        last = self._last_logged.get(key)
        if last is not None and last[0] == now:
            last[1] += 1
            self._last_logged.move_to_end(key)
            return
        if last is not None and last[1]:
            words = {**words, "repeated": last[1]}
        self._last_logged[key] = [now, 0]
        self._last_logged.move_to_end(key)
        while len(self._last_logged) > _REMEMBERED:
            self._last_logged.popitem(last=False)
        _LOG.info("would write", extra=log.fields(**words))


def log_write(into: WriteLog, write: SuppressedWrite) -> None:
    """Logs a write to the API; an event by what it says."""
    if write.resource == "events":
        _log_event(into, write)
        return
    words: dict[str, object] = {"verb": write.verb, "object": write.title}
    if write.subresource and write.verb not in ("bind", "evict"):
        words["subresource"] = write.subresource
    if write.verb == "bind":
        words["node"] = write.body.get("target", {}).get("name", "")
    elif write.verb not in ("delete", "evict"):
        words["body"] = _excerpt(write.data)
    about = f"{write.title} {write.subresource}"
    into.record(write.verb, write.resource, about, words, hash(_VOLATILE.sub(b"", write.data)))


def _log_event(into: WriteLog, write: SuppressedWrite) -> None:
    """An event that is only counted up is not logged again."""
    body = write.body
    about = body.get("involvedObject")
    if not isinstance(about, dict):
        return
    named = "/".join(about[key] for key in ("namespace", "name") if about.get(key))
    title = f"Event about {about.get('kind', '')} {named}"
    reason, text = body.get("reason", ""), body.get("message", "")
    words = {"verb": write.verb, "object": title, "reason": reason, "text": text}
    into.record(write.verb, write.resource, f"{title} {reason}", words)


def _excerpt(data: bytes) -> str:
    most = LOGGED_CHARACTERS_IN_FULL if _LOG.isEnabledFor(logging.DEBUG) else LOGGED_CHARACTERS
    text = data.decode(errors="replace")
    return text if len(text) <= most else f"{text[:most]} ..."
