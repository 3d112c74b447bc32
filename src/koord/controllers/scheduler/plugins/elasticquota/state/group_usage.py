# SPDX-License-Identifier: Apache-2.0
"""The figures of groups, for statuses, metrics and people.

All of a group's figures are read from its tree at one moment, so they fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import GroupKey
from koord.kernels.quota import ROOT, Figure, GroupSpec, QuotaTree
from koord.kernels.quota_report import quantity_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTrees

Amounts = dict[str, int]


class GroupUsage(NamedTuple):
    """A group now; milli-units of cpu, whole units of the rest."""

    spec: GroupSpec
    scaled_min: Amounts
    runtime: Amounts
    used: Amounts
    non_preemptible_used: Amounts
    request: Amounts
    non_preemptible_request: Amounts
    child_request: Amounts
    guaranteed: Amounts
    allocated: Amounts


def group_usage(tree: QuotaTree, group: str) -> GroupUsage:
    """What a group uses and gets; the runtime in the resources of its ``max``."""
    spec = tree.spec(group)
    runtime = tree.runtime(group)
    if group != ROOT:
        runtime = {name: runtime[name] for name in spec.max if name in runtime}

    def read(figure: Figure) -> Amounts:
        return tree.figure(group, figure)

    return GroupUsage(
        spec,
        tree.scaled_min(group) if group != ROOT else {},
        runtime,
        read(Figure.USED),
        read(Figure.NON_PREEMPTIBLE_USED),
        read(Figure.REQUEST),
        read(Figure.NON_PREEMPTIBLE_REQUEST),
        read(Figure.CHILD_REQUEST),
        read(Figure.GUARANTEED),
        read(Figure.ALLOCATED),
    )


def group_keys(groups: QuotaTrees) -> Iterator[GroupKey]:
    """All groups but the roots, tree by tree, parents first, siblings by name."""
    for tree_id, tree in groups.trees().items():
        yield from (GroupKey(tree_id, name) for name in tree if name != ROOT)


def as_texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as texts in canonical form, by name."""
    return {name: quantity_text(name, amounts[name]) for name in sorted(amounts)}
