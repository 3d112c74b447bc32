# SPDX-License-Identifier: Apache-2.0
"""``koord explain node`` as text: the sums behind what a node offers, and who uses what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from koord.cli import explain_text
from koord.cli.explain_node_history import course
from koord.cli.output import stdout

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

Answer = Mapping[str, Any]

BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
_CELLS = 50
_PODS = 20
# Each term of a sum in words; what is not here is told by its own name.
_WORDS = {
    "capacity": "capacity",
    "margin": "kept free for peaks",
    "system": "system",
    "waitingInSystem": "of it, pods counted below",
    "hostApplications": "host applications",
    "reserved": "reserved beyond that",
    "prodPods": "prod pods",
    "midPods": "mid pods",
    "gonePods": "pods that are gone, still measured",
    "belowZero": "more is taken than there is",
    "notOvercommitted": "not given on",
    "cap": "above the strategy's bound",
    "riseBound": "held back: rises by steps",
    "sinceThen": "changed since, worked out shortly",
    "static": "fixed share",
    "reclaimable": "asked for by prod, not going to be used",
    "notIdle": "of it, not idle now",
    "unallocated": "of what nobody asks for",
}
_BY = {
    "usage": "by usage",
    "request": "by request",
    "maxUsageRequest": "by the larger of usage and request",
    "requestRatio": "by requests, a share of the rest",
    "static": "a fixed share",
    "dynamic": "by prediction",
}
_WHY = {
    "usage": "used",
    "request": "asked for",
    "larger": "larger of both",
    "notMeasured": "asked for, not measured yet",
    "notLent": "asked for, LSE lends none",
    "gone": "used, pod is gone",
}
# What a node's bar is made of, in order: the terms of each part, its glyph, its colour. All else of
# a sum is the offer, or adds to nothing.
_SEGMENTS = {
    "system": (("system", "waitingInSystem", "hostApplications", "reserved"), "█", "blue"),
    "prod": (("prodPods", "gonePods"), "▓", "green"),
    "mid": (("midPods",), "▒", "yellow"),
    "kept free": (("margin",), "·", "dim"),
    "batch": ((), "░", "cyan"),
}
_USERS = {"node": "the node", "hostApplications": "host applications"}


def node(name: str, answer: Answer) -> None:
    """What both components say of a node."""
    manager, scheduler = answer["manager"], answer["scheduler"]
    if manager is None:
        print(f"{name}: koord-manager cannot be asked: {answer['problems']['manager']}")
    else:
        stdout().print(Group(*page(manager)), soft_wrap=True)
    print()
    if scheduler is None:
        print(f"koord-scheduler cannot be asked: {answer['problems']['scheduler']}")
        return
    stdout().print(Text("scheduler", style="bold"))
    explain_text.node(scheduler)


def page(answer: Answer) -> Iterator[RenderableType]:
    """The manager's part."""
    account = answer["account"]
    yield _headline(answer)
    if account["batch"] is not None:
        yield Text()
        yield _bars(account["batch"])
        yield from _section("batch", _sum(account["batch"], "batch", answer))
        yield from _section("mid", _sum(account["mid"], "mid", answer))
        yield from _section("pods that count", _pods(account["batch"]))
        if account["zones"]:
            yield from _section("batch by NUMA zone", _zones(account["zones"]))
    if answer["usage"]:
        yield from _section("usage as the agent reports it", _usage(answer["usage"]))
    yield from _section("the last hour", course(answer["history"], answer["nowSeconds"]))


def _section(name: str, body: RenderableType) -> Iterator[RenderableType]:
    yield Text(f"\n{name}", style="bold")
    yield body


def _headline(answer: Answer) -> Text:
    account, now = answer["account"], answer["nowSeconds"]
    line = Text(answer["node"], style="bold")
    if account["batch"] is None:
        line.append(f"  offers nothing: {account['message']}", "yellow")
    else:
        shown = answer["shown"]
        for label, names in (("batch", BATCH), ("mid", MID)):
            cpu, memory = (shown[each] for each in names)
            line.append(f"  {label} ", "dim")
            line.append(f"{cores(cpu)} cores, {gib(memory)} GiB" if cpu is not None else "none")
    reported = account["reportedSeconds"]
    if reported is not None:
        line.append(f"  reported {_age(now - reported)} ago", "dim")
        if account["batch"] is not None:
            line.append(f", counts until {_time(account['expiresSeconds'])}", "dim")
    return line


def _bars(pair: Answer) -> Table:
    """One bar a resource: who has how much of the node."""
    table = _table()
    there: set[str] = set()
    for label, each, shown, unit in (
        ("CPU", pair["cpu"], cores, "cores"), ("memory", pair["memory"], gib, "GiB")
    ):  # fmt: skip
        amounts = _amounts(each)
        there |= {name for name, amount in amounts.items() if amount > 0}
        whole = each["lines"][0]["amount"]
        table.add_row(label, _bar(amounts, max(whole, 1)), f"{shown(whole)} {unit}")
    legend = Text()
    for name, (_, glyph, style) in _SEGMENTS.items():
        if name in there:
            legend.append(f"{glyph * 2} ", style)
            legend.append(f"{name}   ")
    table.add_row("", legend)
    return table


def _amounts(each: Answer) -> dict[str, int]:
    """How much each part of a bar is."""
    lines = {line["what"]: line["amount"] for line in each["lines"]}
    amounts = {
        name: -sum(lines.get(term, 0) for term in terms)
        for name, (terms, _, _) in _SEGMENTS.items()
    }
    return amounts | {"batch": each["offered"]}


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


def _sum(pair: Answer, kind: str, answer: Answer) -> Table:
    """Both resources' terms side by side; a term that one of them lacks is 0 there."""
    cpu, memory = ({line["what"]: line["amount"] for line in pair[each]["lines"]}
                   for each in ("cpu", "memory"))  # fmt: skip
    table = _table("", "CPU cores", "memory GiB")
    for column in table.columns[1:]:
        column.justify = "right"
    order = [what for what in _WORDS if what in cpu or what in memory]
    for what in [*order, *sorted((cpu.keys() | memory.keys()) - set(order))]:
        words = f"  {_WORDS.get(what, what)}{_count(pair, what)}"
        table.add_row(words, _signed(cpu.get(what), cores), _signed(memory.get(what), gib))
    offered = pair["cpu"]["offered"], pair["memory"]["offered"]
    _total(table, f"= {kind}", offered)
    shown = tuple(answer["shown"][name] for name in (BATCH if kind == "batch" else MID))
    if kind == "batch":
        if answer["cpuSpeed"] > 1:
            table.add_row(f"  times the CPUs' speed {answer['cpuSpeed']:.2f}", "", "")
        for held in answer["thirdParties"]:
            table.add_row(
                f"  held by {held['name']}", _signed(-held["cpuMilli"], cores),
                _signed(-held["memoryBytes"], gib),
            )  # fmt: skip
    if shown != offered:
        _total(table, "= shown on the node", shown)
    policies = [_BY.get(p, p) for p in (str(pair[r]["policy"]) for r in ("cpu", "memory"))]
    table.add_row(*(Text(text, style="dim") for text in ("  counted", *policies)))
    return table


def _count(pair: Answer, group: str) -> str:
    pods = {each["pod"] for name in ("cpu", "memory") for each in pair[name]["pods"]
            if each["group"] == group}  # fmt: skip
    return f" ({len(pods)})" if pods else ""


def _total(table: Table, name: str, amounts: Sequence[int | None]) -> None:
    cpu, memory = (
        "none" if amount is None else shown(amount)
        for amount, shown in zip(amounts, (cores, gib), strict=True)
    )
    table.add_row(*(Text(text, style="bold cyan") for text in (name, cpu, memory)))


def _pods(pair: Answer) -> RenderableType:
    cpu, memory = ({each["pod"]: each for each in pair[name]["pods"]} for name in ("cpu", "memory"))
    rows = [(pod, cpu.get(pod), memory.get(pod)) for pod in {**cpu, **memory}]
    rows.sort(key=lambda row: -(row[1] or {"amount": 0})["amount"])
    if not rows:
        return Text("  none: nothing is taken from batch by pods", style="dim")
    table = _table("POD", "CLASS", "CPU", "COUNTED", "MEMORY GiB", "COUNTED")
    table.columns[2].justify = table.columns[4].justify = "right"
    for pod, of_cpu, of_memory in rows[:_PODS]:
        group = (of_cpu or of_memory or {})["group"].removesuffix("Pods")
        table.add_row(pod, group, *_share(of_cpu, cores), *_share(of_memory, gib))
    left = rows[_PODS:]
    if left:
        cpu_left = sum(each["amount"] for _, each, _ in left if each)
        memory_left = sum(each["amount"] for _, _, each in left if each)
        table.add_row(f"and {len(left)} more", "", cores(cpu_left), "", gib(memory_left), "")
    return table


def _share(share: Answer | None, shown: Callable[[int], str]) -> tuple[str, Text]:
    if share is None:
        return "-", Text()
    return shown(share["amount"]), Text(_WHY.get(share["by"], str(share["by"])), style="dim")


def _zones(zones: Sequence[Answer]) -> Table:
    table = _table("ZONE", "CPU", "TAKEN", "BATCH", "MEMORY GiB", "TAKEN", "BATCH")
    for column in table.columns[1:]:
        column.justify = "right"
    for zone in zones:
        cells = [str(zone["number"])]
        for name, shown, parts in (("cpu", cores, 1), ("memory", gib, 1000)):
            capacity, offered = zone[name]["lines"][0]["amount"], zone[name]["offered"]
            cells += [shown(each // parts) for each in (capacity, capacity - offered, offered)]
        table.add_row(*cells)
    return table


def _usage(usage: Sequence[Answer]) -> Table:
    asked = any(each["requestCpuMilli"] is not None for each in usage)
    columns = ["WHO", "PODS", "CPU", "MEMORY GiB", *(["ASKS CPU", "ASKS GiB"] if asked else [])]
    table = _table(*columns)
    for column in table.columns[1:]:
        column.justify = "right"
    for each in usage:
        cells = [_USERS.get(each["what"], each["what"])]
        cells.append("" if each["pods"] is None else str(each["pods"]))
        cells += [cores(each["cpuMilli"]), gib(each["memoryBytes"])]
        if each["requestCpuMilli"] is not None:
            cells += [cores(each["requestCpuMilli"]), gib(each["requestMemoryBytes"])]
        table.add_row(*cells)
    return table


def cores(milli: int) -> str:
    """Milli-cores as cores, with as many decimals as say something."""
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def gib(size: int) -> str:
    """Bytes as GiB."""
    return f"{size / 2**30:.2f}"


def _signed(amount: int | None, shown: Callable[[int], str]) -> str:
    if not amount:
        return "-"
    return f"- {shown(-amount)}" if amount < 0 else f"  {shown(amount)}"


def _age(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, show_header=bool(columns), header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
