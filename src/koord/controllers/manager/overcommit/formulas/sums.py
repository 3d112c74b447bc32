# SPDX-License-Identifier: Apache-2.0
"""What the pods of each node take together (docs/reference/overcommit.md#pods-that-count)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.manager.overcommit.amounts import zeros
from koord.controllers.manager.overcommit.objects.pod_terms import PodTerms, claims

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import AmountColumns


class PodSums(NamedTuple):
    """By node.

    Args:
        high_request: what high pods ask for.
        high_used: what they use; what they ask for where nothing is measured.
        high_max: the larger of both, pod by pod.
        firm_request: what pods ask for that are neither mid, batch nor free.
        waiting: what high pods ask for that are not measured yet; part of the first three.
    """

    high_request: AmountColumns
    high_used: AmountColumns
    high_max: AmountColumns
    firm_request: AmountColumns
    waiting: AmountColumns


def empty(*shape: int) -> PodSums:
    """Nothing, of so many nodes, or of so many zones on so many."""
    return PodSums(*(np.zeros((2, *shape), np.int64) for _ in PodSums._fields))


def of(terms: PodTerms, rows: int) -> PodSums:
    """The sums of so many nodes."""
    return PodSums(*(add(terms.node, part, rows) for part in claims(terms)))


def add(node: NDArray[np.intp], part: AmountColumns, rows: int) -> AmountColumns:
    """Amounts of pods added up by node: in integers, so that the order does not matter."""
    total = zeros(rows)
    for resource in range(len(part)):
        np.add.at(total[resource], node, part[resource])
    return total
