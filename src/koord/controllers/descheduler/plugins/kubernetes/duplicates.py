# SPDX-License-Identifier: Apache-2.0
"""RemoveDuplicates: pods of one owner that share a node while others of its nodes have fewer.

Rule: docs/reference/descheduling-plugins.md#removeduplicates.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koord.api.tolerations import KEEPS_OUT, untolerated
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import Namespaces, pod_filter
from koord.controllers.descheduler.predicates.node_selection import required_affinity, selects
from koord.controllers.scheduler.config.plugin_args import PluginArgs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.config.field_path import FieldPath


_MOST_KEPT = 256
"""Sets of constraints whose nodes are remembered: some bytes a node each."""


class RemoveDuplicatesArgs(PluginArgs, frozen=True):
    """Which pods are looked at; there is no selector of labels."""

    namespaces: Namespaces | None = None
    exclude_owner_kinds: list[str] = []

    def check(self, at: FieldPath) -> None:
        """At most one list of namespaces."""
        if self.namespaces is not None:
            self.namespaces.check(at.inside("namespaces"))


class OwnerKey(NamedTuple):
    """Pods that are one another's duplicates: of one owner, with the same images."""

    namespace: str
    kind: str
    name: str
    images: str


class RemoveDuplicates(DeschedulerPlugin):
    """The strategy; owner by owner in the order in which duplicates were met."""

    name = "RemoveDuplicates"
    args_type = RemoveDuplicatesArgs
    args: RemoveDuplicatesArgs

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evicts what a node has above the average of the nodes that an owner's pods may use."""
        evictor = self.handle.evictor
        duplicates, occurrences = await self._duplicates(nodes)
        usable = _UsableNodes(nodes)
        for key, by_node in duplicates.items():
            targets = usable.of([pod for pods in by_node.values() for pod in pods])
            if len(targets) < 2:
                continue
            most = math.ceil(occurrences[key] / len(targets))
            for pods in by_node.values():
                # One pod of each node is no duplicate.
                for pod in pods[most - 1 :] if len(pods) + 1 > most else ():
                    await evictor.evict(pod)

    async def _duplicates(
        self, nodes: Sequence[Node]
    ) -> tuple[dict[OwnerKey, dict[str, list[Pod]]], Counter[OwnerKey]]:
        """By owner and node the pods that are like one before them, and how many there are."""
        selected = pod_filter(self.args.namespaces, None, self.handle.evictor.accepts)
        duplicates: dict[OwnerKey, dict[str, list[Pod]]] = {}
        occurrences: Counter[OwnerKey] = Counter()
        alike = _Identities(frozenset(self.args.exclude_owner_kinds))
        for node in nodes:
            await self.handle.give_way()
            identities: set[tuple[str, ...]] = set()
            for pod in self.handle.snapshot.pods_on(node.metadata.name):
                if not selected(pod):
                    continue
                owner_keys, identity = alike.of(pod)
                for key in owner_keys:
                    occurrences[key] += 1
                if identity in identities:
                    for key in owner_keys:
                        by_node = duplicates.setdefault(key, {})
                        by_node.setdefault(node.metadata.name, []).append(pod)
                if owner_keys:
                    identities.add(identity)
        return duplicates, occurrences


class _Identities:
    """What pods are told apart by, worked out once for pods that share owners and containers.

    Args:
        excluded: kinds of owners whose pods are no duplicates.
    """

    def __init__(self, excluded: frozenset[str]) -> None:
        self._excluded = excluded
        # By the identity of parts, which the pods of a round hold.
        self._by_parts: dict[tuple[str, int, int], tuple[list[OwnerKey], tuple[str, ...]]] = {}

    def of(self, pod: Pod) -> tuple[list[OwnerKey], tuple[str, ...]]:
        """Keys by owner, none of a pod that is not looked at; and what its duplicates share."""
        meta, containers = pod.metadata, pod.spec.containers
        parts = meta.namespace, id(meta.owner_references), id(containers)
        found = self._by_parts.get(parts)
        if found is None:
            found = self._by_parts[parts] = self._made(pod)
        return found

    def _made(self, pod: Pod) -> tuple[list[OwnerKey], tuple[str, ...]]:
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if not kinds or not kinds.isdisjoint(self._excluded):
            return [], ()
        images = sorted(container.image for container in pod.spec.containers)
        keys = _owner_keys(pod, images)
        # A single owner's key says all that an identity does.
        return keys, keys[0] if len(keys) == 1 else _identity(pod, images)


def _owner_keys(pod: Pod, images: Sequence[str]) -> list[OwnerKey]:
    joined = "#".join(images)
    return [
        OwnerKey(pod.metadata.namespace, owner.kind, owner.name, joined)
        for owner in pod.metadata.owner_references
    ]


def _identity(pod: Pod, images: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        sorted(
            f"{pod.metadata.namespace}/{owner.kind}/{owner.name}/{image}"
            for owner in pod.metadata.owner_references
            for image in images
        )
    )


class _UsableNodes:
    """Nodes that pods may use, worked out once for pods of the same constraints.

    Args:
        nodes: of the profile.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._by_constraints: dict[tuple[object, ...], frozenset[str]] = {}

    def of(self, pods: Iterable[Pod]) -> set[str]:
        """By name; what fits a single node counts for nothing."""
        targets: set[str] = set()
        alike: set[tuple[object, ...]] = set()
        for pod in pods:
            key = (
                frozenset(map(msgspec.json.encode, pod.spec.tolerations)),
                msgspec.json.encode(required_affinity(pod), order="deterministic"),
                tuple(sorted(pod.spec.node_selector.items())),
            )
            if key not in alike:
                alike.add(key)
                targets |= self._usable(key, pod)
        return targets

    def _usable(self, key: tuple[object, ...], pod: Pod) -> frozenset[str]:
        found = self._by_constraints.get(key)
        if found is None:
            usable = frozenset(
                node.metadata.name
                for node in self._nodes
                if selects(pod, node)
                and untolerated(node.spec.taints, pod.spec.tolerations, KEEPS_OUT) is None
            )
            if len(self._by_constraints) >= _MOST_KEPT:
                self._by_constraints.clear()
            found = usable if len(usable) > 1 else frozenset()
            self._by_constraints[key] = found
        return found
