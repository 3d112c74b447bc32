# SPDX-License-Identifier: Apache-2.0
"""What a scheduler reads of pods, and what of them makes a shape."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from koord.api.codec import convert, decode_json, to_document, to_json
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.controllers.cluster.pods import Shapes
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.scheduler.cache.event_handlers import EventHandlers
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.pods import pod
from tests.kube.pods import pods

SKIPPED = {"env", "containerID", "ready", "restartCount", "state", "lastState"}


def _without(document: Any) -> Any:
    if isinstance(document, list):
        return [_without(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {key: _without(value) for key, value in document.items() if key not in SKIPPED}


def test_all_but_what_is_skipped() -> None:
    for text in pods(60):
        whole, seen = decode_json(text, Pod, "Pod"), decode_json(text, TrimmedPod, "Pod")
        assert isinstance(seen, Pod)
        assert whole.status.container_statuses[0].container_id
        assert not seen.status.container_statuses[0].container_id
        assert not any(container.env for container in seen.spec.containers)
        wanted = to_document(whole)
        for states in ("containerStatuses", "initContainerStatuses"):
            if states in wanted["status"]:
                wanted["status"][states] = _without(wanted["status"][states])
        wanted["spec"] = _without(wanted["spec"])
        assert to_document(seen) == wanted


def _volumes(*found: dict[str, Any]) -> Pod:
    return pod("x", cpu="1", volumes=list(found))


def _token(name: str) -> dict[str, Any]:
    return {"name": name, "projected": {"sources": [{"serviceAccountToken": {}}]}}


def test_a_token_volume_makes_no_shape_of_its_own() -> None:
    shapes = Shapes()
    one = shapes.of(_volumes(_token("kube-api-access-1")))
    assert shapes.of(_volumes(_token("kube-api-access-2"))) is one
    assert shapes.of(_volumes()) is one


@pytest.mark.parametrize(
    "volume",
    [{"persistentVolumeClaim": {"claimName": "a"}}, {"emptyDir": {}}, {"hostPath": {"path": "/"}}],
)
def test_other_volumes_do(volume: dict[str, Any]) -> None:
    shapes = Shapes()
    plain = shapes.of(_volumes(_token("kube-api-access-1")))
    claimed = shapes.of(_volumes(_token("kube-api-access-1"), {"name": "data", **volume}))
    assert claimed is not plain
    assert claimed is shapes.of(_volumes({"name": "data", **volume}, _token("other")))


def test_a_pod_that_changed_is_looked_at_again() -> None:
    shapes, first = Shapes(), pod("x", cpu="1")
    known = shapes.of(first)
    assert shapes.of(first) is known
    meta = structs.replace(first.metadata, labels={"a": "b"})
    assert shapes.of(structs.replace(first, metadata=meta)) is not known
    assert shapes.of(first) is known


DIFFERENCES = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        "cpu": st.sampled_from(["1", "2"]),
        "priority": st.sampled_from([0, 1]),
        "nodeSelector": st.just({"a": "x"}),
        "volumes": st.just([{"name": "v", "emptyDir": {}}]),
    },
)


@given(st.lists(DIFFERENCES, max_size=12))
def test_pods_have_one_shape_where_all_that_counts_is_equal(found: list[dict[str, Any]]) -> None:
    shapes, by_text = Shapes(), {}
    for number, each in enumerate(found):
        made = pod(f"p{number}", **each)
        text = to_json((made.metadata.labels, made.spec))
        assert shapes.of(made) is by_text.setdefault(text, shapes.of(made))
        # And where all its parts are the very same.
        again = structs.replace(made, metadata=structs.replace(made.metadata, name="again"))
        assert shapes.of(again) is shapes.of(made)
    assert len({shape.id for shape in by_text.values()}) == len(by_text)


class Reader:
    """A plugin that reads allocations; it counts how often it was asked."""

    def __init__(self, restores_from: tuple[str, ...] | None) -> None:
        if restores_from is not None:
            self.restores_from = restores_from
        self.asked: list[str] = []

    def restore(self, info: Any) -> None:
        self.asked.append(info.key)


def test_only_who_reads_an_annotation_of_a_bound_pod_is_asked() -> None:
    readers = [Reader(None), Reader(()), Reader(("a", "b")), Reader(("c",))]
    nothing: Any = None
    feed = EventHandlers(
        nothing, nothing, Shapes(), nothing, nothing, (), readers, lambda: None, nothing
    )
    feed._read(pod("plain"))
    feed._read(pod("noted", annotations={"b": "1", "z": "2"}))
    plain, noted = "default/plain", "default/noted"
    assert [each.asked for each in readers] == [[plain, noted], [], [noted], []]


def test_every_reader_of_the_shipped_profile_names_what_it_reads() -> None:
    """So that a plain bound pod costs no call: whoever does not is asked about every pod."""
    registry = Registry(outside=[])
    world = ClusterState(LocalViews(), VirtualClock(0.0))
    scheduler = Scheduler(world, shipped(registry, "koord-scheduler").profiles, registry)
    unnamed = [
        plugin.name
        for plugin in scheduler.plugins
        if hasattr(plugin, "restore") and getattr(plugin, "restores_from", None) is None
    ]
    assert unnamed == []


def test_a_seen_pod_is_found_in_a_list() -> None:
    document = {"metadata": {"name": "x"}, "spec": {"containers": [{"env": [{"name": "A"}]}]}}
    assert not convert(document, TrimmedPod, "Pod x").spec.containers[0].env
    assert msgspec.json.decode(msgspec.json.encode(document), type=TrimmedPod).metadata.name == "x"
