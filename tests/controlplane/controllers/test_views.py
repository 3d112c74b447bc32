# SPDX-License-Identifier: Apache-2.0
"""A view shows own writes at once, never goes back, and ends up where the server is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.controlplane.controllers.base.objects import NAMESPACE, POD, Owner, timestamp
from koord.controlplane.controllers.base.views import KindView
from tests.controlplane.controllers.small_cluster import START


class Watched:
    """An informer that is told what to have seen, in the server's order."""

    def __init__(self) -> None:
        self.resource_version = "0"
        self.objects: dict[str, Any] = {}

    def on_change(self, **handlers: Callable[..., None]) -> None:
        self.handlers = handlers

    def get(self, key: str) -> Any:
        return self.objects.get(key)

    def see(self, version: int, value: Any, key: str) -> None:
        """The next event; None for a deletion."""
        self.resource_version = str(version)
        old = self.objects.pop(key, None)
        if old is not None and (value is None or value.metadata.uid != old.metadata.uid):
            self.handlers["deleted"](old, False)
            old = None
        if value is not None:
            self.objects[key] = value
            if old is None:
                self.handlers["added"](value)
            else:
                self.handlers["updated"](old, value)


def pod(uid: int, version: int, owner: str = "", **metadata: Any) -> Pod:
    references = [{"uid": owner, "controller": True}] if owner else []
    document = {"name": "p", "namespace": "default", "uid": str(uid),
                "resourceVersion": str(version), "ownerReferences": references}  # fmt: skip
    return codec.convert({"metadata": {**document, **metadata}}, Pod, "p")


def view() -> tuple[KindView[Pod], Watched]:
    watched = Watched()
    return KindView(POD, Pod, watched), watched  # type: ignore[arg-type]


def namespace(version: int) -> Owner:
    document = {
        "metadata": {"name": "team", "uid": "t", "resourceVersion": str(version),
                     "deletionTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Terminating"},
    }  # fmt: skip
    return codec.convert(document, Owner, "team")


@pytest.mark.parametrize("watched_first", [True, False])
def test_a_namespace_that_is_held_by_its_spec_stays(watched_first: bool) -> None:
    """Its status is written while it waits for what it holds."""
    watched = Watched()
    subject: KindView[Owner] = KindView(NAMESPACE, Owner, watched)  # type: ignore[arg-type]
    watched.see(4, namespace(4), "team")
    if watched_first:
        watched.see(5, namespace(5), "team")
    subject.record_write(namespace(5))
    found = subject.get("team")
    assert found is not None
    assert found.metadata.resource_version == "5"


KEY = "default/p"


def test_a_write_shows_at_once_and_the_watch_does_not_take_it_back() -> None:
    subject, watched = view()
    told: list[tuple[str, str]] = []
    subject.on_change(lambda before, after: told.append((version(before), version(after))))
    watched.see(1, pod(1, 1), KEY)
    subject.record_write(pod(1, 3, "owner"))
    watched.see(2, pod(1, 2), KEY)
    watched.see(3, pod(1, 3, "owner"), KEY)
    assert told == [("", "1"), ("1", "3")]
    assert [found.metadata.uid for found in subject.by_index("owner", "owner")] == ["1"]
    assert subject.by_index("orphans", "default") == []


def test_an_answer_that_comes_after_the_deletion_makes_no_ghost() -> None:
    subject, watched = view()
    watched.see(1, pod(1, 1), KEY)
    watched.see(5, None, KEY)
    subject.record_write(pod(1, 4))
    assert subject.get(KEY) is None


def test_what_was_gone_before_it_was_seen_is_dropped() -> None:
    subject, watched = view()
    subject.record_write(pod(1, 4))
    assert subject.get(KEY) is not None
    subject.drop_unconfirmed()
    assert subject.get(KEY) is not None
    watched.see(6, None, "default/other")
    subject.drop_unconfirmed()
    assert subject.get(KEY) is None


def test_a_deletion_of_ours_shows_until_the_server_says_more() -> None:
    subject, watched = view()
    watched.see(1, pod(1, 1), KEY)
    subject.record_deletion("default", "p", "2")
    found = subject.get(KEY)
    assert found is not None
    assert found.metadata.deletion_timestamp is None
    subject.record_deletion("default", "p", "1")
    marked = subject.get(KEY)
    assert marked is not None
    assert marked.metadata.deletion_timestamp is not None
    watched.see(2, pod(2, 2), KEY)
    fresh = subject.get(KEY)
    assert fresh is not None
    assert fresh.metadata.deletion_timestamp is None


def test_the_last_state_of_an_object_is_no_object() -> None:
    subject, watched = view()
    watched.see(1, pod(1, 1), KEY)
    subject.record_write(pod(1, 2, deletionTimestamp=timestamp(START)))
    assert subject.get(KEY) is None


def version(value: Pod | None) -> str:
    return value.metadata.resource_version if value else ""


@given(st.lists(st.sampled_from(["write", "delete", "create", "event"]), max_size=30), st.data())
def test_in_the_end_the_view_is_what_the_server_has(steps: list[str], data: DataObject) -> None:
    subject, watched = view()
    events: list[tuple[int, Pod | None]] = []
    current: Pod | None = None
    seen, count, uid = 0, 0, 0
    for step in steps:
        count += 1
        ours = data.draw(st.booleans())
        match step:
            case "create" if current is None:
                uid += 1
                current = pod(uid, count)
                events.append((count, current))
            case "write" if current is not None:
                current = pod(uid, count)
                events.append((count, current))
            case "delete" if current is not None:
                if ours:
                    subject.record_deletion("default", "p", str(uid))
                current = None
                events.append((count, None))
            case "event" if seen < len(events):
                watched.see(*events[seen], KEY)
                seen += 1
                continue
            case _:
                continue
        if ours and current is not None:
            subject.record_write(current)
            assert version(subject.get(KEY)) == str(count)
    for number, value in events[seen:]:
        watched.see(number, value, KEY)
    watched.see(count + 1, None, "default/other")
    subject.drop_unconfirmed()
    assert version(subject.get(KEY)) == version(current)
