# SPDX-License-Identifier: Apache-2.0
"""The sums of ``koord explain node``: every total is what the terms above it, as shown, add to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from koord.cli.commands.explain.node_units import CORES, GIB, ZONE_GIB, Unit
from koord.cli.terminal.output import plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Answer = Mapping[str, Any]

BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
RESOURCES = {"cpu": CORES, "memory": GIB}
_ZONE_RESOURCES = {"cpu": CORES, "memory": ZONE_GIB}
# So many zones and what they are together fit into 80 columns.
_ZONES_ABREAST = 4
_BEYOND = "reserved beyond that"
# Each term in words, in the order of the formula; what is not here is told by its own name.
_WORDS = {
    "capacity": "capacity",
    "margin": "kept free for peaks",
    "system": "system",
    "waitingInSystem": "of it, pods counted below",
    "hostApplications": "host applications",
    "reserved": _BEYOND,
    "prodPods": "prod pods",
    "midPods": "mid pods",
    "gonePods": "pods that are gone, still measured",
    "static": "fixed share",
    "reclaimable": "asked for by prod, not going to be used",
    "notIdle": "of it, not idle now",
    "unallocated": "of what nobody asks for",
    "belowZero": "more is taken than there is",
    "notOvercommitted": "not given on",
    "cap": "above the strategy's bound",
    "besideMid": "not there beside mid",
    "besideReserved": "not there beside the reserved",
    "riseBound": "held back: rises by steps",
    "sinceThen": "changed since, worked out shortly",
    "notWritten": "moved too little to be written",
}
_BY = {
    "usage": "by usage",
    "request": "by request",
    "maxUsageRequest": "by the larger",
    "requestRatio": "a share, by request",
    "static": "a fixed share",
    "dynamic": "by prediction",
}


class SumTerm(NamedTuple):
    """A term of a sum: what it is, and the steps of its unit that are shown of it."""

    amount: int
    steps: int


Column = tuple[Unit, Mapping[str, SumTerm]]
"""The terms of a sum by what they are, and in what they are shown."""


def column(unit: Unit, lines: Sequence[Answer], before: int = 0) -> Column:
    """The column of a sum that goes on from an amount."""
    amounts = [line["amount"] for line in lines]
    told = map(SumTerm, amounts, unit.terms(amounts, before))
    return unit, dict(zip((line["what"] for line in lines), told, strict=True))


def batch(answer: Answer) -> Table:
    """From what the machine has to what the node shows as batch resources."""
    return _sum(answer, "batch", BATCH)


def mid(answer: Answer) -> Table:
    """The same for mid resources."""
    return _sum(answer, "mid", MID)


def _sum(answer: Answer, kind: str, names: tuple[str, str]) -> Table:
    """Both resources' terms side by side; a term that one of them lacks is 0 there."""
    pair = answer["account"][kind]
    raw, normalised = (", raw CPU", ", normalised CPU") if is_normalised(answer, kind) else ("", "")
    table = numbers("CPU cores", "memory GiB")
    counts = {group: f"{_WORDS[group]} ({count})" for group, count in _count(pair).items()}
    rows(table, [column(unit, pair[r]["lines"]) for r, unit in RESOURCES.items()], _WORDS | counts)
    offered = [pair[r]["offered"] for r in RESOURCES]
    total(table, f"= {kind}{raw}", RESOURCES.values(), offered)
    parties = {f"party {at}": each for at, each in enumerate(answer["thirdParties"])}
    then = [
        column(unit, list(_applied(answer["applied"][name], parties, r)), before)
        for name, before, (r, unit) in zip(names, offered, RESOURCES.items(), strict=True)
    ]
    if any(terms for _, terms in then):
        words = {"speed": f"times {answer['cpuSpeed']:.2f}, the CPUs' speed"}
        words |= {key: f"held by {each['name']}" for key, each in parties.items()}
        rows(table, then, words | _WORDS)
        shown = [answer["shown"][name] for name in names]
        total(table, f"= shown on the node{normalised}", RESOURCES.values(), shown)
    elif answer["shown"][names[0]] is None:
        total(table, "= shown on the node", RESOURCES.values(), [None, None])
    policies = [_BY.get(p, p) for p in (str(pair[r]["policy"]) for r in RESOURCES)]
    table.add_row(*(Text(text, style="dim") for text in ("  counted", *policies)))
    return table


def is_normalised(answer: Answer, kind: str = "batch") -> bool:
    """Whether the node shows other CPU than its machine has; never for mid."""
    return bool(answer["cpuSpeed"] > 1) and kind == "batch"


def _applied(
    lines: Sequence[Answer], parties: Mapping[str, Answer], resource: str
) -> Iterator[Answer]:
    """What is done to an offer, with a line for each third party."""
    field = "cpuMilli" if resource == "cpu" else "memoryBytes"
    for line in lines:
        if line["what"] == "thirdParties":
            yield from ({"what": key, "amount": -each[field]} for key, each in parties.items())
        else:
            yield line


def _count(pair: Answer) -> dict[str, int]:
    """How many pods there are of each group that has any."""
    found = {(each["pod"], each["group"]) for r in RESOURCES for each in pair[r]["pods"]}
    groups = [group for _, group in found]
    return {group: groups.count(group) for group in _WORDS if group in groups}


def reserved(account: Answer) -> Table | None:
    """What is held back, by whom, and what of it the sum of batch counts; None for nothing.

    The system may use what is reserved: where usage counts, what is reserved is only taken as far
    as it is more than that.
    """
    told = [account["reserved"][r] for r in RESOURCES]
    larger = [max(each["kubelet"], each["annotation"]) for each in told]
    if not any(larger):
        return None
    units = list(RESOURCES.values())
    table = numbers("CPU cores", "memory GiB")
    for field, words in (("kubelet", "by the kubelet"), ("annotation", "by the node's annotation")):
        cells = [unit.show(each[field]) for unit, each in zip(units, told, strict=True)]
        table.add_row(f"  {words}", *cells)
    total(table, "= the larger of both", units, larger)
    counted = [_beyond(account["batch"][r], unit) for r, unit in RESOURCES.items()]
    left = [u.rounded(a) - c for u, a, c in zip(units, larger, counted, strict=True)]
    by_request = [account["batch"][r]["policy"] == "requestRatio" for r in RESOURCES]
    for words, which in (
        ("the system uses as much of it", False),
        ("not counted by request", True),
    ):
        there = [-steps if by is which else 0 for steps, by in zip(left, by_request, strict=True)]
        if any(there):
            cells = [signed(unit, SumTerm(n, n)) for unit, n in zip(units, there, strict=True)]
            table.add_row(f"  {words}", *cells)
    cells = [unit.text(steps) for unit, steps in zip(units, counted, strict=True)]
    _total(table, f"= {_BEYOND}", cells)
    return table


def _beyond(answer: Answer, unit: Unit) -> int:
    _, terms = column(unit, answer["lines"])
    return -terms["reserved"].steps if "reserved" in terms else 0


def zones(account: Answer) -> Iterator[RenderableType]:
    """Batch of each NUMA zone, and of all together, a few zones at a time."""
    there = account["zones"]
    hosts = any(
        line["what"] == "hostApplications"
        for r in RESOURCES
        for line in account["batch"][r]["lines"]
    )
    words = _WORDS | ({"system": "system, host applications"} if hosts else {})
    for resource, unit in _ZONE_RESOURCES.items():
        columns = {
            f"zone {zone['number']}": column(unit, zone[resource]["lines"]) for zone in there
        }
        if len(there) > 1:
            columns["together"] = _together([terms for _, terms in columns.values()], unit)
        names = list(columns)
        for at in range(0, len(there), _ZONES_ABREAST):
            last = at + _ZONES_ABREAST >= len(there)
            abreast = names[at:] if last else names[at : at + _ZONES_ABREAST]
            table = numbers(*abreast, first="CPU cores" if resource == "cpu" else "memory GiB")
            rows(table, [columns[name] for name in abreast], words)
            sums = (sum(term.steps for term in columns[name][1].values()) for name in abreast)
            _total(table, "= batch", [unit.text(each) for each in sums])
            yield table


def _together(parts: Sequence[Mapping[str, SumTerm]], unit: Unit) -> Column:
    found: dict[str, SumTerm] = {}
    for what, term in (item for terms in parts for item in terms.items()):
        so_far = found.get(what, SumTerm(0, 0))
        found[what] = SumTerm(so_far.amount + term.amount, so_far.steps + term.steps)
    return unit, found


# Tables.


def numbers(*columns: str, first: str = "") -> Table:
    """A table of words and numbers."""
    table = plain(first, *columns)
    for each in table.columns[1:]:
        each.justify = "right"
    return table


def plain(*columns: str) -> Table:
    """A table without lines."""
    return plain_table(*columns, header_style="dim")


def rows(table: Table, columns: Sequence[Column], words: Mapping[str, str]) -> None:
    """A row for each term that a column has, in the order of the words."""
    there = {what for _, terms in columns for what in terms}
    for what in [*(each for each in words if each in there), *sorted(there - words.keys())]:
        cells = (signed(unit, terms.get(what)) for unit, terms in columns)
        table.add_row(f"  {words.get(what, what)}", *cells)


def total(table: Table, words: str, units: Iterable[Unit], amounts: Iterable[int | None]) -> None:
    """What the rows above add up to."""
    pairs = zip(units, amounts, strict=True)
    _total(table, words, ["none" if each is None else unit.show(each) for unit, each in pairs])


def _total(table: Table, words: str, cells: Sequence[str]) -> None:
    table.add_row(*(Text(text, style="bold cyan") for text in (words, *cells)))


def signed(unit: Unit, term: SumTerm | None) -> str:
    """A term with its sign; a dash where there is nothing."""
    if term is None or not term.amount:
        return "-"
    text = unit.text(abs(term.steps))
    return f"- {text}" if term.steps < 0 else f"  {text}"
