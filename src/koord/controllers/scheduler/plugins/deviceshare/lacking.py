# SPDX-License-Identifier: Apache-2.0
"""By how much a node that refuses a pod has too few devices, or too little of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.explain.answer import amount
from koord.controllers.scheduler.plugins.deviceshare.names import RESOURCES

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.deviceshare.judge import Judge, Question


def lacking(judge: Judge, question: Question, row: int) -> list[str]:
    """By type, what could be had and what is wanted; types that are not short are left out."""
    ask, found = question.ask, list[str]()
    for kind in ask.requests:
        if ask.for_all(kind):
            continue
        wanted = ask.demand(kind).count
        most = judge.most(question, row, kind)
        if most < wanted:
            found.append(f"{most} of {wanted} {kind} {'card' if wanted == 1 else 'cards'} free")
            if not most:
                found += _on_the_nearest_card(judge, question, row, kind)
    return found


def _on_the_nearest_card(judge: Judge, question: Question, row: int, kind: str) -> list[str]:
    """What the card that comes nearest has too little of, to those who use no reservation."""
    table, each = judge.cache.tables[kind], question.ask.demand(kind).each
    wanted = {name: part for name, part in zip(RESOURCES[kind], each, strict=True) if part}
    free = {name: table.free(row, name) for name in wanted}

    def lacks(minor: int) -> float:
        return max(1 - free[name][minor] / part for name, part in wanted.items())

    minor = min(table.listed(row), key=lacks, default=None)
    if minor is None:
        return []
    return [
        f"card {minor}: {name} {amount(name, free[name][minor])} of {amount(name, part)} free"
        for name, part in wanted.items()
        if free[name][minor] < part
    ]
