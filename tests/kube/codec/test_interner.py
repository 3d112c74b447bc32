# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Pod, decode_as, to_document, to_json
from koord.api.codec import decoder
from koord.kernels.quantity import Quantity
from koord.kube.codec.interner import Interner
from tests.kube.pods import pods

LEAVES = st.sampled_from([None, True, False, 0, 1, 1.0, -0.5, 300, "", "a", "1"])
NESTED = st.one_of(
    LEAVES, st.lists(LEAVES, max_size=2), st.dictionaries(st.sampled_from("ab"), LEAVES)
)
JSON = st.one_of(NESTED, st.lists(NESTED, max_size=2), st.fixed_dictionaries({"a": NESTED}))


class Frozen(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    labels: dict[str, str] = {}
    rest: Any = None


@given(
    st.lists(st.builds(Frozen, st.sampled_from("xyz"), rest=JSON), max_size=10), st.integers(1, 9)
)
def test_sharing_changes_no_value_however_little_it_remembers(
    values: list[Frozen], table_size: int
) -> None:
    sharer = Interner(table_size)
    for value in values:
        text = to_json(value)
        assert to_json(sharer.share(value)) == text


class Outer(msgspec.Struct, gc=False):
    inner: Frozen = Frozen()
    amounts: dict[str, Quantity] = {}
    amount: Quantity | None = None
    names: list[str] = []
    choice: Literal["a", "b"] = "a"


AMOUNTS = st.sampled_from(["0", "0m", "1", "1000m", "1Gi"]).map(Quantity.parse)
INNER = st.builds(Frozen, st.sampled_from("xy"), st.fixed_dictionaries({"a": st.just("b")}), JSON)
OUTER = st.builds(
    Outer, INNER, st.dictionaries(st.sampled_from("ab"), AMOUNTS, max_size=2),
    st.one_of(st.none(), AMOUNTS), st.lists(st.sampled_from("ab"), max_size=1),
)  # fmt: skip


@given(st.lists(OUTER, max_size=10), st.integers(1, 9))
def test_a_new_state_is_what_was_sent_and_leaves_the_old_one(
    values: list[Outer], table_size: int
) -> None:
    sharer, before, text = Interner(table_size), None, b""
    for value in values:
        # What was decoded is nobody else's yet.
        sent = to_json(value)
        after = sharer.share(decoder(Outer).decode(sent))
        assert to_json(after) == sent
        assert before is None or to_json(before) == text
        before, text = after, sent


def test_a_new_state_keeps_what_has_not_changed() -> None:
    sharer = Interner()
    old = sharer.share(decode_as(next(pods(1)), Pod))
    new = decode_as(next(pods(1)), Pod)
    new.spec.node_name, new.metadata.resource_version = "elsewhere", "7"
    shared = sharer.share(new)
    assert shared.spec.node_name == "elsewhere" != old.spec.node_name
    assert shared.metadata.resource_version == "7" != old.metadata.resource_version
    assert shared.spec.containers is old.spec.containers
    assert shared.metadata.labels is old.metadata.labels
    assert shared.metadata.name is old.metadata.name
    assert shared.status is old.status


@given(st.lists(JSON, max_size=10))
def test_documents_keep_every_type(values: list[Any]) -> None:
    sharer = Interner()
    for value in values:
        assert repr(sharer.share({"spec": value})) == repr({"spec": value})


def test_pods_of_a_workload_share_what_they_have_in_common() -> None:
    sharer = Interner()
    texts = list(itertools.islice(pods(2000), 1500))
    shared = [sharer.share(decode_as(text, Pod)) for text in texts]
    for text, pod in zip(texts, shared, strict=True):
        assert to_document(pod) == to_document(decode_as(text, Pod))
    kept: dict[str, Pod] = {}
    common = 0
    # After about a thousand it is known which fields come again.
    for pod in shared[1100:]:
        owner = pod.metadata.owner_references[0].name if pod.metadata.owner_references else ""
        first = kept.setdefault(f"{pod.metadata.namespace}/{owner}", pod)
        if first is not pod:
            common += 1
            assert pod.metadata.owner_references is first.metadata.owner_references
            assert pod.spec.containers is first.spec.containers
            assert pod.spec.scheduler_name is first.spec.scheduler_name
            assert pod.metadata.uid != first.metadata.uid
    assert common > 250


def test_quantities_of_one_value_keep_their_spelling() -> None:
    sharer = Interner()

    def request(amount: str) -> Pod:
        container = f'{{"name":"c","resources":{{"requests":{{"memory":"{amount}"}}}}}}'
        return sharer.share(decode_as(f'{{"spec":{{"containers":[{container}]}}}}', Pod))

    first, second = request("1Gi"), request("1073741824")
    assert first == second
    assert b'"1073741824"' in to_json(second)


@pytest.mark.parametrize("table_size", [64, 256])
def test_what_is_remembered_is_bounded(table_size: int) -> None:
    sharer = Interner(table_size)
    for number in range(5000):
        sharer.share(Frozen(f"n{number % 100}", {"a": f"{number}"}, [1, 2]))
    tables = [place for _, place in sharer.struct(Frozen).places]
    assert any(len(place) for place in tables)
    assert all(len(place) <= 2 * table_size for place in tables)


def test_what_is_remembered_is_bounded_by_its_size() -> None:
    sharer = Interner()
    place = sharer.place()
    for number in range(1000):
        place.share(f"{number}" + "x" * (32 << 10))
    # Two generations of 8 MiB.
    assert len(place) <= 514
    assert not place.open
    one = {"key": f"{1000}" + "x" * (32 << 10)}
    assert place.share(dict(one)) is place.share(dict(one))


def test_what_is_long_is_not_remembered_but_its_parts_are() -> None:
    sharer = Interner()
    place = sharer.place()
    long, first, second = "x" * (65 << 10), {"a": ["same"]}, {"a": ["same"]}
    for one in (first, second):
        one["b"] = [long]
    shared, again = place.share(first), place.share(second)
    assert shared == again == {"a": ["same"], "b": [long]}
    assert shared is not again
    assert shared["a"] is again["a"]
    assert len(place) == 0
    assert place.share(long) is long
    assert len(place) == 0
