# SPDX-License-Identifier: Apache-2.0
"""The quota tree, worked out from scratch on every question: no caches, exact fractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

ROOT = "koordinator-root-quota"
SYSTEM = "koordinator-system-quota"
DEFAULT = "koordinator-default-quota"
BUILTIN = (SYSTEM, DEFAULT)
KINDS = ("request", "used", "non_preemptible_request", "non_preemptible_used")

Amounts = dict[str, int]


@dataclass(frozen=True)
class Child:
    name: str
    weight: int
    request: int
    floor: int
    lends: bool = True
    priority: int = 0


def water_fill(total: int, children: list[Child]) -> dict[str, int]:
    """Floors first, then rounds by weight, a higher priority before a lower one."""
    runtime = {}
    for child in children:
        lent = child.request <= child.floor and child.lends
        runtime[child.name] = child.request if lent else child.floor
    pool = total - sum(runtime.values())
    for priority in sorted({child.priority for child in children}, reverse=True):
        hungry = [c for c in children if c.priority == priority and c.request > c.floor]
        while pool > 0 and sum(child.weight for child in hungry) > 0:
            grants = largest_remainder(pool, {c.name: c.weight for c in hungry if c.weight > 0})
            pool = 0
            for child in hungry:
                runtime[child.name] += grants.get(child.name, 0)
                pool += max(runtime[child.name] - child.request, 0)
                runtime[child.name] = min(runtime[child.name], child.request)
            hungry = [child for child in hungry if runtime[child.name] < child.request]
    return runtime


def largest_remainder(pool: int, weights: dict[str, int]) -> dict[str, int]:
    total = sum(weights.values())
    exact = {name: Fraction(weight * pool, total) for name, weight in weights.items()}
    grants = {name: int(share) for name, share in exact.items()}
    order = sorted(weights, key=lambda name: (grants[name] - exact[name], name.encode()))
    for name in order[: pool - sum(grants.values())]:
        grants[name] += 1
    return grants


@dataclass(frozen=True)
class Spec:
    parent: str = ROOT
    min: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    weight: Amounts = field(default_factory=dict)
    is_parent: bool = False
    allow_lent: bool = True
    scale_min: bool = True
    priority: int = 0


class ModelTree:
    def __init__(self, *, guarantee_usage: bool = False) -> None:
        self.total: Amounts = {}
        self.guarantee_usage = guarantee_usage
        self.specs = {name: Spec(allow_lent=False) for name in BUILTIN}
        self.charges = {name: {kind: {} for kind in KINDS} for name in BUILTIN}

    def add(self, name: str, spec: Spec) -> None:
        self.specs[name] = spec
        self.charges[name] = {kind: {} for kind in KINDS}

    def update(self, name: str, **fields: object) -> None:
        self.specs[name] = replace(self.specs[name], **fields)

    def remove(self, name: str) -> None:
        del self.specs[name], self.charges[name]

    def charge(self, name: str, kind: str, delta: Mapping[str, int]) -> None:
        own = self.charges[name][kind]
        for key, amount in delta.items():
            own[key] = max(own.get(key, 0) + amount, 0)

    def attached(self, name: str) -> bool:
        while name in self.specs:
            name = self.specs[name].parent
        return name == ROOT

    def children(self, name: str) -> list[str]:
        return [child for child, spec in self.specs.items() if spec.parent == name]

    def own(self, name: str, kind: str, key: str) -> int:
        if name == ROOT or key not in self.specs[name].max:
            return 0
        return self.charges[name][kind].get(key, 0)

    def lends(self, name: str) -> bool:
        return self.specs[name].allow_lent and not self.guarantee_usage

    def request(self, name: str, key: str) -> int:
        asked = self.own(name, "request", key)
        asked += sum(self.limited(child, key) for child in self.children(name))
        if name == ROOT or self.lends(name):
            return asked
        return max(asked, self.specs[name].min.get(key, 0))

    def limited(self, name: str, key: str) -> int:
        asked = self.request(name, key)
        return min(asked, self.specs[name].max.get(key, asked))

    def subtree(self, name: str, kind: str, key: str) -> int:
        below = sum(self.subtree(child, kind, key) for child in self.children(name))
        return self.own(name, kind, key) + below

    def allocated(self, name: str, key: str) -> int:
        below = sum(self.guaranteed(child, key) for child in self.children(name))
        return self.own(name, "used", key) + below

    def guaranteed(self, name: str, key: str) -> int:
        if not self.guarantee_usage:
            return 0
        return max(self.allocated(name, key), self.specs[name].min.get(key, 0))

    def shared_keys(self, parent: str) -> set[str]:
        if parent != ROOT:
            return set(self.specs[parent].max)
        return {key for name, s in self.specs.items() if name not in BUILTIN for key in s.max}

    def root_total(self) -> Amounts:
        result = dict(self.total)
        for name in BUILTIN:
            for key in self.specs[name].max:
                used = self.subtree(name, "used", key)
                if used:
                    result[key] = result.get(key, 0) - used
        return result

    def runtime(self, name: str) -> Amounts:
        if name == ROOT:
            return self.root_total()
        if name in BUILTIN:
            return dict(self.specs[name].max)
        if not self.attached(name):
            return {}
        parent = self.specs[name].parent
        total = self.runtime(parent)
        return {key: self.share(parent, total, key)[name] for key in self.shared_keys(parent)}

    def share(self, parent: str, total: Amounts, key: str) -> dict[str, int]:
        names = [name for name in self.children(parent) if name not in BUILTIN]
        mins = self.scaled_mins(names, total, key)
        rows = []
        for name in names:
            spec = self.specs[name]
            weights = spec.weight if any(spec.weight.values()) else spec.max
            floor = max(mins[name], self.guaranteed(name, key))
            rows.append(
                Child(name, weights.get(key, 0), self.limited(name, key), floor,
                      self.lends(name), spec.priority)
            )  # fmt: skip
        return water_fill(total.get(key, 0), rows)

    def scaled_mins(self, names: list[str], total: Amounts, key: str) -> dict[str, int]:
        mins = {name: self.specs[name].min.get(key, 0) for name in names}
        fixed = sum(mins[name] for name in names if not self.specs[name].scale_min)
        scalable = sum(mins.values()) - fixed
        if key not in total or total[key] >= fixed + scalable:
            return mins
        left = total[key] - fixed
        for name in names:
            if self.specs[name].scale_min:
                shrunk = left > 0 and scalable > 0
                share = float(left) * float(mins[name]) / float(scalable) if shrunk else 0.0
                mins[name] = min(int(share), mins[name])
        return mins

    def scaled_min(self, name: str) -> Amounts:
        spec = self.specs[name]
        if name in BUILTIN or not self.attached(name):
            return dict(spec.min)
        total = self.runtime(spec.parent)
        names = [child for child in self.children(spec.parent) if child not in BUILTIN]
        shared = self.shared_keys(spec.parent)
        return {
            key: self.scaled_mins(names, total if key in shared else {}, key)[name]
            for key in spec.min
        }

    def admit(self, name: str, request: Amounts, *, non_preemptible: bool = False,
              check_parents: bool = False) -> tuple[str, str | None, list[str]]:  # fmt: skip
        if not self.attached(name):
            return "DETACHED", name, []
        asked = {key: request[key] for key in request if key in self.specs[name].max}
        checks = [("OVER_RUNTIME", name, "used", self.runtime(name))]
        if non_preemptible:
            checks.append(("OVER_MIN", name, "non_preemptible_used", self.specs[name].min))
        parent = self.specs[name].parent
        while check_parents and parent != ROOT:
            checks.append(("OVER_PARENT_RUNTIME", parent, "used", self.runtime(parent)))
            parent = self.specs[parent].parent
        for verdict, group, kind, limit in checks:
            exceeded = [
                key for key in sorted(asked)
                if key in limit and self.subtree(group, kind, key) + asked[key] > limit[key]
            ]  # fmt: skip
            if exceeded:
                return verdict, group, exceeded
        return "ADMITTED", None, []
