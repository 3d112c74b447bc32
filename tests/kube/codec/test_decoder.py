# SPDX-License-Identifier: Apache-2.0
"""The short ways of decoding give what the long way gives, and nothing gives a traceback."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import KINDS, NodeMetric, Pod, decode_as
from koord.api.objects import stamped
from koord.base.errors import KoordError
from koord.base.loop_share import LARGE_BYTES, loop_share
from koord.kube.codec.decoder import Decoder, decoded, refusal
from koord.kube.errors import ApiError
from koord.kube.transport.messages import Response
from tests import outcomes
from tests.kube.pods import pages, pods

PODS_KIND = next(kind for kind in KINDS if kind.name == "Pod")
PODS = Decoder(PODS_KIND, Pod)
DOCUMENTS: Decoder[dict[str, Any]] = Decoder(PODS_KIND, dict)
METRICS = Decoder(next(kind for kind in KINDS if kind.name == "NodeMetric"), NodeMetric)

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "1Gi", "\n"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["kind", "metadata", "items", "type", "object", "spec", "status", "name", "nodeName",
             "continue", "resourceVersion", "containers", "labels", "code", "message", "details"]
        ),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
TEXTS = ANY_JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=30)

NULLABLE = [("metadata", "labels"), ("spec", "containers"), ("spec", "tolerations"), ("status",)]


def with_nulls(document: dict[str, Any], paths: list[tuple[str, ...]]) -> dict[str, Any]:
    for *way, last in paths:
        place = document
        for name in way:
            place = place.get(name) or {}
        place[last] = None
    return document


@given(st.lists(st.lists(st.sampled_from(NULLABLE), max_size=2), max_size=3), st.integers(0, 99))
def test_a_page_is_its_items_decoded_one_by_one(
    nulls: list[list[tuple[str, ...]]], seed: int
) -> None:
    texts = list(pods(len(nulls), seed))
    items = [with_nulls(json.loads(t), paths) for t, paths in zip(texts, nulls, strict=True)]
    body = json.dumps({"metadata": {"resourceVersion": "5"}, "items": items}).encode()
    page = PODS.page(body)
    assert page.items == [stamped(decode_as(json.dumps(item).encode(), Pod)) for item in items]
    assert page.resource_version == "5"


@given(
    st.lists(
        st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.booleans()), max_size=3
    )
)
def test_events_are_their_objects_decoded_one_by_one(kinds: list[tuple[str, bool]]) -> None:
    texts = list(pods(len(kinds)))
    lines = []
    for text, (kind, swapped) in zip(texts, kinds, strict=True):
        event = {"type": kind, "object": json.loads(text)}
        ordered = dict(reversed(event.items())) if swapped else event
        lines.append(json.dumps(ordered, separators=(",", ":")).encode())
    events, error = PODS.events(lines)
    assert error is None
    assert [event.type for event in events] == [kind for kind, _ in kinds]
    assert [event.object for event in events] == [stamped(decode_as(t, Pod)) for t in texts]


def test_the_fixture_is_read_in_one_step() -> None:
    bodies = list(pages(1200, 500))
    found = [PODS.page(body) for body in bodies]
    assert [len(page.items) for page in found] == [500, 500, 200]
    assert [page.continue_token for page in found] == ["1", "2", ""]
    assert [page.remaining for page in found] == [700, 200, None]
    assert bodies == list(pages(1200, 500))


@given(TEXTS, st.sampled_from([PODS, METRICS, DOCUMENTS]))
def test_no_body_gives_a_traceback(text: bytes, decoder: Decoder[Any]) -> None:
    added = b'{"type":"ADDED","object":' + text + b"}"
    for decode in (decoder.one, decoder.page):
        outcomes.refusal(decode, text)
    for line in (text, added):
        outcomes.refusal(decoder.events, [line])
    failed = b'{"type":"ERROR","object":' + text + b"}"
    outcomes.refusal(decoder.events, [failed], errors=(KoordError, ApiError))


@given(TEXTS, st.sampled_from([302, 400, 404, 409, 429, 500, 503]), st.text(max_size=4))
def test_every_refusal_is_a_status(text: bytes, code: int, after: str) -> None:
    status = refusal(Response(code, text, headers={"retry-after": after}))
    assert status.code == code
    assert "\n" not in str(ApiError(status))


@pytest.mark.parametrize("text", [b"[]", b"5", b'"x"'])
def test_a_document_must_be_an_object(text: bytes) -> None:
    with pytest.raises(KoordError, match="a JSON object"):
        DOCUMENTS.one(text)


def test_a_large_answer_is_decoded_in_its_turn_and_a_small_one_at_once() -> None:
    one = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%b"}}'
    order: list[str] = []

    async def take(name: str, size: int) -> None:
        found = await decoded(DOCUMENTS, one % (b"x" * size))
        assert len(found["metadata"]["name"]) == size
        order.append(name)

    async def run() -> None:
        share = loop_share()
        async with share.aside():
            large = asyncio.create_task(take("large", LARGE_BYTES))
            await take("small", 100)
            await asyncio.sleep(0)
            order.append("other large work")
        await large

    asyncio.run(run())
    assert order == ["small", "other large work", "large"]
