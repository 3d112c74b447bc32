# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Pod, decode_as, to_document, to_json
from koord.kube.sharing import Sharer
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
    sharer = Sharer(table_size)
    for value in values:
        text = to_json(value)
        assert to_json(sharer.share(value)) == text


@given(st.lists(JSON, max_size=10))
def test_documents_keep_every_type(values: list[Any]) -> None:
    sharer = Sharer()
    for value in values:
        assert repr(sharer.share({"spec": value})) == repr({"spec": value})


def test_pods_of_a_workload_share_what_they_have_in_common() -> None:
    sharer = Sharer()
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
    sharer = Sharer()

    def request(amount: str) -> Pod:
        container = f'{{"name":"c","resources":{{"requests":{{"memory":"{amount}"}}}}}}'
        return sharer.share(decode_as(f'{{"spec":{{"containers":[{container}]}}}}', Pod))

    first, second = request("1Gi"), request("1073741824")
    assert first == second
    assert b'"1073741824"' in to_json(second)


@pytest.mark.parametrize("table_size", [64, 256])
def test_what_is_remembered_is_bounded(table_size: int) -> None:
    sharer = Sharer(table_size)
    for number in range(5000):
        sharer.share(Frozen(f"n{number % 100}", {"a": f"{number}"}, [1, 2]))
    tables = [place for struct in sharer._structs.values() for _, place in struct._places]
    assert all(len(place.seen) + len(place._old) <= 2 * table_size for place in tables)
