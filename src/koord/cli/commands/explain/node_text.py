# SPDX-License-Identifier: Apache-2.0
"""``koord explain node`` as text: the sums behind what a node offers, and who uses what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from koord.cli.commands.explain import node_sums as sums
from koord.cli.commands.explain import node_users as users
from koord.cli.commands.explain import pod_text
from koord.cli.commands.explain.node_history import history_lines
from koord.cli.commands.explain.node_units import CORES, GIB
from koord.cli.terminal.output import say, show

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Answer = Mapping[str, Any]

_CELLS = 50
# What a node's bar is made of, in order: the terms of each part, its glyph, its colour. All else of
# a sum is the offer, or adds to nothing.
_SEGMENTS = {
    "system": (("system", "waitingInSystem", "hostApplications", "reserved"), "█", "blue"),
    "prod": (("prodPods", "gonePods"), "▓", "green"),
    "mid": (("midPods",), "▒", "yellow"),
    "kept free": (("margin",), "·", "dim"),
    "batch": ((), "░", "cyan"),
}


def node(name: str, answer: Answer) -> None:
    """What both components say of a node."""
    manager, scheduler = answer["manager"], answer["scheduler"]
    if manager is None:
        say(f"{name}: koord-manager cannot be asked: {answer['problems']['manager']}")
    else:
        show(Group(*page(manager)))
    print()
    if scheduler is None:
        say(f"koord-scheduler cannot be asked: {answer['problems']['scheduler']}")
        return
    show(Text("scheduler", style="bold"))
    pod_text.node(scheduler)


def page(answer: Answer) -> Iterator[RenderableType]:
    """The manager's part."""
    account = answer["account"]
    yield _headline(answer)
    if account["batch"] is not None:
        yield Text()
        yield _bars(account["batch"])
        yield from _section("batch", sums.batch(answer))
        held_back = sums.reserved(account)
        if held_back is not None:
            yield from _section("reserved", held_back)
        yield from _section("mid", sums.mid(answer))
        yield from _section("pods that count", users.pods(account["batch"]))
        if account["zones"]:
            name = "batch by NUMA zone"
            if sums.is_normalised(answer):
                name += (
                    f", raw CPU; its NodeResourceTopology shows {answer['cpuSpeed']:.2f} times it"
                )
            yield from _section(name, *sums.zones(account))
    if answer["usage"]:
        yield from _section("usage as the agent reports it", users.usage(answer["usage"]))
    past = history_lines(answer["history"], answer["nowSeconds"])
    yield from _section("the last hour", past)


def _section(name: str, *body: RenderableType) -> Iterator[RenderableType]:
    yield Text(f"\n{name}", style="bold")
    yield from body


def _headline(answer: Answer) -> Text:
    account, now = answer["account"], answer["nowSeconds"]
    line = Text(answer["node"], style="bold")
    if account["batch"] is None:
        line.append(f"  offers nothing: {account['message']}", "yellow")
    else:
        for label, names in (("batch", sums.BATCH), ("mid", sums.MID)):
            cpu, memory = (answer["shown"][each] for each in names)
            line.append(f"  {label} ", "dim")
            shown = cpu is not None and memory is not None
            line.append(f"{CORES.show(cpu)} cores, {GIB.show(memory)} GiB" if shown else "none")
    reported = account["reportedSeconds"]
    if reported is not None:
        line.append(f"\nreported {_age(now - reported)} ago", "dim")
        if account["batch"] is not None:
            line.append(f", counts until {_time(account['expiresSeconds'])}", "dim")
    if account["batch"] is not None and sums.is_normalised(answer):
        line.append(
            f"\nCPU times {answer['cpuSpeed']:.2f}: normalised is what the node shows as batch, "
            "and what third\nparties hold of it; all else below is raw, requests count as pods "
            "state them",
            "dim",
        )
    return line


def _bars(pair: Answer) -> Table:
    """One bar a resource: who has how much of the node."""
    table = sums.plain()
    there: set[str] = set()
    for label, (resource, unit) in zip(("CPU", "memory"), sums.RESOURCES.items(), strict=True):
        each = pair[resource]
        amounts = _amounts(each)
        there |= {name for name, amount in amounts.items() if amount > 0}
        whole = each["lines"][0]["amount"]
        table.add_row(label, _bar(amounts, max(whole, 1)), f"{unit.show(whole)} {unit.name}")
    legend = Text()
    for name, (_, glyph, style) in _SEGMENTS.items():
        if name in there:
            legend.append(f"{glyph * 2} ", style)
            legend.append(f"{name}   ")
    table.add_row("", legend)
    return table


def _amounts(answer: Answer) -> dict[str, int]:
    """How much each part of a bar is."""
    lines = {line["what"]: line["amount"] for line in answer["lines"]}
    amounts = {
        name: -sum(lines.get(term, 0) for term in terms)
        for name, (terms, _, _) in _SEGMENTS.items()
    }
    return amounts | {"batch": answer["offered"]}


def _bar(amounts: Mapping[str, int], whole: int) -> Text:
    bar, cells, total = Text(), 0, 0
    for name, amount in amounts.items():
        _, glyph, style = _SEGMENTS[name]
        # Cut by what all before and this one are together, so that rounding does not add up.
        total += max(amount, 0)
        until = min(round(_CELLS * total / whole), _CELLS)
        bar.append(glyph * (until - cells), style)
        cells = until
    bar.append(" " * (_CELLS - cells))
    return bar


def _age(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")
