# SPDX-License-Identifier: Apache-2.0
"""A quota group as admission sees it, and what is wrong with it by itself.

Rule: docs/reference/admission.md#a-quota-by-itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import annotation, keys, quotas
from koord.api.protocol.resources import with_current_names
from koord.api.requests import amount
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.quota import ElasticQuota

Amounts = Mapping[str, int]
"""As of :func:`amounts_of`."""
_NOTHING = Quantity()


class QuotaGroup(NamedTuple):
    """A group of a tree, as admission compares it with others; amounts as in ``integer_amounts``.

    Attributes:
        title: its object, as errors name it.
        name: of the group.
        parent: the group above; empty for the root.
        tree: its tree's id, empty for the default one.
        is_parent: whether it may have children.
        is_tree_root: whether it is the root of a tree.
        is_forced: whether sums of minimums and guarantees do not bind it.
        min: guaranteed to it.
        max: never exceeded.
        guaranteed: what the scheduler keeps for it now.
    """

    title: str
    name: str
    parent: str
    tree: str = ""
    is_parent: bool = False
    is_tree_root: bool = False
    is_forced: bool = False
    min: Amounts = MappingProxyType({})
    max: Amounts = MappingProxyType({})
    guaranteed: Amounts = MappingProxyType({})


def group_of(item: ElasticQuota) -> QuotaGroup:
    """The group of an object, however wrong it is: what cannot be read counts as missing."""
    return QuotaGroup(
        item.title,
        item.metadata.name,
        quotas.parent(item),
        quotas.tree_id(item),
        quotas.is_parent(item),
        quotas.is_tree_root(item),
        quotas.allows_force_update(item),
        amounts_of(item.spec.min),
        amounts_of(item.spec.max),
        amounts_of(_guaranteed(item)),
    )


def amounts_of(quantities: ResourceList) -> dict[str, int]:
    """A resource list as integers: cpu in milli-units, all else in units, rounded up."""
    return with_current_names(
        {name: amount(name, quantity) for name, quantity in quantities.items()}
    )


def _guaranteed(item: ElasticQuota) -> ResourceList:
    try:
        return quotas.amounts(item, keys.QUOTA_GUARANTEED)
    except KoordError:
        return {}


def own_problems(item: ElasticQuota) -> Iterator[KoordError]:
    """What is wrong with a group by itself.

    Rule: docs/reference/admission.md#a-quota-by-itself.
    """
    for path, quantities in (("spec.max", item.spec.max), ("spec.min", item.spec.min)):
        yield from _negative(item, path, quantities)
    field_name = annotation.field_of(keys.QUOTA_SHARED_WEIGHT)
    try:
        yield from _negative(item, field_name, quotas.amounts(item, keys.QUOTA_SHARED_WEIGHT))
    except KoordError as error:
        yield error
    yield from key_problems(group_of(item))
    for name, least in item.spec.min.items():
        most = item.spec.max.get(name)
        if most is not None and least > most:
            expected = f"at most {most}, its spec.max"
            yield KoordError(item.title, f"spec.min[{name}]", str(least), expected)
    try:
        yield from _below_use(item)
    except KoordError as error:
        yield error


def _negative(item: ElasticQuota, path: str, quantities: ResourceList) -> Iterator[KoordError]:
    for name, quantity in quantities.items():
        if quantity < _NOTHING:
            where = f"{path}[{name}]"
            yield KoordError(item.title, where, str(quantity), "a quantity of 0 or more")


def _below_use(item: ElasticQuota) -> Iterator[KoordError]:
    """A max below what is used, of resources that say that they want this told."""
    for name in quotas.strictly_checked_keys(item):
        used, most = item.status.used.get(name), item.spec.max.get(name)
        if used is not None and (most is None or most < used):
            shown = None if most is None else str(most)
            expected = f"at least {used}, which its pods use"
            yield KoordError(item.title, f"spec.max[{name}]", shown, expected)


def key_problems(group: QuotaGroup) -> Iterator[KoordError]:
    """Resources of a minimum that its maximum does not have."""
    for name in group.min:
        if name not in group.max:
            expected = "a resource that spec.max has too"
            yield KoordError(group.title, f"spec.min[{name}]", name, expected)
