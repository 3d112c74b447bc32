# SPDX-License-Identifier: Apache-2.0
"""Who gets the same of a pod."""

from __future__ import annotations

import pytest
from msgspec import structs

from koord.controllers.cluster import pods
from koord.controllers.cluster.pods import Shapes
from tests.controllers.scheduler.pods import pod


def test_of_one_event_all_get_the_same_pod_until_something_becomes_of_it() -> None:
    shapes, first, second = Shapes(), pod("a", cpu="1"), pod("b", cpu="1")
    info = shapes.info(first)
    assert shapes.info(first) is info
    assert shapes.info(structs.replace(first)) is not info
    info = shapes.info(second)
    info.row = 3
    assert shapes.info(second) is not info
    info = shapes.info(second)
    info.allocations["some plugin"] = "a device"
    assert shapes.info(second).allocations == {}
    info = shapes.info(second)
    info.decided = True
    assert not shapes.info(second).decided


def test_pods_that_share_nothing_do_not_fill_the_tables_of_identities() -> None:
    shapes = Shapes()
    apart = [pod(f"p{i}", cpu="1", labels={"app": "a"}) for i in range(2000)]
    first = shapes.of(apart[0])
    assert all(shapes.of(each) is first for each in apart)
    for table in (shapes._by_parts, shapes._by_containers):
        assert 256 <= len(table) <= 256 + 2000 // 16


def test_pods_that_begin_to_share_their_parts_are_known_by_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = Shapes()
    for i in range(1000):
        shapes.of(pod(f"p{i}", cpu="1", labels={"app": "a"}))
    # In turn, so that no pod has the parts of the latest one.
    kinds = [pod(f"q{i}", cpu="1", labels={"app": f"app-{i}"}) for i in range(100)]

    def turn() -> list[pods.PodShape]:
        return [shapes.of(structs.replace(each)) for each in kinds]

    known = turn()
    for _ in range(9):
        assert turn() == known
    monkeypatch.setattr(pods, "to_json", None)
    assert turn() == known
