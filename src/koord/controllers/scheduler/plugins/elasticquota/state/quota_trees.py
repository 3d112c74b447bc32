# SPDX-License-Identifier: Apache-2.0
"""The quota trees of a cluster, kept equal to its ElasticQuota objects and its total.

Everything follows from the objects that exist now: the order in which they came does not matter,
so a restart finds the same trees. An object that cannot be read, or that would hang a group below
itself, is a *problem*: the last good state of its group stays in force, and where there is none,
pods that name the group are refused with the line that says what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import keys
from koord.api.protocol.quotas import GROUPS_PARENT
from koord.base.errors import KoordError
from koord.controllers.cluster.quota_objects import (
    MOST,
    GuideSums,
    QuotaObject,
    group_name,
    quota_object,
)
from koord.controllers.scheduler.plugins.elasticquota.state.quota_index import (
    AffectedPods,
    QuotaIndex,
)
from koord.kernels.quota import DEFAULT, ROOT, SYSTEM, Forest, GroupSpec, Options, QuotaTree

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object

BUILTIN = (ROOT, SYSTEM, DEFAULT)
_NOT_FOR_PODS = (ROOT, GROUPS_PARENT)
# A fifth of 64 bits each, in whole CPUs and bytes; of CPU more than the integers here can say.
_EVERYTHING = {"cpu": MOST, "memory": MOST // 5}


@dataclass(frozen=True)
class QuotaTreeOptions:
    """What an operator chooses about the trees.

    Attributes:
        options: of the kernel's trees.
        default_max: limit of the default group (``defaultQuotaGroupMax``).
        system_max: limit of the system group (``systemQuotaGroupMax``).
        scale_min: minimums shrink where the total does not cover them (``enableMinQuotaScale``).
        several_trees: tree ids count (gate ``MultiQuotaTree``).
        default_group: pods that no quota claims use the default group; off, nobody counts them
            (gate ``DisableDefaultQuota``).
        reaches: whether quotas of one namespace reach another; None where all reach all.
    """

    options: Options = field(default_factory=Options)
    default_max: Mapping[str, int] = field(default_factory=lambda: dict(_EVERYTHING))
    system_max: Mapping[str, int] = field(default_factory=lambda: dict(_EVERYTHING))
    scale_min: bool = True
    several_trees: bool = False
    default_group: bool = True
    reaches: Callable[[str, str], bool] | None = None


SpecListener = Callable[[str, GroupSpec | None, GroupSpec | None], None]


class GroupKey(NamedTuple):
    """A quota group, by its tree and its name there."""

    tree_id: str
    group: str


@dataclass(frozen=True)
class ResolvedQuota:
    """Whose quota a pod uses: a place, nobody's (both None), or a quota with a problem."""

    place: GroupKey | None = None
    problem: KoordError | None = None


class QuotaTrees:
    """The quota trees of a cluster, kept equal to its ElasticQuota objects and its total.

    Attributes:
        version: counts changes of anything that an answer of the trees depends on.
        revision: counts changes of whose quota pods may use: of quota objects, of pods' labels.
        on_moved: told, before a group goes and after one came, whose pods may now use another.
        counted: the resources that some limit in force names; another set after any change.
        on_counted: told of resources that count from now on, or no longer.
        on_spec: told of a group's old and new spec, None where there was or is none.
    """

    def __init__(self, settings: QuotaTreeOptions | None = None) -> None:
        self.settings = settings or QuotaTreeOptions()
        self.version = 0
        self.revision = 0
        self.on_moved: Callable[[AffectedPods], None] = lambda reach: None
        self.on_counted: Callable[[set[str]], None] = lambda names: None
        self.on_spec: SpecListener = lambda group, old, new: None
        self._forest = Forest(options=self.settings.options)
        self._trees: dict[str, QuotaTree] = {"": self._forest.tree("")}
        self._total: Mapping[str, int] = {}
        self.counted: set[str] = set()
        self._limits: Counter[str] = Counter()
        self._index = QuotaIndex()
        self._placed: dict[str, tuple[str, GroupSpec]] = {}
        self._refused: dict[str, KoordError] = {}
        self._guides = GuideSums()
        self._members: Counter[str] = Counter()
        self._tree_totals: dict[str, tuple[dict[str, int], bool]] = {}
        for name, limit in self._builtin_limits().items():
            self._trees[""].update(name, max=limit)
            self._count(limit)

    def put(self, item: Object) -> KoordError | None:
        """Takes over a quota object of either kind, and says what is wrong with it, if anything."""
        group, namespace = group_name(item), item.metadata.namespace
        try:
            read = quota_object(item)
            if read.group == GROUPS_PARENT:
                raise KoordError(read.label, "metadata.name", read.name, "a name not reserved")
        except KoordError as error:
            reach = self._index.spoil(group, namespace, error.copy())
        else:
            reach = self._index.put(read)
        if reach or group in self._refused:
            self._apply(group)
            self.on_moved(reach)
        return self.problem(group, namespace)

    def remove(self, item: Object) -> None:
        """Forgets a quota object."""
        group, namespace = group_name(item), item.metadata.namespace
        reach = self._index.remove(group, namespace)
        self._apply(group)
        self.on_moved(reach)

    def set_total(self, total: Mapping[str, int]) -> None:
        """Replaces what the cluster has."""
        self._total = total
        self._push_total()

    def problem(self, group: str, namespace: str) -> KoordError | None:
        """What is wrong with an object, None if nothing is."""
        error = self._index.error(group, namespace)
        if error is not None:
            return error
        active = self._index.active(group)
        if active is None or active.namespace != namespace:
            return None if active is None else self._taken(group, namespace, active)
        return self._refused.get(group)

    def detached(self, group: str, namespace: str) -> KoordError | None:
        """What is wrong with an object whose group is in force below nothing; None if that is not.

        Its pods are refused until the parent comes.
        """
        active, placed = self._index.active(group), self._placed.get(group)
        if active is None or active.namespace != namespace or placed is None:
            return None
        tree_id, spec = placed
        if not spec.parent or spec.parent in self._trees[tree_id]:
            return None
        known = spec.parent in self._refused or self._index.error_of(spec.parent) is not None
        expected = "a quota that is in force" if known else "a quota that exists"
        expected += f" in the tree {tree_id}" if tree_id else ""
        return KoordError(active.label, f"labels[{keys.QUOTA_PARENT}]", spec.parent, expected)

    def problems(self) -> dict[str, KoordError]:
        """Group name to what is wrong with it, by name."""
        found = {**self._index.errors(), **self._refused}
        return {group: found[group] for group in sorted(found)}

    def claimed(self, label: str, namespace: str) -> ResolvedQuota:
        """Whose quota pods of a namespace use that name a quota, or none (``""``)."""
        for group in self._candidates(label, namespace):
            if group in _NOT_FOR_PODS or not self._reaches(group, namespace):
                continue
            place = self.place(group)
            if place is not None:
                return ResolvedQuota(place)
            error = self._refused.get(group) or self._index.error_of(group)
            if error is not None:
                return ResolvedQuota(problem=error)
        return (
            ResolvedQuota(GroupKey("", DEFAULT)) if self.settings.default_group else ResolvedQuota()
        )

    def place(self, group: str) -> GroupKey | None:
        """Where a group is, None if there is none of that name."""
        if group in BUILTIN:
            return GroupKey("", group)
        placed = self._placed.get(group)
        return GroupKey(placed[0], group) if placed else None

    def names(self) -> list[str]:
        """The groups that objects stand for, sorted."""
        return sorted(self._placed)

    def tree(self, tree_id: str) -> QuotaTree:
        """The kernel's tree of an id that some group has."""
        return self._trees[tree_id]

    def trees(self) -> dict[str, QuotaTree]:
        """All trees by id, the default one first."""
        return {tree_id: self._trees[tree_id] for tree_id in sorted(self._trees)}

    def source(self, group: str) -> QuotaObject | None:
        """The object that a group follows, None for what koord made itself."""
        return self._index.active(group)

    def spec(self, place: GroupKey) -> GroupSpec:
        """What is in force for a group."""
        return self._trees[place.tree_id].spec(place.group)

    def ancestors(self, place: GroupKey) -> list[str]:
        """The group and what is above it, the tree's root last; cut where a parent is missing."""
        path, tree = [place.group], self._trees[place.tree_id]
        while path[-1] in tree and tree.spec(path[-1]).parent:
            path.append(tree.spec(path[-1]).parent)
        return path

    def reach_changed(self, namespace: str) -> None:
        """Quotas of others may reach a namespace now, or no longer."""
        for group in self._index.in_namespace(namespace):
            self._apply(group)
            self.on_moved(self._index.reach(group))

    def _reaches(self, group: str, namespace: str) -> bool:
        """Whether a group is for a namespace; docs/reference/quota-scheduling.md#reach."""
        if self.settings.reaches is None:
            return True
        active = self._index.active(group)
        if active is None:
            # What koord made itself is for pods without a quota: nobody names it.
            return group not in BUILTIN
        return self.settings.reaches(active.namespace, namespace)

    def _candidates(self, label: str, namespace: str) -> Iterable[str]:
        if label and self.settings.reaches is not None:
            # A name that does not reach the pod is as none.
            own = self._index.of_namespace(namespace) if self.settings.default_group else ()
            return (label, f"{namespace}/{label}", *own)
        if label:
            return (label, f"{namespace}/{label}")
        return self._index.of_namespace(namespace) if self.settings.default_group else ()

    def _taken(self, group: str, namespace: str, active: QuotaObject) -> KoordError | None:
        if not self._index.has(group, namespace):
            return None
        name = f"a name that is not taken (by {active.label})"
        return KoordError(f"ElasticQuota {namespace}/{group}", "metadata.name", group, name)

    def _apply(self, group: str) -> None:
        """Brings a group, and what hangs on it by name, in line with the objects."""
        self.version += 1
        self.revision += 1
        if group in BUILTIN:
            self._apply_builtin(group)
        else:
            # Groups without a tree id of their own go where their parent goes.
            options = self.settings
            spreads = options.several_trees or options.reaches is not None
            applied = self._apply_all(self._index.below(group) if spreads else (group,))
            # A group that could not be hung up may have got its way free.
            while applied and self._refused:
                self._settle_totals()  # they name no resource any more that nobody limits
                waiting = sorted(self._refused)
                applied = self._apply_all(waiting)
                for each in waiting:
                    self.on_moved(self._index.reach(each))
        self._settle_totals()

    def _apply_all(self, groups: Iterable[str]) -> bool:
        applied = [self._apply_one(group) for group in groups]
        return any(applied)

    def _apply_one(self, group: str) -> bool:
        wanted, had = self._wanted(group), self._placed.get(group)
        far = self._far_parent(group, wanted[1].parent) if wanted is not None else None
        if far is not None:
            self._refused[group] = far
            if had is not None:
                self._take_down(group)
            return had is not None
        if wanted is None or wanted == had:
            self._refused.pop(group, None)
            if wanted is None and had is not None:
                self._take_down(group)
            return wanted != had
        try:
            self._hang(group, wanted, had)
        except ValueError as error:
            active = self._index.active(group)
            assert active is not None, "only objects are hung up"
            self._refused[group] = _by_label(active.label, wanted[1].parent, error)
            return False
        self._refused.pop(group, None)
        return True

    def _far_parent(self, group: str, parent: str) -> KoordError | None:
        """Why a group may not be below its parent: that is another namespace's."""
        active = self._index.active(group)
        above = self._index.active(parent)
        if active is None or above is None or self._reaches(parent, active.namespace):
            return None
        expected = f"a quota of namespace {active.namespace}, or of one that is open to it"
        return KoordError(active.label, f"labels[{keys.QUOTA_PARENT}]", parent, expected)

    def _wanted(self, group: str) -> tuple[str, GroupSpec] | None:
        active = self._index.active(group)
        if active is None:
            return None
        spec = replace(active.spec, scale_min=self.settings.scale_min)
        return self._index.tree_id(group) if self.settings.several_trees else "", spec

    def _hang(
        self, group: str, wanted: tuple[str, GroupSpec], had: tuple[str, GroupSpec] | None
    ) -> None:
        tree_id, spec = wanted
        if tree_id not in self._trees:
            self._trees[tree_id] = self._forest.tree(tree_id)
            self._members[tree_id] += 0
        if had is not None and had[0] == tree_id:
            self._trees[tree_id].update(group, **vars(spec))
        else:
            self._trees[tree_id].add(group, spec)
        self._placed[group] = wanted
        self._register(wanted, 1)
        self._count(spec.max)
        if had is not None:
            self._register(had, -1)
            if had[0] != tree_id:
                self._leave(group, had[0])
            self._uncount(had[1].max)
        self.on_spec(group, had[1] if had is not None else None, spec)

    def _take_down(self, group: str) -> None:
        had = self._placed.pop(group)
        self._leave(group, had[0])
        self._register(had, -1)
        self._uncount(had[1].max)
        self.on_spec(group, had[1], None)

    def _leave(self, group: str, tree_id: str) -> None:
        """Removes a group from a tree, once its pods have moved to where they now belong."""
        self.on_moved(AffectedPods(groups=frozenset((group,))))
        self._trees[tree_id].remove(group)

    def _register(self, placed: tuple[str, GroupSpec], sign: int) -> None:
        tree_id, spec = placed
        self._members[tree_id] += sign
        if tree_id == "" and spec.parent == GROUPS_PARENT:
            self._guides.add(spec, sign)

    def _apply_builtin(self, group: str) -> None:
        if group == ROOT:
            return
        active = self._index.active(group)
        limit = active.spec.max if active and active.spec.max else self._builtin_limits()[group]
        had = self._trees[""].spec(group).max
        try:
            self._trees[""].update(group, max=limit)
        except ValueError as error:
            self._refused[group] = KoordError.wrap(f"ElasticQuota {group}", "", error)
            return
        self._refused.pop(group, None)
        self._count(limit)
        self._uncount(had)

    def _builtin_limits(self) -> dict[str, Mapping[str, int]]:
        return {SYSTEM: self.settings.system_max, DEFAULT: self.settings.default_max}

    def _count(self, limit: Mapping[str, int]) -> None:
        self._limits.update(limit.keys())
        new = set(limit) - self.counted
        if new:
            self.counted = self.counted | new
            self._push_total()
            self.on_counted(new)

    def _uncount(self, limit: Mapping[str, int]) -> None:
        """A limit is no longer in force."""
        self._limits.subtract(limit.keys())
        gone = {name for name in limit if not self._limits[name]}
        if gone:
            self.counted = self.counted - gone
            for name in gone:
                del self._limits[name]
            self.on_counted(gone)
            self._push_total()

    def _push_total(self) -> None:
        self.version += 1
        # The kernel has columns for 64 resources at a time: only what somebody limits.
        total = {name: n for name, n in self._total.items() if name in self.counted}
        self._forest.set_total(total)
        self._settle_guide_parent()

    def _settle_totals(self) -> None:
        """Drops trees without groups, sets the others' totals, and sizes the guide's parent."""
        for tree_id in [tree_id for tree_id, n in self._members.items() if tree_id and not n]:
            self._forest.remove_tree(tree_id)
            del self._members[tree_id], self._trees[tree_id]
            self._tree_totals.pop(tree_id, None)
        roots = self._index.tree_roots() if self.settings.several_trees else {}
        for tree_id in self._members:
            if tree_id:
                self._settle_tree_total(tree_id, roots.get(tree_id))
        self._settle_guide_parent()

    def _settle_tree_total(self, tree_id: str, root: QuotaObject | None) -> None:
        given = root.total if root and root.total else {}
        total = {name: amount for name, amount in given.items() if name in self.counted}
        deducted = root is not None and root.deducted
        if self._tree_totals.get(tree_id) != (total, deducted):
            self._forest.set_tree_total(tree_id, total, deducted=deducted)
            self._tree_totals[tree_id] = total, deducted

    def _settle_guide_parent(self) -> None:
        tree = self._trees[""]
        if not self._guides.count:
            if GROUPS_PARENT in tree:
                tree.remove(GROUPS_PARENT)
            return
        spec = self._guides.parent(tree.total)
        if GROUPS_PARENT not in tree:
            tree.add(GROUPS_PARENT, spec)
        elif tree.spec(GROUPS_PARENT) != spec:
            tree.update(GROUPS_PARENT, **vars(spec))


def _by_label(title: str, parent: str, error: ValueError) -> KoordError:
    """Why a group is not hung up, in the words of its object: the kernel's are about its tree."""
    wrapped = KoordError.wrap(title, "", error)
    if wrapped.field.partition(":")[0] not in ("", "quota"):
        return wrapped
    return KoordError(title, f"labels[{keys.QUOTA_PARENT}]", parent, wrapped.expected)
