# SPDX-License-Identifier: Apache-2.0
"""Pods on nodes that are not known, yet or any more: they count once their node comes (back)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo


class Orphans:
    """Pods by uid, each on one node; nodes without any are not kept."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._on_node: dict[str, dict[str, PodInfo]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._node_of

    def put(self, node: str, pod: PodInfo) -> None:
        """Takes in a pod; one that is there already changes its node."""
        self.drop(pod.uid)
        self._node_of[pod.uid] = node
        self._on_node.setdefault(node, {})[pod.uid] = pod

    def get(self, uid: str) -> PodInfo | None:
        """A pod that waits for its node."""
        node = self._node_of.get(uid)
        return None if node is None else self._on_node[node][uid]

    def node_of(self, uid: str) -> str:
        """The name of the node that a pod waits for, ``""`` if it waits for none."""
        return self._node_of.get(uid, "")

    def drop(self, uid: str) -> None:
        """Forgets a pod; nothing happens if it is not there."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        left = self._on_node[node]
        del left[uid]
        if not left:
            del self._on_node[node]

    def take(self, node: str) -> list[PodInfo]:
        """The pods of a node, which has come: they wait no longer."""
        left = self._on_node.pop(node, {})
        for uid in left:
            del self._node_of[uid]
        return list(left.values())

    def uids(self) -> dict[str, list[str]]:
        """By node, the sorted uids of the pods that wait for it."""
        return {node: sorted(left) for node, left in self._on_node.items()}
