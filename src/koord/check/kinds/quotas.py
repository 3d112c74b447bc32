# SPDX-License-Identifier: Apache-2.0
"""Quotas of both kinds: each by itself, and the trees that they make with those of the cluster."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.kinds.quota import ElasticQuota, ElasticQuotaProfile, GroupQuota
from koord.api.kinds.registry import kind_of_type
from koord.api.protocol import absent, keys
from koord.api.protocol import quotas as protocol
from koord.api.protocol.quotas import GROUPS_PARENT, ROOT_QUOTA
from koord.base.errors import KoordError
from koord.check.object_index import DEFAULT_NAMESPACE
from koord.check.problem import Finding, Severity
from koord.check.registry import checker
from koord.controllers.cluster import quota_validation
from koord.controllers.cluster.quota_groups import group_of, key_problems
from koord.controllers.cluster.quota_objects import AmountSums, group_name, quota_object
from koord.controllers.cluster.quota_validation import Surroundings
from koord.controllers.manager.quotaprofile.quota_root import ratio_problem
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import BUILTIN, QuotaTrees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.meta import Object
    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject
    from koord.controllers.cluster.quota_groups import QuotaGroup

_TREE, _GUIDE = kind_of_type(ElasticQuota), kind_of_type(GroupQuota)
_MOST_WRONG = 100
_PARENT = f"labels[{keys.QUOTA_PARENT}]"


class DeclaredQuotas:
    """All quotas of the files, and those of the cluster that no file replaces.

    Attributes:
        trees: as the scheduler has them.
        groups: those of trees that can be read, by name.
        names: of all groups, readable or not.
        children: of each group, those that can be read, by name.
    """

    def __init__(self, world: ObjectIndex) -> None:
        self.trees = QuotaTrees()
        self.groups: dict[str, QuotaGroup] = {}
        self.names: set[str] = set(BUILTIN)
        self._wrong = 0
        here = [each for kind in (_TREE, _GUIDE) for each in world.typed(kind)]
        for each in here:
            _place(each)
        taken = {(type(each), group_name(each), each.metadata.namespace) for each in here}
        there = [
            each
            for kind in (_TREE, _GUIDE)
            for each in (world.cluster.all(kind) if world.cluster is not None else ())
            if (type(each), group_name(each), each.metadata.namespace) not in taken
        ]
        for item in (*there, *here):
            self._add(item)
        self.children: defaultdict[str, list[str]] = defaultdict(list)
        for name, group in sorted(self.groups.items()):
            self.children[group.parent].append(name)

    def problems(self, group: QuotaGroup) -> Iterator[KoordError]:
        """What admission would say of a group; of a sum, the last child by name is told."""
        yield from key_problems(group)
        parent = self.groups.get(group.parent)
        if parent is None or parent is group or group.parent == ROOT_QUOTA:
            return
        # Admission fills in the tree of a child; of both, one may be of files not at hand.
        tree = group.tree or parent.tree
        children = self.children[group.parent]
        others = None
        if children[-1] == group.name:
            sums = AmountSums()
            for name in children[:-1]:
                sums.add(self.groups[name].min)
            others = sums.total()
        around = Surroundings(parent._replace(tree=parent.tree or tree), others, lambda: children)
        yield from quota_validation.problems(group._replace(tree=tree), around)

    def _add(self, item: Object) -> None:
        self.names.add(group_name(item))
        # Each that comes is a chance for those that could not be hung up, which are tried again.
        if self._wrong < _MOST_WRONG:
            self._wrong += self.trees.put(item) is not None
        if isinstance(item, ElasticQuota):
            try:
                quota_object(item)
            except KoordError:
                self.groups.pop(item.metadata.name, None)
            else:
                self.groups[item.metadata.name] = group_of(item)


@checker("ElasticQuota", "scheduling.sigs.k8s.io")
def tree_quota(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """A group, what is above it, and its siblings."""
    item = subject.typed
    if not isinstance(item, ElasticQuota):
        return
    _place(item)
    yield from _reach(item)
    quotas = _quotas(world)
    name, parent = item.metadata.name, protocol.parent(item)
    yield from map(Finding.of, absent.quota(item))
    error = quotas.trees.problem(name, item.metadata.namespace)
    if error is not None:
        # The tree's own words are about groups, not about fields.
        of_tree = error.field.partition(":")[0] in ("", "quota")
        yield Finding(_PARENT, parent, error.expected) if of_tree else Finding.of(error)
    if parent and parent not in quotas.names and name not in BUILTIN:
        yield world.missing(_PARENT, parent, "quota", sorted(quotas.names - {name}))
    group = quotas.groups.get(name)
    if group is None or group.title != item.title:
        return
    for each in quotas.problems(group):
        yield Finding.of(each, Severity.WARNING)


def _reach(item: ElasticQuota) -> Iterator[Finding]:
    """A quota that governs the pods of other namespaces."""
    try:
        others = [each for each in protocol.namespaces(item) if each != item.metadata.namespace]
    except KoordError:
        return  # told of by its reader
    if others:
        expected = (
            f"namespaces whose pods the quotas of {item.metadata.namespace} may govern; with "
            f"--quota-scope=namespace each has to say so by its annotation {keys.QUOTAS_FROM}"
        )
        yield Finding.warning(f"annotations[{keys.QUOTA_NAMESPACES}]", ", ".join(others), expected)


@checker("ElasticQuota", "quota.koordinator.sh")
def guide_quota(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """A quota without a tree, and whether its kind is there at all."""
    if world.cluster is None or not world.cluster.serves(_GUIDE):
        told = world.memo.setdefault("guide", set())
        if subject.file not in told:
            told.add(subject.file)
            expected = (
                "scheduling.sigs.k8s.io/v1alpha1: the other kind is there only after "
                "`koord crds install --guide` or with the chart's crds.guide, and in `koord up`"
            )
            severity = Severity.WARNING if world.cluster is None else Severity.ERROR
            yield Finding("apiVersion", subject.api_version, expected, severity)
    item = subject.typed
    if isinstance(item, GroupQuota):
        _place(item)
        error = _quotas(world).trees.problem(group_name(item), item.metadata.namespace)
        if error is not None:
            yield Finding.of(error)


@checker("ElasticQuotaProfile", "quota.koordinator.sh")
def profile(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """A profile that sizes a tree."""
    del world
    item = subject.typed
    if not isinstance(item, ElasticQuotaProfile):
        return
    error = ratio_problem(item)
    if error is not None:
        yield Finding.of(error)
    if item.spec.node_selector is not None:
        selectors.check(item.spec.node_selector, item.title, "spec.nodeSelector")


def quota_reference(world: ObjectIndex, path: str, name: str, namespace: str) -> Iterator[Finding]:
    """Whether a quota that a pod names exists and takes pods."""
    quotas = _quotas(world)
    if name in (ROOT_QUOTA, GROUPS_PARENT):
        yield Finding(path, name, "a quota that takes pods")
        return
    group = quotas.groups.get(name)
    if group is not None and group.is_parent:
        yield Finding.warning(path, name, "a quota without is-parent: admission refuses its pods")
    if name in quotas.names or f"{namespace}/{name}" in quotas.names:
        return
    if world.cluster is None and len(quotas.names) == len(BUILTIN):
        return
    yield world.missing(path, name, "quota", sorted(quotas.names))


def _quotas(world: ObjectIndex) -> DeclaredQuotas:
    found: DeclaredQuotas | None = world.memo.get("quotas")
    if found is None:
        found = world.memo["quotas"] = DeclaredQuotas(world)
    return found


def _place(item: Object) -> None:
    """Puts a quota in the namespace that kubectl gives it."""
    item.metadata.namespace = item.metadata.namespace or DEFAULT_NAMESPACE
