# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord.api import Node, Pod, to_json
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.kube.codec.decoder import decoder_of
from koord.kube.codec.projection import projection
from koord.kube.requests.options import resolve
from tests.kube.pods import pages, pods


@pytest.mark.parametrize("kind", [Pod, TrimmedPod])
def test_what_a_type_reads_is_left(kind: Any) -> None:
    for text in pods(60):
        cut = projection(kind).cut(text)
        assert cut is not None
        assert len(cut) < len(text) * (0.4 if kind is TrimmedPod else 0.7)
        whole, read = msgspec.json.decode(text), msgspec.json.decode(cut)
        assert read["metadata"]["labels"] == whole["metadata"]["labels"]
        assert "managedFields" not in read["metadata"]
        assert ("env" in str(read["spec"]["containers"])) == (
            kind is Pod and "env" in str(whole["spec"]["containers"])
        )


def test_a_page_and_an_event_are_cut_within() -> None:
    body = next(pages(3))
    page = msgspec.json.decode(projection(TrimmedPod, "items[]").cut(body) or b"")
    assert page["metadata"] == msgspec.json.decode(body)["metadata"]
    assert [list(each) for each in page["items"]] == [["metadata", "spec", "status"]] * 3
    event = b'{"type":"ADDED","object":{"metadata":{"name":"a","x":1}}}'
    assert projection(Node, "object").cut(event) == event.replace(b',"x":1', b"")


def test_a_pod_is_the_same_from_a_list_and_from_a_watch() -> None:
    decoder = decoder_of(resolve(Pod)[0], TrimmedPod)
    (body,) = pages(20)
    events, error = decoder.events(
        [b'{"type":"ADDED","object":' + text + b"}" for text in pods(20)]
    )
    assert error is None
    listed = decoder.page(body).items
    assert [to_json(each.object) for each in events] == [to_json(each) for each in listed]
    assert not any("projected" in volume for pod in listed for volume in pod.spec.volumes)
