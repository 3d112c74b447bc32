# SPDX-License-Identifier: Apache-2.0
"""Which quota objects there are, and who is found by name, by namespace and below whom.

A group's name is unique in the cluster. Where several objects have one name, the oldest counts,
then the one whose namespace comes first; the others wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from koord.api.protocol.quotas import GROUPS_PARENT
from koord.kernels.quota import ROOT

if TYPE_CHECKING:
    from koord.base.errors import KoordError
    from koord.controllers.cluster.quota_objects import QuotaObject

_LATE = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class AffectedPods:
    """Whose pods may find another quota after a change.

    Attributes:
        groups: pods that use one of these now.
        labels: pods that name one of these.
        namespaces: pods of these that name none.
    """

    groups: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.groups or self.labels or self.namespaces)

    def __or__(self, other: AffectedPods) -> AffectedPods:
        return AffectedPods(
            self.groups | other.groups,
            self.labels | other.labels,
            self.namespaces | other.namespaces,
        )


class QuotaIndex:
    """All quota objects by name, by namespace and by parent; groups are named as in their tree.

    Where several objects have one name, the oldest counts and the others wait.
    """

    def __init__(self) -> None:
        self._objects: defaultdict[str, dict[str, QuotaObject]] = defaultdict(dict)
        self._errors: dict[str, dict[str, KoordError]] = {}
        self._active: dict[str, QuotaObject] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)
        self._listing: defaultdict[str, set[str]] = defaultdict(set)
        self._guides: defaultdict[str, set[str]] = defaultdict(set)
        self._roots: defaultdict[str, set[str]] = defaultdict(set)

    def put(self, item: QuotaObject) -> AffectedPods:
        """Takes over an object that can be read."""
        self._mend(item.group, item.namespace)
        self._objects[item.group][item.namespace] = item
        return self._choose(item.group)

    def spoil(self, group: str, namespace: str, error: KoordError) -> AffectedPods:
        """Notes that an object cannot be read; its last readable state stays."""
        self._errors.setdefault(group, {})[namespace] = error
        return self._choose(group) | _named(group, namespace)

    def remove(self, group: str, namespace: str) -> AffectedPods:
        """Forgets an object."""
        self._mend(group, namespace)
        self._objects[group].pop(namespace, None)
        return self._choose(group) | _named(group, namespace)

    def active(self, group: str) -> QuotaObject | None:
        """The object that counts."""
        return self._active.get(group)

    def reach(self, group: str) -> AffectedPods:
        """Whose pods may use a group."""
        item = self._active.get(group)
        return _reach(item) if item is not None else AffectedPods()

    def has(self, group: str, namespace: str) -> bool:
        """Whether there is a readable object of that name in a namespace."""
        return namespace in self._objects.get(group, ())

    def error(self, group: str, namespace: str) -> KoordError | None:
        """Why an object cannot be read."""
        return self._errors.get(group, {}).get(namespace)

    def error_of(self, group: str) -> KoordError | None:
        """Why a group's object cannot be read; the first namespace's where there are several."""
        errors = self._errors.get(group)
        return errors[min(errors)] if errors else None

    def errors(self) -> dict[str, KoordError]:
        """Group to why an object of it cannot be read."""
        return {group: errors[min(errors)] for group, errors in self._errors.items()}

    def of_namespace(self, namespace: str) -> Iterator[str]:
        """The groups of a namespace's pods that name none, the first one that exists counts.

        The group that is called as its own namespace; one that lists the namespace, by name; one of
        the guide's quotas in the namespace, by name.
        """
        home = self._active.get(namespace)
        unreadable = home is None and self.error(namespace, namespace) is not None
        if unreadable or (home is not None and home.namespace == namespace):
            yield namespace
        yield from sorted(self._listing.get(namespace, ()))
        yield from sorted(self._guides.get(namespace, ()))

    def in_namespace(self, namespace: str) -> list[str]:
        """The groups whose objects are in a namespace, sorted."""
        found = [group for group, item in self._active.items() if item.namespace == namespace]
        return sorted(found)

    def tree_id(self, group: str) -> str:
        """The tree of a group: its own, or that of the nearest group above that has one."""
        seen = set()
        while group not in seen and (item := self._active.get(group)) is not None:
            if item.tree or item.spec.parent in (ROOT, GROUPS_PARENT):
                return item.tree
            seen.add(group)
            group = item.spec.parent
        return ""

    def below(self, group: str) -> list[str]:
        """A group and all that are below it, parents before children."""
        found, seen = [group], {group}
        for name in found:
            new = sorted(self._children.get(name, set()) - seen)
            seen.update(new)
            found += new
        return found

    def tree_roots(self) -> dict[str, QuotaObject]:
        """Tree id to the object that gives its total; of several the first by name."""
        return {tree: self._active[min(names)] for tree, names in self._roots.items() if names}

    def _mend(self, group: str, namespace: str) -> None:
        errors = self._errors.get(group)
        if errors and errors.pop(namespace, None) and not errors:
            del self._errors[group]

    def _choose(self, group: str) -> AffectedPods:
        objects = self._objects[group]
        chosen = min(
            objects.values(), key=lambda o: (o.created or _LATE, o.namespace), default=None
        )
        if not objects:
            del self._objects[group]
        had = self._active.get(group)
        if chosen == had:
            return AffectedPods()
        reach = AffectedPods()
        if had is not None:
            reach |= self._list(had, listed=False)
            del self._active[group]
        if chosen is not None:
            self._active[group] = chosen
            reach |= self._list(chosen, listed=True)
        return reach

    def _list(self, item: QuotaObject, *, listed: bool) -> AffectedPods:
        """Enters an object in the lists by which it is found, or takes it out."""
        lists = [(self._children, item.spec.parent)]
        lists += [(self._listing, namespace) for namespace in item.namespaces]
        if item.priority is not None:
            lists.append((self._guides, item.namespace))
        if item.tree and item.total is not None:
            lists.append((self._roots, item.tree))
        for index, name in lists:
            if listed:
                index[name].add(item.group)
                continue
            index[name].discard(item.group)
            if not index[name]:
                del index[name]
        return _reach(item)


def _reach(item: QuotaObject) -> AffectedPods:
    return _named(item.group, item.namespace) | AffectedPods(namespaces=frozenset(item.namespaces))


def _named(group: str, namespace: str) -> AffectedPods:
    short = group.rpartition("/")[2]
    return AffectedPods(frozenset((group,)), frozenset((group, short)), frozenset((namespace,)))
