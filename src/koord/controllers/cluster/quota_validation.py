# SPDX-License-Identifier: Apache-2.0
"""What admission refuses of a quota group among the others: its keys, its parent, sums of minimums.

Rule: docs/reference/admission.md#among-the-others. A scheduler goes on with such groups, as
far as it can; what it cannot go on with is :mod:`koord.controllers.cluster.quota_objects`'.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api.protocol import keys, quotas
from koord.base.errors import KoordError
from koord.kernels.quota_report import quantity_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.cluster.quota_groups import Amounts, QuotaGroup

PARENT_FIELD = f"labels[{keys.QUOTA_PARENT}]"
TREE_FIELD = f"labels[{keys.QUOTA_TREE_ID}]"
_MOST_NAMES = 5


@dataclass(frozen=True)
class Surroundings:
    """What is around a group.

    Attributes:
        parent: the group above it; None for the root and for one that is not known.
        others_min: what its siblings' minimums add up to; None where nobody asks for sums.
        siblings: the names of all children of its parent, itself among them, sorted.
        children: the groups below it.
        children_min: what their minimums add up to.
    """

    parent: QuotaGroup | None = None
    others_min: Amounts | None = None
    siblings: Callable[[], Sequence[str]] = tuple
    children: Collection[QuotaGroup] = ()
    children_min: Amounts = field(default_factory=dict)


def problems(
    group: QuotaGroup, surroundings: Surroundings, *, fewer_resources: bool = False
) -> Iterator[KoordError]:
    """What is wrong with a group among the others; a parent that is missing is not looked at.

    Rule: docs/reference/admission.md#among-the-others, but for changes of what it was before and
    for its guarantee.

    Args:
        group: which.
        surroundings: its parent, siblings, and children.
        fewer_resources: whether a child's max may name fewer resources than its parent's.
    """
    parent = surroundings.parent
    if parent is not None and parent.name == quotas.ROOT_QUOTA:
        parent = None  # the object of that name, which the scheduler keeps, bounds nothing
    if parent is not None:
        if not parent.is_parent:
            expected = f'a group with the label {keys.QUOTA_IS_PARENT}: "true"'
            yield KoordError(group.title, PARENT_FIELD, parent.name, expected)
        yield from tree_problems(group, parent, "parent")
        yield from _pair_problems(group, parent, group, fewer_resources)
    for child in surroundings.children:
        yield from tree_problems(group, child, "child")
        yield from _pair_problems(child, group, group, fewer_resources)
    if group.is_forced or group.is_tree_root:
        return
    if parent is not None and surroundings.others_min is not None:
        yield from _sum_problems(group, parent, surroundings.others_min, surroundings.siblings)
    for resource, total in sorted(surroundings.children_min.items()):
        if total > group.min.get(resource, 0):
            least = quantity_text(resource, total)
            expected = f"at least {least}, what the minimums of its children add up to"
            shown = quantity_text(resource, group.min.get(resource, 0))
            yield KoordError(group.title, f"spec.min[{resource}]", shown, expected)


def tree_problems(subject: QuotaGroup, other: QuotaGroup, role: str) -> Iterator[KoordError]:
    """A group of another tree than its parent or a child; ``role`` says which that is."""
    if subject.tree != other.tree:
        shown = other.tree or "nothing"
        expected = f"{shown}, the tree of its {role} {other.name}"
        yield KoordError(subject.title, TREE_FIELD, subject.tree, expected)


def _pair_problems(
    child: QuotaGroup, parent: QuotaGroup, subject: QuotaGroup, fewer: bool
) -> Iterator[KoordError]:
    """Resources of child and parent that do not go together, told of the one in question."""
    differing = set(child.max) - set(parent.max) if fewer else set(child.max) ^ set(parent.max)
    if differing:
        is_child = subject is child
        other, role = (parent, "its parent") if is_child else (child, "its child")
        relation = "no resource but those" if fewer and is_child else "the resources"
        names = ", ".join(sorted(other.max))
        expected = f"{relation} that the max of {role} {other.name} has: {names}"
        yield KoordError(subject.title, "spec.max", ", ".join(sorted(subject.max)), expected)
    for resource in sorted(set(child.min) - set(parent.min)):
        if subject is child:
            expected = f"a resource that the min of its parent {parent.name} has too"
            yield KoordError(subject.title, f"spec.min[{resource}]", resource, expected)
        else:
            expected = f"an amount, since the min of its child {child.name} has one"
            yield KoordError(subject.title, f"spec.min[{resource}]", None, expected)


def _sum_problems(
    group: QuotaGroup, parent: QuotaGroup, others: Amounts, siblings: Callable[[], Sequence[str]]
) -> Iterator[KoordError]:
    """The minimums of all children beyond the parent's."""
    for resource in sorted({*others, *group.min}):
        together = others.get(resource, 0) + group.min.get(resource, 0)
        most = parent.min.get(resource, 0)
        if together <= most or (resource in group.min and resource not in parent.min):
            continue  # the latter is told of already
        children = siblings()
        more = " ..." if len(children) > _MOST_NAMES else ""
        expected = (
            f"minimums of {', '.join(children[:_MOST_NAMES])}{more} "
            f"that add up to at most {quantity_text(resource, most)}, the min of {parent.name}"
        )
        shown = f"{quantity_text(resource, together)} together"
        yield KoordError(group.title, f"spec.min[{resource}]", shown, expected)
