# SPDX-License-Identifier: Apache-2.0
"""What-if over quota manifests: given totals and requests, who may use how much?

Manifests of both API groups are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from koord.api import load_manifests
from koord.api.protocol import keys
from koord.api.protocol.quotas import GROUPS_PARENT
from koord.base.errors import Code, KoordError
from koord.controllers.cluster.quota_objects import GuideSums, QuotaObject, quota_object
from koord.kernels.quota import DEFAULT, ROOT, SYSTEM, Forest

_BUILTIN = (ROOT, SYSTEM, DEFAULT)


@dataclass(frozen=True)
class GroupRow:
    """One group of the answer; ``source`` is None for the root and the guide's parent.

    Amounts are integers, milli-units for cpu. ``runtime`` covers the resources of ``max``, for the
    root those of the tree's total.
    """

    source: QuotaObject | None
    tree: str
    name: str
    parent: str | None
    min: Mapping[str, int]
    max: Mapping[str, int]
    request: Mapping[str, int]
    runtime: Mapping[str, int]


class QuotaPlan:
    """Quotas of manifests in a forest, ready for requests.

    Args:
        objects: what the manifests hold, in any order.
        total: the cluster's allocatable.

    Raises:
        KoordError: a name is taken twice, a parent is unknown, in another tree, or below its child.
    """

    def __init__(self, objects: Iterable[QuotaObject], total: Mapping[str, int]) -> None:
        self._objects = _with_trees(_by_group(objects))
        with _named("total"):
            self._forest = Forest(total)
        for item in self._objects.values():
            if item.total is not None:
                with _named(item.label):
                    self._forest.set_tree_total(item.tree, item.total, deducted=item.deducted)
        self._add_guide_parent()
        for item in self._objects.values():
            with _named(item.label):
                self._add(item)

    @property
    def forest(self) -> Forest:
        """The trees, for whoever wants to ask more."""
        return self._forest

    def add_request(self, label: str, name: str, amounts: Mapping[str, int]) -> list[str]:
        """Adds a request; returns the resources that do not count, as the group's max lacks them.

        Args:
            label: what an error calls the request.
            name: the group's name in its tree, its object's name, or NAMESPACE/NAME.
            amounts: milli-units of cpu, whole units of the rest.
        """
        item = self._find(label, name)
        parents = {other.spec.parent for other in self._objects.values()}
        if item.spec.is_parent or item.group in parents or item.group == ROOT:
            raise KoordError(label, "name", name, "a group without children")
        with _named(label):
            self._forest.tree(item.tree).add_request(item.group, amounts)
        return sorted(resource for resource in amounts if resource not in item.spec.max)

    def rows(self) -> Iterator[GroupRow]:
        """Every group, tree by tree, parents first, siblings in name order."""
        for tree_id in self._forest:
            tree = self._forest.tree(tree_id)
            for name in tree:
                item = self._objects.get(name)
                if item is None and name in (SYSTEM, DEFAULT):
                    continue
                spec = tree.spec(name)
                runtime = tree.runtime(name)
                if name != ROOT:
                    runtime = {key: runtime[key] for key in spec.max if key in runtime}
                yield GroupRow(item, tree_id, name, spec.parent or None, spec.min, spec.max,
                               tree.request(name), runtime)  # fmt: skip

    def _add(self, item: QuotaObject) -> None:
        tree = self._forest.tree(item.tree)
        if item.group not in tree:
            tree.add(item.group, item.spec)
        elif item.group != ROOT:
            # Objects of the built-in groups, as a cluster has them, only set limits.
            tree.update(item.group, max=item.spec.max)

    def _add_guide_parent(self) -> None:
        """The parent of the guide's quotas owns what they own and may take everything."""
        sums = GuideSums()
        for item in self._objects.values():
            if item.spec.parent == GROUPS_PARENT:
                sums.add(item.spec)
        if sums.count:
            tree = self._forest.tree()
            with _named(GROUPS_PARENT):
                tree.add(GROUPS_PARENT, sums.parent(tree.total))

    def _find(self, label: str, name: str) -> QuotaObject:
        found = [
            item
            for item in self._objects.values()
            if name in (item.group, item.name, f"{item.namespace}/{item.name}")
        ]
        if len(found) == 1:
            return found[0]
        if name in self._objects:
            return self._objects[name]
        if found:
            choices = ", ".join(sorted(item.group for item in found))
            raise KoordError(label, "name", name, f"one of {choices}")
        if name in (GROUPS_PARENT, ROOT):
            raise KoordError(label, "name", name, "a group without children")
        raise KoordError(label, "name", name, "a group of the manifests", Code.NOT_FOUND)


def read_manifests(source: str, text: str) -> list[QuotaObject]:
    """All quotas of a text of YAML documents or one JSON document; lists are unfolded.

    Raises:
        KoordError: the text or an object in it is wrong; the line names source, object and field.
    """
    quotas = []
    for item in load_manifests(text, source):
        item.metadata.namespace = item.metadata.namespace or "default"
        try:
            quotas.append(quota_object(item, f"{source}: {item.title}"))
        except KoordError as error:
            raise error.within(source) from None
    return quotas


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Names the object for what the kernel finds wrong, such as too many resources."""
    try:
        yield
    except ValueError as error:
        raise KoordError.wrap(label, "", error) from None


def _by_group(objects: Iterable[QuotaObject]) -> dict[str, QuotaObject]:
    by_group: dict[str, QuotaObject] = {}
    for item in objects:
        first = by_group.setdefault(item.group, item)
        if first is not item:
            raise KoordError(item.label, "metadata.name", item.name,
                             f"a name that is not taken (by {first.label})")  # fmt: skip
        if item.group == GROUPS_PARENT:
            raise KoordError(item.label, "metadata.name", item.name, "a name that is not reserved")
    return by_group


def _with_trees(objects: dict[str, QuotaObject]) -> dict[str, QuotaObject]:
    """Checks the way up of every group, and gives those without a tree id their parent's."""
    return {name: replace(item, tree=_tree_of(item, objects)) for name, item in objects.items()}


def _tree_of(item: QuotaObject, objects: dict[str, QuotaObject]) -> str:
    field = f"labels[{keys.QUOTA_PARENT}]"
    tree, above, seen = item.tree, item, {item.group}
    while item.group not in _BUILTIN and above.spec.parent not in (ROOT, GROUPS_PARENT):
        parent = above.spec.parent
        if parent in seen:
            raise KoordError(item.label, field, item.spec.parent, "a group that is not below it")
        if parent not in objects or parent in _BUILTIN:
            raise KoordError(above.label, field, parent, "a group of the manifests")
        above = objects[parent]
        seen.add(parent)
        if tree and above.tree not in ("", tree):
            raise KoordError(item.label, field, item.spec.parent, f"a group of tree {tree}")
        tree = tree or above.tree
    return tree
