# SPDX-License-Identifier: Apache-2.0
"""Pods that preemption has made room for: which node each was promised.

What stands here may be ahead of the pod's ``status.nominatedNodeName``, which is written later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Nominator:
    """Nominations by pod and by node.

    Args:
        changed: called with the name of a node whose nominations changed.
    """

    def __init__(self, changed: Callable[[str], None] | None = None) -> None:
        self._node_of: dict[str, str] = {}
        self._on_node: dict[str, dict[str, Any]] = {}
        self._changed = changed

    def __len__(self) -> int:
        return len(self._node_of)

    def nominate(self, info: Any, node: str) -> None:
        """Promises a node to a pod, instead of the one before; ``""`` promises nothing."""
        if not node or self._node_of.get(info.uid) != node:
            self.forget(info.uid)
        if not node:
            return
        self._node_of[info.uid] = node
        self._on_node.setdefault(node, {})[info.uid] = info
        self._report_change(node)

    def update(self, info: Any, old_status: str, new_status: str) -> None:
        """Follows an update of a pod.

        Args:
            info: the pod now.
            old_status: its ``status.nominatedNodeName`` before.
            new_status: the same now. Where both are empty the update knows nothing of a promise
                that is on its way to the API, which is kept.
        """
        kept = self._node_of.get(info.uid, "") if not old_status and not new_status else ""
        self.nominate(info, kept or new_status)

    def forget(self, uid: str) -> None:
        """Takes a pod's promise back, if it has one."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        pods = self._on_node[node]
        del pods[uid]
        if not pods:
            del self._on_node[node]
        self._report_change(node)

    def node_of(self, uid: str) -> str:
        """The node promised to a pod, ``""`` if none is."""
        return self._node_of.get(uid, "")

    def on_node(self, node: str, at_least: int | None = None) -> list[Any]:
        """The pods that a node is promised to, highest priority first, then first promised first.

        Args:
            node: its name.
            at_least: the lowest priority to look at; None for all.
        """
        pods = self._on_node.get(node)
        if not pods:
            return []
        chosen = [p for p in pods.values() if at_least is None or p.priority >= at_least]
        return sorted(chosen, key=lambda info: -info.priority)

    def by_node(self) -> Mapping[str, Mapping[str, Any]]:
        """By node, the pods it is promised to, by uid; not to be changed."""
        return self._on_node

    def nodes(self) -> list[str]:
        """The nodes that are promised to somebody, sorted."""
        return sorted(self._on_node)

    def forget_lower(self, node: str, priority: int) -> list[Any]:
        """Takes back the promises of a node to pods below a priority; gives those pods."""
        lower = [info for info in self.on_node(node) if info.priority < priority]
        for info in lower:
            self.forget(info.uid)
        return lower

    def _report_change(self, node: str) -> None:
        if self._changed is not None:
            self._changed(node)
