# SPDX-License-Identifier: Apache-2.0
"""The verbs that read: list in pages and at versions, watch."""

from __future__ import annotations

import asyncio
import base64
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.worker import Worker
from koord.controlplane.api_errors import (
    bad_request,
    expired,
    failure,
    forbidden_field,
    not_supported,
)
from koord.controlplane.requests import selectors
from koord.controlplane.requests.options import refuse, truth
from koord.controlplane.requests.representations import ListPage
from koord.controlplane.storage import conversion
from koord.controlplane.storage.collection import event
from koord.controlplane.storage.watch import WatchCursor, WatchScope
from koord.kube.errors import ApiError, StatusCause, StatusDetails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from koord.controlplane.resource import Resource
    from koord.controlplane.storage.collection import Collection, Entry
    from koord.controlplane.storage.store import Store

# As kube-apiserver: how long a read waits for a version that is not there yet.
FRESH_SECONDS = 3.0
_FRESH_POLL_SECONDS = 0.05
# What it costs to look at one object's labels, in bytes of an object that is worked out.
_MATCHED_BYTES = 4
_INITIAL_END = "k8s.io/initial-events-end"
_TOO_OLD = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Reads:
    """Lists and watches.

    Args:
        bookmark_seconds: between the bookmarks of a watch that asks for them.
        worker: goes through long lists; None does it at once.
    """

    def __init__(self, store: Store, bookmark_seconds: float, worker: Worker | None = None) -> None:
        self._store = store
        self._worker = worker or Worker()
        self._bookmark_seconds = bookmark_seconds

    async def list(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> ListPage:
        """The objects that a list asks for.

        Raises:
            ApiError: 400, 410 or 422.
        """
        options = _ListRequest(query)
        options.check_list()
        collection = self._store.collection(resource.storage)
        match = _match(resource, query)
        prefix = f"{namespace}/" if namespace else ""
        version, start = self._store.version, prefix
        if options.token:
            version, start = self._resumed(options.token, collection)
        elif options.exact:
            version = options.version or 0
        try:
            chosen = [*collection.at(version, prefix, start)]
        except ApiError:
            raise expired(_TOO_OLD) from None
        if match is not None:
            weight = len(chosen) * _MATCHED_BYTES
            chosen = await self._worker.call(weight, _matching, chosen, match)
        page = ListPage(chosen, version)
        if options.limit and len(chosen) > options.limit:
            page.token = _token(version, chosen[options.limit].key)
            page.remaining = None if match else len(chosen) - options.limit
            page.entries = list(islice(chosen, options.limit))
        return page

    async def wait_for_version(self, query: Mapping[str, str]) -> None:
        """Waits a while for the version that a get or a list asks for at least.

        Raises:
            ApiError: 400, it is none; 504, it has not come.
        """
        options = _ListRequest(query)
        wanted = options.version or 0
        if wanted <= self._store.version:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FRESH_SECONDS
        while wanted > self._store.version:
            if loop.time() >= deadline:
                raise _from_the_future(wanted, self._store.version)
            await asyncio.sleep(_FRESH_POLL_SECONDS)

    def watch(
        self,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        render: Callable[[bytes], bytes] | None,
    ) -> WatchCursor:
        """Begins a watch.

        Raises:
            ApiError: 400, 410 or 422.
        """
        options = _ListRequest(query)
        options.check_watch()
        store, collection = self._store, self._store.collection(resource.storage)
        if (options.version or 0) > store.version:
            raise _from_the_future(options.version or 0, store.version)
        match = _match(resource, query)
        prefix = f"{namespace}/" if namespace else ""
        initial: Iterable[bytes] = ()
        if options.version and not options.initial_events:
            position = collection.position(options.version)
        else:
            # Past changes that are not committed yet: the list has them, and waits for that.
            position = collection.position(store.version)
            if options.initial_events is not False:
                present = [*collection.at(store.version, prefix, prefix)]
                initial = _added(present, match, render)
        scope = WatchScope(
            prefix, match, render, lambda version, end: bookmark(resource, version, end),
            self._bookmark_seconds if options.bookmarks else None,
        )  # fmt: skip
        if options.initial_events and options.bookmarks:
            end = event("BOOKMARK", bookmark(resource, store.version, True))
            initial = chain(initial, (end,))
        timeout = options.timeout_seconds
        return WatchCursor(
            collection, scope, position, initial, lambda: store.committed_version, timeout
        )

    def _resumed(self, token: str, collection: Collection) -> tuple[int, str]:
        """Version and first key of a continue token."""
        version, start = _parse_token(token)
        if version < 0:  # A list that goes on at whatever there is now.
            return self._store.version, start
        # Of a later version it is if the server has lost its memory, or if it is forged.
        if version < collection.floor or version > self._store.version:
            error = expired(_CONTINUE_TOO_OLD)
            error.status.metadata["continue"] = _token(-1, start)
            raise error
        return version, start


class _ListRequest:
    """``ListOptions``, read from a query."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self.limit = max(0, _integer(query, "limit"))
        self.token = query.get("continue", "")
        self.match = query.get("resourceVersionMatch", "")
        self.bookmarks = truth(query.get("allowWatchBookmarks", ""))
        asked = query.get("sendInitialEvents")
        self.initial_events = None if asked is None else truth(asked)
        seconds = _integer(query, "timeoutSeconds")
        self.timeout_seconds = float(seconds) if seconds > 0 else None
        text = query.get("resourceVersion", "")
        wrong = _not_a_number(text, 1 << 64) if text else ""
        if wrong:
            raise bad_request(
                f'invalid resource version: resourceVersion: Invalid value: "{text}": '
                f'strconv.ParseUint: parsing "{text}": {wrong}'
            )
        self.version = int(text) if text else None
        self.exact = self.match == "Exact"

    def check_list(self) -> None:
        """Refuses what contradicts itself in a list."""
        causes: list[StatusCause] = []
        field = "resourceVersionMatch"
        if self.initial_events is not None:
            why = "sendInitialEvents is forbidden for list"
            causes.append(forbidden_field("sendInitialEvents", why))
        if self.match:
            if self.version is None:
                why = f"{field} is forbidden unless resourceVersion is provided"
                causes.append(forbidden_field(field, why))
            if self.token:
                why = f"{field} is forbidden when continue is provided"
                causes.append(forbidden_field(field, why))
            if self.match not in ("Exact", "NotOlderThan"):
                causes.append(not_supported(field, self.match, ("Exact", "NotOlderThan", "")))
            if self.exact and self.version == 0:
                why = f'{field} "exact" is forbidden for resourceVersion "0"'
                causes.append(forbidden_field(field, why))
        refuse("ListOptions", causes)
        if self.token and self.version:
            raise bad_request("specifying resource version is not allowed when using continue")
        if self.limit and self.version and not self.match:
            self.exact = True  # As for a kube-apiserver without a watch cache.

    def check_watch(self) -> None:
        """Refuses what contradicts itself in a watch."""
        causes: list[StatusCause] = []
        field = "resourceVersionMatch"
        if self.initial_events is not None:
            if self.match != "NotOlderThan":
                why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                causes.append(forbidden_field(field, why))
        elif self.match:
            why = f"{field} is forbidden for watch unless sendInitialEvents is provided"
            causes.append(forbidden_field(field, why))
        refuse("ListOptions", causes)


def bookmark(resource: Resource, version: int, initial_end: bool) -> bytes:
    """The object of a bookmark."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = {_INITIAL_END: "true"}
    return conversion.encode(
        {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    )


def _matching(entries: list[Entry], match: Callable[[Entry], bool]) -> list[Entry]:
    return [entry for entry in entries if match(entry)]


def _added(
    entries: list[Entry],
    match: Callable[[Entry], bool] | None,
    render: Callable[[bytes], bytes] | None,
) -> Iterator[bytes]:
    """What a watch tells first: an event for each object that there is, empty for another's."""
    for entry in entries:
        if match is None or match(entry):
            yield event("ADDED", render(entry.body) if render else entry.body)
        else:
            yield b""


def _match(resource: Resource, query: Mapping[str, str]) -> Callable[[Entry], bool] | None:
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields:
        return None
    return selectors.matching(labels, fields, resource.strategy.selectable)


def _integer(query: Mapping[str, str], name: str) -> int:
    text = query.get(name)
    if not text:
        return 0
    wrong = _not_a_number(text[1:] if text[0] in "+-" else text, 1 << 63)
    if wrong:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": {wrong}')
    return int(text)


def _not_a_number(text: str, bound: int) -> str:
    """What Go says of a text that is no number below a bound; empty if it is one."""
    if not (text.isascii() and text.isdigit()):
        return "invalid syntax"
    digits = text.lstrip("0")
    return "value out of range" if len(digits) > 20 or int(digits or "0") >= bound else ""


def _token(version: int, start: str) -> str:
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _parse_token(token: str) -> tuple[int, str]:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        parsed = msgspec.json.decode(text)
        version, start = parsed["rv"], parsed["start"]
        if not isinstance(version, int) or not isinstance(start, str) or version == 0:
            raise ValueError(token)
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.DecodeError):
        raise bad_request("invalid continue token: continue key is not valid: "
                          "it is none of this server") from None  # fmt: skip
    return version, start


def _from_the_future(version: int, current: int) -> ApiError:
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    cause = StatusCause("ResourceVersionTooLarge", "Too large resource version")
    details = StatusDetails(retry_after_seconds=1, causes=[cause])
    return failure(504, "Timeout", message, details)
