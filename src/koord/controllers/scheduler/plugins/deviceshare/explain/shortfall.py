# SPDX-License-Identifier: Apache-2.0
"""By how much a node that rejects a pod has too few devices, or too little of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.explain.explanation import amount
from koord.controllers.scheduler.plugins.deviceshare.names import RESOURCES

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.deviceshare.evaluation.node_evaluator import (
        DeviceNodeEvaluator,
    )
    from koord.controllers.scheduler.plugins.deviceshare.state.cycle_state import DeviceCycleState


def device_shortfalls(
    evaluator: DeviceNodeEvaluator, cycle_state: DeviceCycleState, row: int
) -> list[str]:
    """By type, what could be had and what is wanted; types that are not short are left out."""
    request, lines = cycle_state.request, list[str]()
    for kind in request.requests:
        if request.wants_all(kind):
            continue
        wanted = request.demand(kind).count
        most = evaluator.most(cycle_state, row, kind)
        if most < wanted:
            lines.append(f"{most} of {wanted} {kind} {'card' if wanted == 1 else 'cards'} free")
            if not most:
                lines += _on_the_nearest_card(evaluator, cycle_state, row, kind)
    return lines


def _on_the_nearest_card(
    evaluator: DeviceNodeEvaluator, cycle_state: DeviceCycleState, row: int, kind: str
) -> list[str]:
    """What the card that comes nearest has too little of, to those who use no reservation."""
    table, amounts = evaluator.cache.tables[kind], cycle_state.request.demand(kind).each
    wanted = {name: part for name, part in zip(RESOURCES[kind], amounts, strict=True) if part}
    free = {name: table.free(row, name) for name in wanted}

    def missing(minor: int) -> float:
        return max(1 - free[name][minor] / part for name, part in wanted.items())

    minor = min(table.listed(row), key=missing, default=None)
    if minor is None:
        return []
    return [
        f"card {minor}: {name} {amount(name, free[name][minor])} of {amount(name, part)} free"
        for name, part in wanted.items()
        if free[name][minor] < part
    ]
