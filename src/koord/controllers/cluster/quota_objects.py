# SPDX-License-Identifier: Apache-2.0
"""ElasticQuota objects of both API groups, as the groups of the tree that they stand for.

One reading for all who work with quotas: the scheduler, the webhook, ``koord quota``. The rules are
those of docs/reference/quota.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api.kinds.quota import ElasticQuota, GroupQuota
from koord.api.protocol import keys, quotas
from koord.api.protocol.annotation import field_of
from koord.api.protocol.resources import CPU, with_current_names
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity
from koord.kernels.quota import GroupSpec
from koord.kernels.quota_report import quantity_text

if TYPE_CHECKING:
    from datetime import datetime

    from koord.api.kinds.meta import Object, ResourceList

MOST = 2**63 - 1
_MOST_CPU = Quantity.from_milli(MOST)
_NOTHING = Quantity()
_GROUPS = ("scheduling.sigs.k8s.io", "quota.koordinator.sh")
# Names stand in tables; the API server allows no more than these characters.
_NAME = re.compile(r"[-A-Za-z0-9._]+")
_RESOURCE = re.compile(r"[-A-Za-z0-9._/]+")


@dataclass(frozen=True)
class QuotaObject:
    """One ElasticQuota of either kind.

    Attributes:
        label: the object as an error names it, with its file where it has one.
        group: the name in the tree: the object's, or NAMESPACE/NAME for a quota without a tree.
        priority: of a quota without a tree, None for the others.
        tree: id of the tree, ``""`` if the object leaves it to the parent.
        total: what the tree shares out, given by the tree's root object.
        deducted: the default tree pays for that total.
        namespaces: whose pods use the group unless they name another.
        created: when the object was made.
        unschedulable: what of a tree root's total is on nodes that take no pods.
    """

    label: str
    kind: str
    namespace: str
    name: str
    group: str
    spec: GroupSpec
    priority: int | None
    tree: str
    total: dict[str, int] | None
    deducted: bool
    namespaces: tuple[str, ...] = ()
    created: datetime | None = None
    unschedulable: dict[str, int] = field(default_factory=dict)


def group_name(item: Object) -> str:
    """The name in the tree of a quota, readable or not."""
    name = item.metadata.name
    return f"{item.metadata.namespace}/{name}" if isinstance(item, GroupQuota) else name


def quota_object(item: Object, label: str = "") -> QuotaObject:
    """Reads one quota.

    Args:
        item: of either kind, with its namespace.
        label: how errors of others are to call it; its title where there is none.

    Raises:
        KoordError: another kind, or a field is wrong; the line names object and field.
    """
    if not isinstance(item, ElasticQuota | GroupQuota):
        got = f"{item.api_version} {item.kind}"
        expected = " or ".join(f"{group}/v1alpha1 ElasticQuota" for group in _GROUPS)
        raise KoordError(item.title, "apiVersion, kind", got, expected)
    for part in ("name", "namespace"):
        _check_name(item, f"metadata.{part}", getattr(item.metadata, part))
    if isinstance(item, ElasticQuota):
        priority, group = None, item
    else:
        # The group shows the lesser of both limits, so what is wrong with one is found here.
        for part in ("hard", "max"):
            integer_amounts(item.title, f"spec.{part}", getattr(item.spec, part))
        priority, group = _priority(item), quotas.as_tree_group(item)
    tree = quotas.tree_id(group)
    if tree:
        _check_name(item, f"labels[{keys.QUOTA_TREE_ID}]", tree)
    return QuotaObject(
        label=label or item.title,
        kind=item.kind,
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        group=group.metadata.name,
        spec=_group_spec(group, item.title, priority),
        priority=priority,
        tree=tree,
        total=_tree_total(group) if tree and quotas.is_tree_root(group) else None,
        deducted=not quotas.ignores_default_tree(group),
        namespaces=tuple(quotas.namespaces(group)),
        created=item.metadata.creation_timestamp,
        unschedulable=_unschedulable(group) if tree and quotas.is_tree_root(group) else {},
    )


def integer_amounts(title: str, path: str, quantities: ResourceList) -> dict[str, int]:
    """A resource list as integers rounded up: cpu in milli-units, all else in whole units.

    Old resource names become the present ones. A cpu amount beyond 64 bits is as much as there is,
    which is what the limits of a cluster's built-in groups mean by it.

    Raises:
        KoordError: no name of a resource, or an amount that is negative or too large.
    """
    amounts = {}
    for name, quantity in quantities.items():
        if not _RESOURCE.fullmatch(name):
            raise KoordError(title, path, name, "a resource name such as cpu or nvidia.com/gpu")
        if quantity < _NOTHING:
            raise KoordError(title, f"{path}[{name}]", str(quantity), "a quantity of 0 or more")
        try:
            is_cpu = name == CPU
            amounts[name] = min(quantity, _MOST_CPU).milli() if is_cpu else quantity.value()
        except ValueError as error:
            raise KoordError.wrap(title, f"{path}[{name}]", error) from None
    return with_current_names(amounts)


class AmountSums:
    """Sums of amounts by resource; one that nobody names any more is absent, not 0."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._named: Counter[str] = Counter()

    def add(self, amounts: Mapping[str, int], sign: int = 1) -> None:
        """Counts amounts in, or out with a sign of -1."""
        for name, amount in amounts.items():
            self._sums[name] += sign * amount
            self._named[name] += sign
            if not self._named[name]:
                del self._sums[name], self._named[name]

    def total(self) -> dict[str, int]:
        """The sums, no larger than 64 bits hold."""
        return {name: min(amount, MOST) for name, amount in self._sums.items()}


class GuideSums:
    """What the guide's quotas have together, from which their parent follows."""

    def __init__(self) -> None:
        self.count = 0
        self._least = AmountSums()
        self._most = AmountSums()

    def add(self, spec: GroupSpec, sign: int = 1) -> None:
        """Counts one of them in, or out with a sign of -1."""
        self.count += sign
        self._least.add(spec.min, sign)
        self._most.add(spec.max, sign)

    def parent(self, total: Mapping[str, int]) -> GroupSpec:
        """The parent: it owns what they own and may take everything.

        Args:
            total: of the default tree; a resource that it does not name is limited by the children
                alone.
        """
        limits = self._most.total()
        limits |= {name: max(amount, 0) for name, amount in total.items()}
        return GroupSpec(min=self._least.total(), max=limits, is_parent=True)


def _group_spec(group: ElasticQuota, title: str, priority: int | None) -> GroupSpec:
    least = integer_amounts(title, "spec.min", group.spec.min)
    most = integer_amounts(title, "spec.max", group.spec.max)
    for name, amount in least.items():
        if amount > most.get(name, amount):
            expected = "no more than the spec's max" + ("" if priority is None else " and hard")
            shown = quantity_text(name, amount)
            raise KoordError(title, f"spec.min[{name}]", shown, expected)
    return GroupSpec(
        parent=quotas.parent(group),
        min=least,
        max=most,
        weight=_weight(group),
        is_parent=quotas.is_parent(group),
        allow_lent=quotas.allows_lending(group),
        priority=priority or 0,
    )


def _weight(group: ElasticQuota) -> dict[str, int]:
    """The shared weight; what cannot be read counts as missing, as in the scheduler."""
    try:
        return integer_amounts("", "", quotas.shared_weight(group))
    except KoordError:
        return {}


def _tree_total(root: ElasticQuota) -> dict[str, int] | None:
    total = quotas.amounts(root, keys.QUOTA_TOTAL_RESOURCE)
    return integer_amounts(root.title, field_of(keys.QUOTA_TOTAL_RESOURCE), total) or None


def _unschedulable(root: ElasticQuota) -> dict[str, int]:
    """For people only: what cannot be read counts as missing."""
    try:
        return integer_amounts("", "", quotas.amounts(root, keys.QUOTA_UNSCHEDULABLE_RESOURCE))
    except KoordError:
        return {}


def _priority(quota: GroupQuota) -> int:
    priority = quota.spec.priority
    if not -(2**31) <= priority < 2**31:
        raise KoordError(quota.title, "spec.priority", priority, "an integer of 32 bits")
    return priority


def _check_name(item: Object, field: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise KoordError(item.title, field, name, "a name of letters, digits, - and .")
