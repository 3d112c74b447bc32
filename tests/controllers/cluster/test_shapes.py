# SPDX-License-Identifier: Apache-2.0
"""Who gets the same of a pod."""

from __future__ import annotations

from msgspec import structs

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
