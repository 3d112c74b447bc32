# SPDX-License-Identifier: Apache-2.0
"""What admission refuses of a quota group among the others: its keys, its parent, sums of minimums.

Rule: docs/reference/admission.md#among-the-others. A scheduler goes on with such groups, as
far as it can; what it cannot go on with is :mod:`koord.controllers.cluster.quota_objects`'.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import keys, quotas
from koord.base.errors import KoordError
from koord.kernels.quota import ROOT
from koord.kernels.quota_report import quantity_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from koord.api.kinds.quota import ElasticQuota
    from koord.controllers.cluster.quota_objects import QuotaObject

_PARENT = f"labels[{keys.QUOTA_PARENT}]"


class QuotaGroup(NamedTuple):
    """A group of a tree: its object, and what that stands for."""

    item: ElasticQuota
    read: QuotaObject


def problems(
    group: QuotaGroup, groups: Mapping[str, QuotaGroup], siblings: Sequence[str]
) -> Iterator[KoordError]:
    """What is wrong with one group.

    Args:
        group: which.
        groups: all by name, itself among them; a parent that is missing is not looked at.
        siblings: the names of those with the same parent, itself among them, sorted.
    """
    spec, title = group.read.spec, group.item.title
    for name in spec.min:
        if name not in spec.max:
            yield KoordError(title, f"spec.min[{name}]", name, "a resource that spec.max has too")
    parent = groups.get(spec.parent)
    if spec.parent == ROOT or parent is None or parent is group:
        return
    yield from _parent_problems(group, parent)
    yield from _sum_problems(group, parent, groups, siblings)


def _parent_problems(group: QuotaGroup, parent: QuotaGroup) -> Iterator[KoordError]:
    spec, title, name = group.read.spec, group.item.title, group.read.spec.parent
    if not parent.read.spec.is_parent:
        expected = f'a group with the label {keys.QUOTA_IS_PARENT}: "true"'
        yield KoordError(title, _PARENT, name, expected)
    tree, above = group.read.tree, parent.read.tree
    if tree and above and tree != above:
        expected = f"{above}, the tree of its parent {name}"
        yield KoordError(title, f"labels[{keys.QUOTA_TREE_ID}]", tree, expected)
    differing = sorted(set(spec.max) ^ set(parent.read.spec.max))
    if differing:
        expected = f"the resources that the max of its parent {name} has: " + ", ".join(
            sorted(parent.read.spec.max)
        )
        yield KoordError(title, "spec.max", ", ".join(sorted(spec.max)), expected)
    for resource in sorted(set(spec.min) - set(parent.read.spec.min)):
        expected = f"a resource that the min of its parent {name} has too"
        yield KoordError(title, f"spec.min[{resource}]", resource, expected)


def _sum_problems(
    group: QuotaGroup, parent: QuotaGroup, groups: Mapping[str, QuotaGroup], children: Sequence[str]
) -> Iterator[KoordError]:
    """The minimums of all children beyond the parent's, told of the last child by name."""
    if quotas.allows_force_update(group.item) or quotas.is_tree_root(group.item):
        return
    name = group.read.spec.parent
    if children[-1] != group.read.group:
        return
    sums: Counter[str] = Counter()
    for child in children:
        sums.update(groups[child].read.spec.min)
    for resource, amount in sorted(sums.items()):
        most = parent.read.spec.min.get(resource, 0)
        if resource in parent.read.spec.min and amount > most:
            expected = (
                f"minimums of {', '.join(children[:5])}{' ...' if len(children) > 5 else ''} "
                f"that add up to at most {quantity_text(resource, most)}, the min of {name}"
            )
            shown = f"{quantity_text(resource, amount)} together"
            yield KoordError(group.item.title, f"spec.min[{resource}]", shown, expected)
