# SPDX-License-Identifier: Apache-2.0
"""Quota accounting of a cluster, worked out from its objects on every question."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.models.quota import ROOT, Amounts, ModelTree, Spec

GUIDE = "koord-guide"
DEFAULT, SYSTEM = "koordinator-default-quota", "koordinator-system-quota"
MOST = 2**63 - 1


@dataclass(frozen=True)
class Quota:
    name: str
    namespace: str = "default"
    min: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    parent: str = ROOT
    guide: bool = False
    priority: int = 0
    lends: bool = True
    tree: str = ""
    total: Amounts | None = None
    deducted: bool = True
    namespaces: tuple[str, ...] = ()
    created: int = 0

    @property
    def group(self) -> str:
        return f"{self.namespace}/{self.name}" if self.guide else self.name


@dataclass
class Pod:
    namespace: str
    label: str
    request: Amounts
    strict: bool = False
    listed: bool = False
    bound: bool = False
    placed: bool = False
    withdrawn: bool = False

    @property
    def asks(self) -> bool:
        return self.listed or self.placed

    @property
    def uses(self) -> bool:
        return self.placed or (self.bound and not self.withdrawn)


class ModelCluster:
    def __init__(self, *, several_trees: bool = True, default_group: bool = True) -> None:
        self.several_trees = several_trees
        self.default_group = default_group
        self.quotas: dict[tuple[str, str], Quota] = {}
        self.broken: set[tuple[str, str]] = set()
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Amounts] = {}

    def active(self) -> dict[str, Quota]:
        found: dict[str, Quota] = {}
        for quota in sorted(self.quotas.values(), key=lambda q: (q.created, q.namespace)):
            found.setdefault(quota.group, quota)
        return found

    def tree_of(self, group: str) -> str:
        active = self.active()
        while self.several_trees and group in active:
            if active[group].tree:
                return active[group].tree
            group = active[group].parent
        return ""

    def group_of(self, pod: Pod) -> tuple[str | None, bool]:
        """The group, and whether the pod is refused since its quota cannot be read."""
        active, here = self.active(), pod.namespace
        if pod.label:
            names = [pod.label, f"{here}/{pod.label}"]
        elif self.default_group:
            home = (here, here) in self.broken and here not in active
            home = home or (here in active and active[here].namespace == here)
            lists = sorted(g for g, q in active.items() if here in q.namespaces)
            guides = sorted(g for g, q in active.items() if q.guide and q.namespace == here)
            names = [*([here] if home else []), *lists, *guides]
        else:
            names = []
        for name in names:
            if name in active or name in (DEFAULT, SYSTEM):
                return name, False
            if any(group == name for group, _ in self.broken):
                return None, True
        return (DEFAULT if self.default_group else None), False

    def totals(self) -> dict[str, Amounts]:
        active = self.active()
        total: Amounts = {}
        for node in self.nodes.values():
            for key, amount in node.items():
                total[key] = total.get(key, 0) + amount
        totals = {tree: {} for tree in {self.tree_of(group) for group in active}}
        roots = {}
        for group in sorted(active):
            quota = active[group]
            if self.several_trees and quota.tree and quota.total is not None:
                roots.setdefault(quota.tree, quota)
        for tree, root in roots.items():
            totals[tree] = dict(root.total)
            for key, amount in root.total.items() if root.deducted else ():
                total[key] = total.get(key, 0) - amount
        totals[""] = total
        counted = {"cpu", "memory"} | {key for q in active.values() for key in q.max}
        return {tree: {k: n for k, n in amounts.items() if k in counted}
                for tree, amounts in totals.items()}  # fmt: skip

    def tree(self, tree_id: str) -> ModelTree:
        active, tree = self.active(), ModelTree()
        tree.total = self.totals()[tree_id]
        if tree_id == "":
            for name in (SYSTEM, DEFAULT):
                tree.update(name, max={"cpu": MOST, "memory": MOST // 5})
        guides = []
        for group, quota in active.items():
            if self.tree_of(group) != tree_id:
                continue
            parent = GUIDE if quota.guide else quota.parent
            tree.add(group, Spec(parent, quota.min, quota.max, {}, False, quota.lends, True,
                                 quota.priority))  # fmt: skip
            if quota.guide:
                guides.append(quota)
        if guides and tree_id == "":
            most, least = _sum([q.max for q in guides]), _sum([q.min for q in guides])
            most |= {key: max(n, 0) for key, n in tree.total.items()}
            tree.add(GUIDE, Spec(min=least, max=most))
        for pod in self.pods.values():
            group, _ = self.group_of(pod)
            if group is None or (self.tree_of(group) if group in active else "") != tree_id:
                continue
            for kind, counts in (("request", pod.asks), ("used", pod.uses)):
                if counts:
                    tree.charge(group, kind, pod.request)
                    if pod.strict:
                        tree.charge(group, f"non_preemptible_{kind}", pod.request)
        return tree


def _sum(parts: list[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total.get(key, 0) + amount
    return total
