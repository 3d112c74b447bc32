# SPDX-License-Identifier: Apache-2.0
"""``koord explain node``: what stands on the screen adds up on the screen."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, Group

from koord.api.kinds.node import Node
from koord.api.protocol import keys
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.cli.commands.explain.node_sums import BATCH, MID
from koord.cli.commands.explain.node_text import page
from koord.cli.commands.explain.node_units import CORES, GIB, Unit
from koord.controllers.manager.noderesource.explain import explain
from koord.controllers.manager.overcommit.explain.recent_offers import OfferHistory
from koord.kernels.quantity import Quantity
from tests.controllers.manager.overcommit import objects
from tests.controllers.manager.overcommit.cases import GIB as BYTES
from tests.controllers.manager.overcommit.cases import nodes, pairs
from tests.controllers.manager.overcommit.test_examples import NODE, cores, saying
from tests.models import noderesource as shown_model
from tests.models import overcommit as model

COLUMNS = 80
Numbers = list[Decimal | None]
Row = tuple[str, Numbers]

# How far what a node shows lags behind, the CPUs' speed, and what another scheduler holds.
lags = st.one_of(st.none(), st.tuples(st.integers(-900, 900), st.integers(-BYTES, BYTES)))
speeds = st.sampled_from([None, "0.80", "1.00", "1.20", "1.37"])
parties = st.lists(pairs, max_size=2)


def answer(
    case: model.Node,
    lag: model.Pair | None = (0, 0),
    speed: str | None = None,
    held: tuple[model.Pair, ...] = (),
) -> Any:
    """What the manager says of a node that shows what it is to show, but for a lag."""
    ledger = objects.ledger(case)
    node = objects.node(case)
    annotations = node.metadata.annotations
    entries = [
        {"name": f"yarn-{at}", "priority": "koord-batch",
         "resources": {BATCH[0]: str(cpu), BATCH[1]: str(memory)}}
        for at, (cpu, memory) in enumerate(held)
    ]  # fmt: skip
    annotations[keys.THIRD_PARTY_ALLOCATIONS] = json.dumps({"allocations": entries})
    if speed is not None:
        annotations[keys.CPU_NORMALIZATION_RATIO] = speed
    batch, mid = objects.offered(ledger, "batch"), objects.offered(ledger, "mid")
    if lag is not None and batch is not None and mid is not None:
        entries_of = [("koord-batch", cpu, memory) for cpu, memory in held]
        wanted, _ = shown_model.batch(batch, float(speed or 1), entries_of)
        assert wanted is not None
        _show(node, BATCH, wanted, lag)
        _show(node, MID, mid, lag)
    found = explain(
        ledger, OfferHistory(), node, objects.metric(case), ColocationStrategy(), objects.NOW + 30
    )
    return msgspec.json.decode(msgspec.json.encode(found))


def _show(node: Node, names: tuple[str, str], wanted: model.Pair, lag: model.Pair) -> None:
    for name, amount, late in zip(names, wanted, lag, strict=True):
        node.status.allocatable[name] = Quantity.from_value(max(0, amount + late))


def text(told: Any) -> str:
    console = Console(file=io.StringIO(), width=1000)
    console.print(Group(*page(told)), soft_wrap=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def sections(screen: str) -> dict[str, list[str]]:
    """The lines below each heading; a heading follows an empty line."""
    found: dict[str, list[str]] = {}
    parts = screen.split("\n\n")
    for part in parts[1:]:
        first, *rest = part.splitlines()
        found[first.split(",")[0]] = [line.rstrip() for line in rest]
    return found


def number(cell: str) -> Decimal | None:
    if cell == "none":
        return None
    return Decimal(0) if cell == "-" else Decimal(cell.replace(" ", ""))


def rows(lines: list[str]) -> Iterator[Row]:
    """The rows of tables of numbers: words, and a number a column."""
    for line in lines:
        words, *cells = re.split(r" {2,}", line.strip())
        # Headings stand as far to the right as the widest words below need.
        is_heading = words.startswith(("CPU cores", "memory GiB")) or line.startswith(" " * 20)
        if not is_heading and words != "counted":
            yield words, [number(cell) for cell in cells]


def adds_up(found: list[Row]) -> None:
    """Each total is what the terms since the first row are together; none where nothing is."""
    so_far: list[Decimal] = []
    for words, numbers in found:
        so_far = so_far or [Decimal(0)] * len(numbers)
        if not words.startswith("= "):
            so_far = [a + (b or 0) for a, b in zip(so_far, numbers, strict=True)]
            continue
        for total, told in zip(so_far, numbers, strict=True):
            assert told is None or told == total, (words, found)


def tables(lines: list[str]) -> list[list[Row]]:
    """One a table, where several stand below each other: each has a line of headings."""
    found: list[list[str]] = []
    for line in lines:
        if line.startswith(("CPU cores ", "memory GiB ")):
            found.append([])
        found[-1].append(line)
    return [list(rows(table)) for table in found]


def of_group(found: list[Row], group: str) -> Numbers:
    return next((numbers for words, numbers in found if words.startswith(f"{group} pods")), [])


@given(case=nodes(), lag=lags, speed=speeds, held=parties)
def test_every_total_is_the_sum_of_the_terms_shown(
    case: model.Node, lag: model.Pair | None, speed: str | None, held: list[model.Pair]
) -> None:
    told = answer(case, lag, speed, tuple(held))
    screen = sections(text(told))
    if told["account"]["batch"] is None:
        assert "batch" not in screen
        return
    for name in ("batch", "mid"):
        adds_up(list(rows(screen[name])))
    _reserved_is_the_larger(screen, told["account"])
    _zones_add_up_both_ways(screen, len(case.zones))
    _pods_add_up_to_their_group(screen)
    _usage_adds_up(screen)
    for name in ("batch", "mid", "reserved", "usage as the agent reports it"):
        assert all(len(line) <= COLUMNS for line in screen.get(name, []))


def _reserved_is_the_larger(screen: dict[str, list[str]], account: Any) -> None:
    if "reserved" not in screen:
        assert not any(each for of in account["reserved"].values() for each in of.values())
        return
    kubelet, annotation, larger, *rest = (
        (words, [each or Decimal(0) for each in numbers])
        for words, numbers in rows(screen["reserved"])
    )
    pairs_of = zip(kubelet[1], annotation[1], strict=True)
    assert larger == ("= the larger of both", [max(pair) for pair in pairs_of])
    adds_up([("", larger[1]), *rest])
    counted = [n for words, n in rows(screen["batch"]) if words == "reserved beyond that"]
    assert rest[-1][1] == [-(each or 0) for each in (counted or [[Decimal(0)] * 2])[0]]


def _zones_add_up_both_ways(screen: dict[str, list[str]], count: int) -> None:
    assert ("batch by NUMA zone" in screen) == bool(count)
    for table in tables(screen.get("batch by NUMA zone", [])):
        adds_up(table)
        for words, numbers in table:
            assert len(numbers) == (count + 1 if count > 1 else count)
            if count > 1:
                *each, together = (n or Decimal(0) for n in numbers)
                assert sum(each) == together, words
    assert all(len(line) <= COLUMNS for line in screen.get("batch by NUMA zone", []))


def _pods_add_up_to_their_group(screen: dict[str, list[str]]) -> None:
    taken: dict[str, list[Decimal]] = {}
    for line in screen["pods that count"][1:]:
        cells = re.split(r" {2,}", line)
        group, cpu, memory = cells[1], cells[2], next(c for c in cells[3:] if re.match("[0-9-]", c))
        so_far = taken.setdefault(group, [Decimal(0)] * 2)
        for at, cell in enumerate((cpu, memory)):
            so_far[at] += number(cell) or 0
    batch = list(rows(screen["batch"]))
    for group in ("prod", "mid"):
        told = of_group(batch, group) or [Decimal(0)] * 2
        assert taken.get(group, [Decimal(0)] * 2) == [-(each or 0) for each in told]


def _usage_adds_up(screen: dict[str, list[str]]) -> None:
    so_far = [Decimal(0)] * 2
    for line in screen["usage as the agent reports it"][1:]:
        cells = re.split(r" {2,}", line.strip())
        values = [Decimal(each) for each in cells[-2:]]
        if cells[0] == "= the node":
            assert values == so_far
        so_far = [a + b for a, b in zip(so_far, values, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 12])
def test_a_machine_of_many_zones_stays_within_the_screen(count: int) -> None:
    zones = [model.Zone(n, (16_000, 64 * BYTES + n), (123, 456)) for n in range(count)]
    screen = sections(text(answer(replace(NODE, zones=zones))))
    lines = screen["batch by NUMA zone"]
    assert all(len(line) <= COLUMNS for line in lines)
    headings = " ".join(line[10:] for line in lines if line.startswith("CPU cores"))
    assert headings.split() == [
        *(word for n in range(count) for word in ("zone", str(n))),
        *(["together"] if count > 1 else []),
    ]


def test_what_the_kubelet_and_the_annotation_reserve_is_told_apart() -> None:
    case = replace(
        NODE, allocatable=(96_000, NODE.capacity[1] - 30 * BYTES), reserved=(9_000, 0),
        strategy=saying(memoryCalculatePolicy="requestRatio"),
    )  # fmt: skip
    screen = sections(text(answer(case)))
    told = [(words, [str(each) for each in numbers]) for words, numbers in rows(screen["reserved"])]
    assert told == [
        ("by the kubelet", ["4", "30.00"]),
        ("by the node's annotation", ["9", "0.00"]),
        ("= the larger of both", ["9", "30.00"]),
        ("the system uses as much of it", ["-7", "0"]),
        ("not counted by request", ["0", "-30.00"]),
        ("= reserved beyond that", ["2", "0.00"]),
    ]


def test_raw_and_normalised_cpu_are_told_apart() -> None:
    told = answer(NODE, (50, 0), "1.20", ((2_000, BYTES), (0, BYTES)))
    screen = text(told)
    assert screen.splitlines()[2].startswith("CPU times 1.20: normalised is")
    sums = {words: numbers[0] for words, numbers in rows(sections(screen)["batch"])}
    *_, raw, speed, yarn, other, lag, shown = sums.items()
    assert (raw, speed) == (("= batch, raw CPU", 25), ("times 1.20, the CPUs' speed", 5))
    assert (yarn, other) == (("held by yarn-0", -2), ("held by yarn-1", 0))
    assert lag == ("moved too little to be written", Decimal("0.05"))
    assert shown == ("= shown on the node, normalised CPU", Decimal("28.05"))
    plain = text(answer(NODE, (0, 0), "1.00"))
    assert "raw" not in plain
    assert "normalised" not in plain
    assert "shown on the node" not in plain


def test_what_is_not_on_the_node_yet() -> None:
    screen = sections(text(answer(NODE, None)))
    assert list(rows(screen["batch"]))[-1] == ("= shown on the node", [None, None])


def test_third_parties_may_hold_more_than_there_is() -> None:
    screen = sections(text(answer(NODE, held=(cores(40, 0),))))
    *_, held, below, shown = rows(screen["batch"])
    assert held[1][0] == -40
    assert below == ("more is taken than there is", [15, 0])
    assert shown[1][0] == 0


@given(amounts=st.lists(st.integers(-(2**50), 2**50)), before=st.integers(-(2**50), 2**50))
def test_rounding_does_not_add_up(amounts: list[int], before: int) -> None:
    unit: Unit
    for unit in (CORES, GIB):
        steps = unit.terms(amounts, before)
        whole = before + sum(amounts)
        assert unit.rounded(before) + sum(steps) == unit.rounded(whole)
        assert abs(unit.rounded(whole) * unit.size - whole * unit.steps) * 2 <= unit.size
        for amount, shown in zip(amounts, steps, strict=True):
            assert abs(shown * unit.size - amount * unit.steps) <= unit.size
