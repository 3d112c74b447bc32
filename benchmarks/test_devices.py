# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

from benchmarks.conftest import Gate
from koord.kernels.devices import (
    Device,
    DeviceTable,
    Fragmentation,
    PodShape,
    Strategy,
    TypicalPods,
)
from koord.kernels.devices_assign import Demand, Scoring, assign
from tests.models import devices as model
from tests.models import devices_assign as assign_model

COUNTS = {PodShape(1000 * (n % 9), 50 + 27 * n, 1): 100 - n for n in range(30)}
GPUS = [random.Random(3).randrange(0, 1001) for _ in range(8)]


def test_fragmentation_of_a_node(gate: Gate) -> None:
    measure = Fragmentation(TypicalPods.count(COUNTS))
    typical = list(measure.typical.frequencies.items())
    gate(
        "devices: fragmentation of 8 GPUs, 29 typical pods",
        lambda: measure.amount(20000, GPUS, "T4"),
        lambda: model.fragment_amount(20000, GPUS, "T4", typical),
        6,
    )


def test_allocate_by_score(gate: Gate) -> None:
    table = DeviceTable(["core", "memory"])
    total = {"core": 100, "memory": 16}
    table.add_row([Device(minor, total) for minor in range(8)])
    devices = {minor: model.DeviceState(total) for minor in range(8)}
    each, weights = {"core": 50, "memory": 4}, {"core": 1, "memory": 1}
    gate(
        "devices: pick 2 of 8 GPUs by score",
        lambda: table.allocate(0, each, 2, strategy=Strategy.MOST_ALLOCATED, weights=weights),
        lambda: model.allocate(
            devices, each, 2, numa_nodes=None, required=None, preferred=set(), preferred_pcies=[],
            labels=(), strategy="MostAllocated", weights=weights,
        ),
        1.5,
    )  # fmt: skip


def test_assign_by_topology(gate: Gate) -> None:
    table = DeviceTable(["core", "memory"])
    total = {"core": 100, "memory": 16}
    table.add_row([Device(minor, total, minor // 4, minor // 2) for minor in range(8)])
    cards = {
        minor: assign_model.Card([100, 16], [0, 0], minor // 4, minor // 2) for minor in range(8)
    }
    machine, ask = assign_model.Machine(cards), assign_model.Ask([100, 0], 2, grouped=True)
    demand, scoring = Demand([100, 0], 2, grouped=True), Scoring(Strategy.MOST_ALLOCATED, [1, 1])
    wish = assign_model.Wish()
    gate(
        "devices: 2 of 8 GPUs by topology",
        lambda: assign(table, 0, demand, None, scoring),
        lambda: assign_model.assign(machine, ask, wish, "MostAllocated", [1, 1]),
        10,
    )
