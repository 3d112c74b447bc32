# SPDX-License-Identifier: Apache-2.0
"""Pods by node as events come, against pods by node worked out anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.pod import Pod
from koord.controllers.descheduler.informer_snapshot import PodsByNode
from koord.controllers.descheduler.snapshot import ClusterSnapshot
from tests.controllers.descheduler.world import node, pod

NODES, NAMES = ("", "n1", "n2"), ("a", "b", "c")
STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["put", "drop", "look"]),
                           st.sampled_from(NODES)), max_size=30)  # fmt: skip


class FedView:
    """A view that is fed by hand."""

    def __init__(self) -> None:
        self.objects: dict[str, Pod] = {}

    def on_change(self, added: Any, updated: Any, deleted: Any) -> None:
        self.told = SimpleNamespace(added=added, updated=updated, deleted=deleted)

    def put(self, found: Pod) -> None:
        key = found.metadata.name
        before, self.objects[key] = self.objects.get(key), found
        if before is None:
            self.told.added(found)
        else:
            self.told.updated(before, found)

    def drop(self, key: str) -> None:
        gone = self.objects.pop(key, None)
        if gone is not None:
            self.told.deleted(gone, False)


@given(STEPS)
def test_it_is_what_is_worked_out_anew_and_earlier_ones_stay(
    steps: list[tuple[str, str, str]],
) -> None:
    view: Any = FedView()
    by_node, earlier = PodsByNode(view), []
    for name, step, node_name in [*steps, ("", "look", "")]:
        if step == "put":
            view.put(pod(name, node_name))
        elif step == "drop":
            view.drop(name)
        else:
            found = by_node.ordered()
            plain = ClusterSnapshot((node("n1"),), list(view.objects.values()))
            assert found == {name: tuple(plain.all_pods_on(name)) for name in found}
            assert sum(map(len, found.values())) == sum(
                bool(each.spec.node_name) for each in view.objects.values()
            )
            earlier.append((found, dict(found)))
    assert all(found == kept for found, kept in earlier)
