# SPDX-License-Identifier: Apache-2.0
"""The quotas of a cluster as admission knows them: by name, by parent, by namespace.

Rule: docs/reference/admission.md#elasticquota. Fed by what is watched, without checks; what one
group costs does not grow with the number of its siblings.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys, quotas
from koord.controllers.cluster.quota_groups import QuotaGroup, group_of
from koord.controllers.cluster.quota_objects import AmountSums

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from koord.api.kinds.quota import ElasticQuota
    from koord.controllers.cluster.quota_groups import Amounts


def reaches_all(quotas_of: str, namespace: str) -> bool:
    """The reach of quotas with ``--quota-scope=cluster``."""
    del quotas_of, namespace
    return True


class QuotaTopology:
    """All groups.

    Args:
        reaches: whether quotas of one namespace are for another.

    Attributes:
        groups: by name. Of several objects of one name the oldest counts.
    """

    def __init__(self, reaches: Callable[[str, str], bool] = reaches_all) -> None:
        self.groups: dict[str, QuotaGroup] = {}
        self.reaches = reaches
        self._objects: defaultdict[str, dict[str, ElasticQuota]] = defaultdict(dict)
        self._children: defaultdict[str, dict[str, QuotaGroup]] = defaultdict(dict)
        self._min: defaultdict[str, AmountSums] = defaultdict(AmountSums)
        self._guaranteed: defaultdict[str, AmountSums] = defaultdict(AmountSums)
        self._bound: defaultdict[str, set[str]] = defaultdict(set)
        self._lists: dict[str, list[str]] = {}

    def put(self, item: ElasticQuota) -> None:
        """Takes an object in, or what has become of it."""
        self._objects[item.metadata.name][item.metadata.namespace] = item
        self._settle(item.metadata.name)

    def remove(self, item: ElasticQuota) -> None:
        """Takes an object out; nothing happens if it is not there."""
        name = item.metadata.name
        self._objects[name].pop(item.metadata.namespace, None)
        self._settle(name)

    def reach_changed(self, namespace: str) -> None:
        """Looks anew at the quotas that list a namespace which lets others in than before."""
        listing = [
            name
            for name in self.groups
            if (item := self.item(name)) is not None and namespace in quotas.namespaces(item)
        ]
        for name in listing:
            self._settle(name)

    def item(self, name: str) -> ElasticQuota | None:
        """The object of a group."""
        there = self._objects.get(name)
        return min(there.values(), key=_age) if there else None

    def items(self, name: str) -> Collection[ElasticQuota]:
        """All objects of a name."""
        return self._objects.get(name, {}).values()

    def in_namespace(self, namespace: str, name: str) -> ElasticQuota | None:
        """The object of a namespace and name."""
        return self._objects.get(name, {}).get(namespace)

    def children(self, name: str) -> Mapping[str, QuotaGroup]:
        """The groups below one, by name."""
        return self._children.get(name, {})

    def children_min(self, name: str, without: str = "") -> dict[str, int]:
        """What the minimums of a group's children add up to, but for one."""
        return self._sum(self._min, name, without, "min")

    def children_guaranteed(self, name: str, without: str = "") -> dict[str, int]:
        """What is guaranteed to a group's children together, but for one."""
        return self._sum(self._guaranteed, name, without, "guaranteed")

    def bound_to(self, namespace: str) -> str | None:
        """The quota that lists a namespace; the first by name of several."""
        return min(self._bound.get(namespace, ()), default=None)

    def of_pod(self, labels: Mapping[str, str], namespace: str, *, label_only: bool = False) -> str:
        """The name of the quota that a pod is charged to, known or not; empty for none.

        Rule: docs/reference/admission.md#quota-membership.

        Args:
            labels: of the pod.
            namespace: of the pod.
            label_only: whether the label is all that counts (gate ``DisableDefaultQuota``).
        """
        named = labels.get(keys.QUOTA_NAME, "")
        if named and not label_only:
            owner = self.item(named)
            if owner is not None and not self.reaches(owner.metadata.namespace, namespace):
                named = ""
        if named or label_only:
            return named
        if self.in_namespace(namespace, namespace) is not None:
            return namespace
        return self.bound_to(namespace) or quotas.DEFAULT_QUOTA

    def is_below(self, name: str, other: str) -> bool:
        """Whether a group is another one or somewhere below it."""
        seen: set[str] = set()
        while name and name not in seen:
            if name == other:
                return True
            seen.add(name)
            group = self.groups.get(name)
            name = group.parent if group is not None else ""
        return False

    def document(self) -> dict[str, Any]:
        """The tree as the original's ``/elasticQuota`` tells it."""
        known = sorted(self.groups)
        names = {*known, *(name for name, below in self._children.items() if below)}
        return {
            "quotaInfoMap": {name: self._summary(name) for name in known},
            "quotaHierarchyInfo": {
                name: sorted(self.children(name)) for name in sorted({*names, quotas.ROOT_QUOTA})
            },
        }

    def _summary(self, name: str) -> dict[str, Any]:
        group, item = self.groups[name], self.item(name)
        assert item is not None
        return {
            "name": name,
            "parentName": group.parent,
            "isParent": group.is_parent,
            "allowLentResource": quotas.allows_lending(item),
            "max": {key: str(value) for key, value in item.spec.max.items()},
            "min": {key: str(value) for key, value in item.spec.min.items()},
        }

    def _sum(
        self, sums: Mapping[str, AmountSums], name: str, without: str, part: str
    ) -> dict[str, int]:
        if name not in sums:
            return {}
        total = sums[name].total()
        left_out = self.children(name).get(without)
        if left_out is not None:
            for resource, amount in getattr(left_out, part).items():
                total[resource] -= max(0, amount)
        return total

    def _settle(self, name: str) -> None:
        """Makes one name's group that of its oldest object."""
        self._forget(name)
        item = self.item(name)
        if item is None:
            self._objects.pop(name, None)
            return
        group = self.groups[name] = group_of(item)
        self._children[group.parent][name] = group
        self._min[group.parent].add(_taken(group.min))
        self._guaranteed[group.parent].add(_taken(group.guaranteed))
        for namespace in quotas.namespaces(item):
            if self.reaches(item.metadata.namespace, namespace):
                self._bound[namespace].add(name)
                self._lists.setdefault(name, []).append(namespace)

    def _forget(self, name: str) -> None:
        group = self.groups.pop(name, None)
        if group is None:
            return
        for namespace in self._lists.pop(name, ()):
            self._bound[namespace].discard(name)
            if not self._bound[namespace]:
                del self._bound[namespace]
        del self._children[group.parent][name]
        self._min[group.parent].add(_taken(group.min), -1)
        self._guaranteed[group.parent].add(_taken(group.guaranteed), -1)
        if not self._children[group.parent]:
            del self._children[group.parent], self._min[group.parent]
            del self._guaranteed[group.parent]


def _taken(amounts: Amounts) -> dict[str, int]:
    """What a child takes: less than nothing makes no room for others."""
    return {name: max(0, amount) for name, amount in amounts.items()}


def _age(item: ElasticQuota) -> tuple[bool, datetime | None, str]:
    made = item.metadata.creation_timestamp
    return (made is None, made, item.metadata.namespace)
