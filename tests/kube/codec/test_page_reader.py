# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Node, Pod, to_json
from koord.api.wirestruct import WireStruct
from koord.base.errors import KoordError
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.kube.codec.decoder import Decoder, decoder_of
from koord.kube.codec.interner import Interner
from koord.kube.codec.page_reader import PageReader
from koord.kube.requests.options import resolve
from tests.kube.pods import pages, pods

KIND, _ = resolve(Pod)
TEXTS = st.sampled_from(["", "a", "b", "\u00e9", 'a"\\', "\n\x7f", '"'])
MAPS = st.one_of(st.none(), st.dictionaries(st.sampled_from("ab"), TEXTS))
AMOUNTS = st.sampled_from(["1", "1000m", "500m", "", 7, -1, "x", None])
RESOURCES = st.fixed_dictionaries({}, optional={"requests": st.dictionaries(TEXTS, AMOUNTS)})
CONTAINERS = st.fixed_dictionaries({"name": TEXTS}, optional={"resources": RESOURCES, "odd": TEXTS})
TIMES = st.sampled_from(["2030-01-14T09:00:00Z", None])
STATUSES = st.fixed_dictionaries(
    {}, optional={"phase": TEXTS, "startTime": TIMES | st.just("soon"), "conditions": st.just([])}
)
PODS = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries(
        {"name": st.sampled_from("xyz")},
        optional={"labels": MAPS, "annotations": MAPS, "creationTimestamp": TIMES},
    )},
    optional={
        "spec": st.fixed_dictionaries({}, optional={
            "nodeName": TEXTS, "priority": st.sampled_from([0, 7, None, "7"]),
            "containers": st.lists(CONTAINERS, max_size=2), "nodeSelector": MAPS,
        }),
        "status": STATUSES,
    },
)  # fmt: skip


def body_of(items: list[Any]) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": items})


@given(st.lists(st.lists(PODS, max_size=4), max_size=3), st.integers(1, 9))
def test_a_page_is_what_plain_decoding_gives(found: list[list[Any]], size: int) -> None:
    decoder = Decoder(KIND, TrimmedPod)
    reader = PageReader(TrimmedPod, Interner(size))
    for items in found:
        body = body_of(items)
        ours, plain = decoder.page(body, reader), decoder.page(body)
        assert [to_json(each) for each in ours.items] == [to_json(each) for each in plain.items]
        assert ours.items == plain.items
        assert [each.error.field for each in ours.unreadable] == [
            each.error.field for each in plain.unreadable
        ]
        assert ours.resource_version == plain.resource_version == "7"
        assert not (ours.shared and plain.unreadable)


@given(st.lists(st.lists(PODS, max_size=4), max_size=4), st.integers(1, 9))
def test_an_event_is_what_plain_decoding_gives(found: list[list[Any]], size: int) -> None:
    known: dict[str, Any] = {}
    decoder = Decoder(KIND, TrimmedPod)
    reader = PageReader(TrimmedPod, Interner(size), lambda made: known.get(made.metadata.name))
    for batch in found:
        lines = [msgspec.json.encode({"type": "MODIFIED", "object": item}) for item in batch]
        try:
            plain, _ = decoder.events(lines)
        except KoordError:
            with pytest.raises(KoordError):
                decoder.events(lines, reader)
            continue
        ours, _ = decoder.events(lines, reader)
        assert [to_json(each.object) for each in ours] == [to_json(each.object) for each in plain]
        assert not any(each.shared and each.object is None for each in ours)
        for event in ours:
            if event.object is not None:
                known[event.object.metadata.name] = event.object


def test_what_has_not_changed_is_that_of_the_state_before() -> None:
    known: dict[str, Any] = {}
    reader = PageReader(TrimmedPod, Interner(), lambda made: known.get(made.metadata.name))
    decoder = decoder_of(KIND, TrimmedPod)

    def seen(version: str, node: str) -> Any:
        pod = {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "a", "uid": "u", "resourceVersion": version},
               "spec": {"nodeName": node, "containers": [{"name": "main"}]},
               "status": {"phase": "Pending"}}  # fmt: skip
        line = msgspec.json.encode({"type": "MODIFIED", "object": pod})
        (event,), _ = decoder.events([line], reader)
        assert event.shared
        known["a"] = event.object
        return event.object

    first, second, third = seen("1", ""), seen("2", "n"), seen("2", "n")
    assert second.metadata.uid is first.metadata.uid
    assert second.spec.containers is first.spec.containers
    assert second.status is first.status
    assert (second.spec.node_name, second.metadata.resource_version) == ("n", "2")
    assert third is second


class FrozenMeta(WireStruct, frozen=True):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class FrozenObject(WireStruct, frozen=True):
    metadata: FrozenMeta = msgspec.field(default_factory=FrozenMeta)


def test_what_has_not_changed_is_that_of_the_state_before_where_nothing_can_be_set() -> None:
    known: list[Any] = [None]
    reader = PageReader(FrozenObject, Interner(), lambda made: known[-1])
    for version in ("1", "2", "2"):
        meta = {"name": "a", "uid": "u\u00e9", "resourceVersion": version}
        line = msgspec.json.encode({"type": "MODIFIED", "object": {"metadata": meta}})
        found = reader.event(line)
        assert found is not None
        known.append(found[1])
    _, first, second, third = known
    assert second.metadata == FrozenMeta("a", "u\u00e9", "2")
    assert (second.metadata.uid is first.metadata.uid, third is second) == (True, True)


@pytest.mark.parametrize("into", [Pod, TrimmedPod])
def test_real_pods_share_with_those_that_a_watch_brings(into: Any) -> None:
    sharer = Interner()
    reader = PageReader(into, sharer)
    decoder = decoder_of(KIND, into)
    for body in pages(1500):
        ours, plain = decoder.page(body, reader), decoder.page(body)
        assert ours.shared
        assert ours.items == plain.items
    last = ours.items[-1]
    text = next(itertools.islice(pods(1500), 1499, None))
    again = sharer.share(decoder.one(text))
    assert again == last
    for part in ("containers", "tolerations", "scheduler_name"):
        assert getattr(again.spec, part) is getattr(last.spec, part)
    assert again.metadata.labels is last.metadata.labels
    reader.remember(1)
    assert decoder.page(body, reader).items[-1].spec.containers is last.spec.containers


def test_what_has_another_shape_is_read_object_by_object() -> None:
    decoder = decoder_of(KIND, TrimmedPod)
    reader = PageReader(TrimmedPod, Interner())
    bad = {"metadata": {"name": "bad"}, "spec": {"containers": 5}}
    page = decoder.page(body_of([{"metadata": {"name": "good", "labels": None}}, bad]), reader)
    assert [each.metadata.name for each in page.items] == ["good"]
    assert [each.key for each in page.unreadable] == ["bad"]
    assert not page.shared


class Odd(msgspec.Struct, tag="odd"):
    metadata: dict[str, str] = {}


class Keyed(msgspec.Struct, kw_only=True):
    metadata: dict[str, str] = {}


@pytest.mark.parametrize("into", [dict, Odd, Keyed])
def test_types_that_fields_do_not_make_have_no_reader(into: Any) -> None:
    assert PageReader.of(into, Interner()) is None
    assert PageReader.of(Node, None) is None
    assert PageReader.of(Node, Interner()) is not None


def test_what_is_known_by_its_bytes_is_bounded_by_their_size() -> None:
    reader = PageReader(Pod, Interner())
    tracemalloc.start()
    try:
        for number in range(1000):
            notes = {"key": f"{number}" + "x" * (32 << 10)}
            reader.page(body_of([{"metadata": {"name": "p", "annotations": notes}}]))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # Three tables, two of them of two generations of 8 MiB; without a bound 96 MiB.
    assert held < 60 << 20
