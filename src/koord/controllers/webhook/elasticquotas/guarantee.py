# SPDX-License-Identifier: Apache-2.0
"""Whether the quotas above one can guarantee its minimum (gate ``ElasticQuotaGuaranteeUsage``).

Rule: docs/reference/admission.md#among-the-others, the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.controllers.cluster.quota_validation import PARENT_FIELD
from koord.kernels.quota import ROOT
from koord.kernels.quota_report import quantity_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.cluster.quota_groups import Amounts, QuotaGroup
    from koord.controllers.webhook.elasticquotas.quota_topology import QuotaTopology


def guarantee_problems(group: QuotaGroup, tree: QuotaTopology) -> Iterator[KoordError]:
    """A minimum that nothing above has guaranteed yet.

    Args:
        group: as it is to be.
        tree: all others, which may be a circle.
    """
    if group.is_forced or group.is_tree_root or not group.tree:
        return
    if _covers(group.guaranteed, group.min):
        return
    need, below, name = _most(group.min, group.guaranteed), group.name, group.parent
    seen: set[str] = set()
    while name != ROOT and name not in seen:
        seen.add(name)
        parent = tree.groups.get(name)
        if parent is None:
            expected = f"a quota that exists, below which {below} is guaranteed its min"
            yield KoordError(group.title, PARENT_FIELD, name, expected)
            return
        need = _most(parent.min, _sum(need, tree.children_guaranteed(name, without=below)))
        if _covers(parent.guaranteed, need):
            return
        below, name = name, parent.parent
    shown = ", ".join(f"{key}={quantity_text(key, group.min[key])}" for key in sorted(group.min))
    expected = f"a min that the quotas above can guarantee, up to the root of its tree {below}"
    yield KoordError(group.title, "spec.min", shown, expected)


def _covers(have: Amounts, need: Amounts) -> bool:
    return all(amount <= have.get(name, 0) for name, amount in need.items())


def _most(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}


def _sum(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}
