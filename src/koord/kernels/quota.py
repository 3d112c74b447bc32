# SPDX-License-Identifier: Apache-2.0
"""Elastic quota: what each group may use now, given what all of them ask for.

A group owns its ``min``, may grow to its ``max``, and what others leave idle is shared by weight.
Amounts are ``dict[str, int]``: milli-units of cpu, whole units of everything else; an absent
resource is not the same as one with 0. Unknown groups raise KeyError, everything else that is wrong
ValueError, with one line that names group, field, value and what would be right.

Example:
    >>> tree = QuotaTree(total={"cpu": 96_000})
    >>> tree.add("a", max={"cpu": 96_000}, min={"cpu": 50_000})
    >>> tree.add("b", max={"cpu": 96_000}, min={"cpu": 40_000})
    >>> tree.add_request("a", {"cpu": 120_000})
    >>> tree.add_request("b", {"cpu": 150_000})
    >>> tree.runtime("a"), tree.runtime("b")
    ({'cpu': 53000}, {'cpu': 43000})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from koord._native.cluster import quota as _quota
from koord._native.cluster.quota import Charge, Figure
from koord.kernels.quota_report import Decision, Explanation, Round, Share, Verdict

__all__ = [
    "DEFAULT",
    "ROOT",
    "SYSTEM",
    "Charge",
    "Decision",
    "Explanation",
    "Figure",
    "Forest",
    "GroupSpec",
    "Options",
    "QuotaTree",
    "Round",
    "Share",
    "Verdict",
]

ROOT = "koordinator-root-quota"
SYSTEM = "koordinator-system-quota"
DEFAULT = "koordinator-default-quota"

Amounts = Mapping[str, int]
_ADMITTED = int(Verdict.ADMITTED)
# For every pod both are charged: to look a member up in its class takes as long as to charge it.
_REQUEST, _USED = Charge.REQUEST, Charge.USED


@dataclass(frozen=True)
class GroupSpec:
    """What is written down about a group.

    Attributes:
        parent: name of the parent, which may be added later.
        min: what the group owns.
        max: what it may grow to; a resource that is absent here is not limited and not counted.
        weight: shares of what is idle; empty or all zero stands for ``max``.
        is_parent: the group is meant to have children; changes no figure.
        allow_lent: others may use the part of ``min`` that is not asked for.
        scale_min: ``min`` shrinks when the parent cannot cover the minimums of its children.
        priority: idle quota goes to siblings of a higher priority first.
    """

    parent: str = ROOT
    min: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    weight: Amounts = field(default_factory=dict)
    is_parent: bool = False
    allow_lent: bool = True
    scale_min: bool = True
    priority: int = 0

    def _native(self) -> _quota.Spec:
        amounts = dict(self.min), dict(self.max), dict(self.weight)
        flags = self.is_parent, self.allow_lent, self.scale_min
        return self.parent, *amounts, *flags, self.priority


@dataclass(frozen=True)
class Options:
    """Switches of a tree; the defaults are Koordinator's.

    Attributes:
        runtime_quota: admission holds use against the runtime; off, against ``max``.
        check_parents: admission looks at all ancestors too.
        guarantee_usage: what is in use is never taken back, and nothing is lent.
    """

    runtime_quota: bool = True
    check_parents: bool = False
    guarantee_usage: bool = False


class QuotaTree:
    """One tree of quota groups, kept up to date by deltas.

    A change costs time in the path from the group to the root. Runtimes are settled when read: of
    the levels on the path, only the resources whose total or children's figures changed. What is
    read is always the settled state of the whole tree, whatever the order of changes and reads.

    Args:
        total: the amount to share out, what the system and default groups use included.
        options: switches, see :class:`Options`.
        builtin_groups: have the system and default groups, as the default tree does.
    """

    def __init__(
        self,
        total: Amounts | None = None,
        *,
        options: Options | None = None,
        builtin_groups: bool = True,
    ) -> None:
        chosen = options or Options()
        self._tree = _quota.QuotaTree(
            builtin_groups, chosen.runtime_quota, chosen.check_parents, chosen.guarantee_usage
        )
        self.set_total(total or {})

    @classmethod
    def _over(cls, native: _quota.QuotaTree) -> QuotaTree:
        tree = cls.__new__(cls)
        tree._tree = native
        return tree

    def __repr__(self) -> str:
        return f"QuotaTree({len(self)} groups, total={self.total!r})"

    def __contains__(self, name: str) -> bool:
        return self._tree.contains(name)

    def __iter__(self) -> Iterator[str]:
        """Names depth first from the root, siblings in byte order, detached groups last."""
        return iter(self._tree.names())

    def __len__(self) -> int:
        return len(self._tree.names())

    @property
    def total(self) -> dict[str, int]:
        """The amount the tree shares out."""
        return self._tree.total()

    def set_total(self, total: Amounts) -> None:
        """Replaces the amount the tree shares out."""
        self._tree.set_total(dict(total))

    def add(self, name: str, spec: GroupSpec | None = None, /, **fields: object) -> None:
        """Adds a group, from a spec, its fields by name, or both.

        A group whose parent is not there yet is detached, and has no runtime, until it comes.

        Raises:
            ValueError: the name is taken, an amount is negative, or the parent is below the group.
        """
        self._tree.add(name, _changed(spec or GroupSpec(), fields)._native())

    def update(self, name: str, **fields: object) -> None:
        """Changes the named fields of a group's :class:`GroupSpec`; a new parent moves it."""
        self._tree.update(name, _changed(self.spec(name), fields)._native())

    def move(self, name: str, parent: str) -> None:
        """Hangs a group, with all below it, under another parent."""
        self.update(name, parent=parent)

    def remove(self, name: str) -> None:
        """Removes a group and what is charged to it; its children wait for one of that name."""
        self._tree.remove(name)

    def spec(self, name: str) -> GroupSpec:
        """What was last written down about a group."""
        return GroupSpec(*self._tree.spec(name))

    def add_request(self, name: str, delta: Amounts, *, non_preemptible: bool = False) -> None:
        """Adds to what the group's own pods ask for; never below 0.

        Resources that ``max`` does not name are kept but count nowhere until it does.
        """
        amounts = delta if type(delta) is dict else dict(delta)
        self._tree.charge(name, _REQUEST, amounts)
        if non_preemptible:
            self._tree.charge(name, Charge.NON_PREEMPTIBLE_REQUEST, amounts)

    def add_used(self, name: str, delta: Amounts, *, non_preemptible: bool = False) -> None:
        """Adds to what the group's own assigned pods hold; never below 0."""
        amounts = delta if type(delta) is dict else dict(delta)
        self._tree.charge(name, _USED, amounts)
        if non_preemptible:
            self._tree.charge(name, Charge.NON_PREEMPTIBLE_USED, amounts)

    def figure(self, name: str, figure: Figure) -> dict[str, int]:
        """One of the kept sums, in the resources of ``max`` and those that are not zero."""
        return self._tree.figure(name, figure)

    def request(self, name: str) -> dict[str, int]:
        """What the group asks for: its pods and its children's requests, each up to their max."""
        return self._tree.figure(name, Figure.REQUEST)

    def used(self, name: str) -> dict[str, int]:
        """What the assigned pods of the group and of all groups below it hold."""
        return self._tree.figure(name, Figure.USED)

    def runtime(self, name: str) -> dict[str, int]:
        """What the group may use now, in the resources its parent shares out.

        Empty for a detached group. Only the resources of ``max`` mean something to its pods.
        """
        return self._tree.runtime(name)

    def scaled_min(self, name: str) -> dict[str, int]:
        """The minimum that counts while the parent cannot cover all of its children's."""
        return self._tree.scaled_min(name)

    def admit(self, name: str, request: Amounts, *, non_preemptible: bool = False) -> Decision:
        """Whether a pod's request fits now, and if not, where and in which resources."""
        answer = self._tree.admit(name, dict(request), non_preemptible)
        code, group, exceeded, limit, used, asked = answer
        path = tuple(self._path(group, name)) if group else ()
        return Decision(Verdict(code), name, path, tuple(sorted(exceeded)), limit, used, asked)

    def fits(self, name: str, request: Amounts, *, non_preemptible: bool = False) -> bool:
        """Whether :meth:`admit` says yes, without its reasons: what a hot loop asks."""
        asked = request if type(request) is dict else dict(request)
        return self._tree.admit(name, asked, non_preemptible)[0] == _ADMITTED

    def explain(self, name: str, resource: str) -> Explanation:
        """How the group's level was shared out in one resource, round by round.

        Raises:
            ValueError: the parent does not share this resource out, or the group is detached.
        """
        parent, total, idle, children, rounds = self._tree.explain(name, resource)
        shares = {child: Share(*children[child]) for child in sorted(children, key=str.encode)}
        steps = tuple(Round(*step) for step in rounds)
        return Explanation(name, resource, parent, total, shares, steps, idle)

    def ids(self, names: Sequence[str]) -> NDArray[np.uint32]:
        """Ids for the column functions; valid until a group is removed."""
        return self._tree.ids(list(names))

    def charge_column(
        self, ids: NDArray[np.uint32], charge: Charge, resource: str, deltas: ArrayLike
    ) -> None:
        """Charges one amount of a resource to each of many groups."""
        self._tree.charge_column(ids, charge, resource, np.asarray(deltas, np.int64))

    def runtime_column(self, ids: NDArray[np.uint32], resource: str) -> NDArray[np.int64]:
        """Runtimes of many groups in one resource, 0 where a group has none."""
        return self._tree.runtime_column(ids, resource)

    def _path(self, ancestor: str, name: str) -> list[str]:
        path = [name]
        while path[-1] != ancestor:
            path.append(self.spec(path[-1]).parent)
        return path[::-1]


class Forest:
    """Trees by id: the default one ``""`` has the cluster's total less those of the others."""

    def __init__(self, total: Amounts | None = None, *, options: Options | None = None) -> None:
        chosen = options or Options()
        self._forest = _quota.Forest(
            chosen.runtime_quota, chosen.check_parents, chosen.guarantee_usage
        )
        self.set_total(total or {})

    def __iter__(self) -> Iterator[str]:
        """Ids of the trees in byte order, the default one first."""
        return iter(self._forest.ids())

    def tree(self, tree_id: str = "") -> QuotaTree:
        """The tree of an id, a new one if it is new."""
        return QuotaTree._over(self._forest.tree(tree_id))

    def set_total(self, total: Amounts) -> None:
        """Replaces the cluster's total."""
        self._forest.set_cluster_total(dict(total))

    def set_tree_total(self, tree_id: str, total: Amounts, *, deducted: bool = True) -> None:
        """Replaces the total of another tree; the default tree pays for it if ``deducted``."""
        self._forest.set_tree_total(tree_id, dict(total), deducted)

    def remove_tree(self, tree_id: str) -> None:
        """Drops a tree other than the default one and gives its total back."""
        self._forest.remove_tree(tree_id)


def _changed(spec: GroupSpec, fields: Mapping[str, object]) -> GroupSpec:
    return replace(spec, **fields)  # type: ignore[arg-type]
