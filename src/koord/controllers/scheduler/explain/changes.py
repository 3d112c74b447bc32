# SPDX-License-Identifier: Apache-2.0
"""Puts into words which single change would let a pod onto nodes that one filter alone refuses."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.explain.answer import Change, amount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle

# What to do about each stock filter; others are quoted.
_WORDS = {
    "NodeUnschedulable": "uncordon a node, or tolerate node.kubernetes.io/unschedulable",
    "NodeName": "take spec.nodeName away",
    "NodeAffinity": "loosen the node selector or affinity",
    "NodePorts": "ask for other host ports",
    "InterPodAffinity": "loosen the pod affinity",
    "PodTopologySpread": "loosen the topology spread constraints",
}


def describe(cycle: Cycle, plugin: Any, rows: NDArray[np.intp]) -> list[Change]:
    """What would satisfy one filter.

    Args:
        cycle: the attempt.
        plugin: the filter.
        rows: nodes that it alone refuses.
    """
    if plugin.name == "NodeResourcesFit":
        return [_smaller(cycle, rows)]
    said: Counter[str] = Counter()
    if hasattr(plugin, "diagnose"):
        for rejection in plugin.diagnose(cycle, rows):
            said.update(rejection.reasons)
    else:
        for row in rows.tolist():
            refused = plugin.filter_node(cycle, row)
            said.update(refused.reasons if refused is not None else ())
    if plugin.name == "TaintToleration":
        return [
            Change(f"tolerate the taint {reason.partition('untolerated taint ')[2]}", count)
            for reason, count in sorted(said.items())
        ]
    if plugin.name in _WORDS:
        return [Change(_WORDS[plugin.name], len(rows))]
    return [Change(f"{plugin.name}: {reason}", count) for reason, count in sorted(said.items())]


def _smaller(cycle: Cycle, rows: NDArray[np.intp]) -> Change:
    """The smallest cut of the request that makes it fit on one node."""
    table = cycle.table
    index, amounts = cycle.shape.vector(table)
    free = table.allocatable[index][:, rows] - table.requested[index][:, rows]
    short = np.maximum(amounts[:, None] - free, 0)
    worst = (short / np.maximum(amounts[:, None], 1)).max(axis=0)
    order = np.lexsort((table.rank[rows], worst))
    at = int(order[0])
    texts = []
    for column, wanted, lack in zip(
        index.tolist(), amounts.tolist(), short[:, at].tolist(), strict=True
    ):
        name = table.resources[column]
        if 0 < lack < wanted:
            texts.append(
                f"ask for {name} {amount(name, wanted - lack)}, not {amount(name, wanted)}"
            )
        elif lack > 0:
            texts.append(f"do not ask for {name}")
    same = int(np.count_nonzero((short <= short[:, at][:, None]).all(axis=0)))
    return Change(" and ".join(texts), same)
