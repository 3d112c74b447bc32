# SPDX-License-Identifier: Apache-2.0
"""Who uses a node, in ``koord explain node``: the pods that a sum counts, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from koord.cli.commands.explain.node_sums import RESOURCES, numbers, plain
from koord.cli.commands.explain.node_units import CORES, GIB, Unit

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Answer = Mapping[str, Any]

_MOST_PODS = 20
_WHY = {
    "usage": "used",
    "request": "asked for",
    "larger": "larger of both",
    "notMeasured": "asked, not measured",
    "notLent": "asked, LSE lends none",
    "gone": "used, pod is gone",
}
_USERS = {"hostApplications": "host applications"}
_WHOLE = "node"


def pods(pair: Answer) -> RenderableType:
    """What each pod takes; those of a class add up to its term in the sum."""
    shares = [_shares(pair[r], unit) for r, unit in RESOURCES.items()]
    there = sorted({**shares[0], **shares[1]}, key=lambda pod: -_steps(shares[0].get(pod)))
    if not there:
        return Text("  none: nothing is taken from batch by pods", style="dim")
    table = plain("POD", "CLASS", "CPU", "COUNTED", "MEMORY GiB", "COUNTED")
    table.columns[2].justify = table.columns[4].justify = "right"
    for pod in there[:_MOST_PODS]:
        told = [each.get(pod) for each in shares]
        group = next(share["group"] for share, _ in filter(None, told)).removesuffix("Pods")
        cells = (_share(each, unit) for each, unit in zip(told, RESOURCES.values(), strict=True))
        table.add_row(pod, group, *(cell for pair in cells for cell in pair))
    left = there[_MOST_PODS:]
    if left:
        cpu, memory = (
            unit.text(sum(_steps(each.get(pod)) for pod in left))
            for each, unit in zip(shares, RESOURCES.values(), strict=True)
        )
        table.add_row(f"and {len(left)} more", "", cpu, "", memory, "")
    return table


def _shares(answer: Answer, unit: Unit) -> dict[str, tuple[Answer, int]]:
    """By pod its share, and in how many steps that is shown: its group's term is cut in pieces."""
    shares, before = {}, 0
    for line in answer["lines"]:
        group = [each for each in answer["pods"] if each["group"] == line["what"]]
        for each, steps in zip(
            group, unit.terms([-each["amount"] for each in group], before), strict=True
        ):
            shares[each["pod"]] = each, -steps
        before += line["amount"]
    # Pods of a group that takes nothing have no term.
    return {each["pod"]: shares.get(each["pod"], (each, 0)) for each in answer["pods"]}


def _steps(share: tuple[Answer, int] | None) -> int:
    return 0 if share is None else share[1]


def _share(share: tuple[Answer, int] | None, unit: Unit) -> tuple[str, Text]:
    if share is None:
        return "-", Text()
    why = share[0]["by"]
    return unit.text(share[1]), Text(_WHY.get(why, str(why)), style="dim")


def usage(measurements: Sequence[Answer]) -> Table:
    """What is measured, part by part, and the whole that was measured by itself."""
    parts = [each for each in measurements if each["what"] != _WHOLE]
    whole = next((each for each in measurements if each["what"] == _WHOLE), None)
    asked = any(each["requestCpuMilli"] is not None for each in parts)
    table = numbers(
        "PODS", "CPU", "MEMORY GiB", *(["ASKS CPU", "ASKS GiB"] if asked else []), first="WHO"
    )
    measured = [
        unit.terms(each[field] for each in parts)
        for field, unit in (("cpuMilli", CORES), ("memoryBytes", GIB))
    ]
    for each, cpu, memory in zip(parts, *measured, strict=True):
        cells = [
            "" if each["pods"] is None else str(each["pods"]),
            CORES.text(cpu),
            GIB.text(memory),
        ]
        if each["requestCpuMilli"] is not None:
            cells += [CORES.show(each["requestCpuMilli"]), GIB.show(each["requestMemoryBytes"])]
        table.add_row(_USERS.get(each["what"], each["what"]), *cells)
    if whole is not None:
        all_of_it = CORES.rounded(whole["cpuMilli"]), GIB.rounded(whole["memoryBytes"])
        apart = [all_ - sum(each) for all_, each in zip(all_of_it, measured, strict=True)]
        if any(apart):
            table.add_row("measured apart", "", CORES.text(apart[0]), GIB.text(apart[1]))
        total = "= the node", "", CORES.text(all_of_it[0]), GIB.text(all_of_it[1])
        table.add_row(*(Text(text, style="bold cyan") for text in total))
    return table
