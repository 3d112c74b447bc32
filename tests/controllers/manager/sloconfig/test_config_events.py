# SPDX-License-Identifier: Apache-2.0
"""Events on nodes whose own settings are not followed as they are written."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.controllers.manager.sloconfig.config_events import NodeConfigEvents
from koord.controllers.scheduler.cache.local_views import LocalView

STRATEGY = "node.koordinator.sh/colocation-strategy"
RATIO = "node.koordinator.sh/memory-reclaim-ratio"


def node(annotation: str | None = None, ratio: str | None = None, **labels: str) -> Node:
    annotations = {} if annotation is None else {STRATEGY: annotation}
    marks = labels if ratio is None else {RATIO: ratio, **labels}
    return Node(metadata=ObjectMeta(name="n1", uid="u", annotations=annotations, labels=marks))


class Bench:
    """A view of nodes that is fed by hand."""

    def __init__(self) -> None:
        self.view: LocalView[Node] = LocalView()
        self.events: list[tuple[str, str]] = []

    def tell(self, about: Any, kind: str, reason: str, message: str) -> None:
        assert (type(about), about.metadata.name, kind) == (Node, "n1", "Warning")
        self.events.append((reason, message))


def test_what_a_node_says_wrongly_is_told_of_once() -> None:
    bench = Bench()
    bench.view.put(node('{"memoryReclaimThresholdPercent":165,"enabled":true}', ratio="65%"))
    complaints = NodeConfigEvents(bench.view, bench.tell)
    complaints.start()
    complaints.start()
    assert bench.events == [
        (
            "NodeSettingInvalid",
            "labels[node.koordinator.sh/memory-reclaim-ratio]: got '65%', "
            "expected a number from 0 to 1 (as if it were not there)",
        ),
        (
            "NodeSettingSubstituted",
            "annotations[node.koordinator.sh/colocation-strategy].memoryReclaimThresholdPercent: "
            "got 165, expected a number from 0 to 100 (taken as 100)",
        ),
        (
            "NodeSettingUnknown",
            "annotations[node.koordinator.sh/colocation-strategy].enabled has no effect, "
            "did you mean enable?",
        ),
    ]
    bench.events.clear()
    same = node('{"memoryReclaimThresholdPercent":165,"enabled":true}', ratio="65%", other="x")
    bench.view.put(same)
    assert bench.events == [], "a heartbeat is nothing new"
    bench.view.put(node('{"memoryReclaimThresholdPercent":65}', ratio="-1"))
    assert [reason for reason, _ in bench.events] == ["NodeSettingInvalid"]
    bench.view.put(node('{"memoryReclaimThresholdPercent":65}'))
    bench.view.put(node())
    assert len(bench.events) == 1
