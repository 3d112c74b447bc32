# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.devices import Device, DeviceTable, Strategy, mask, minors
from koord.kernels.devices_assign import (
    Demand,
    Offer,
    Partition,
    PartitionTable,
    Refusal,
    Scope,
    Scoring,
    assign,
    assign_rows,
    offered_score,
    score_rows,
    set_partitions,
)
from tests.models import devices_assign as model

RESOURCES = ["core", "memory"]
WHOLE = [100, 0]


def machine(*, busy: dict[int, int] | None = None, numas: int = 2) -> DeviceTable:
    """Eight GPUs on two NUMA nodes and four PCIe roots."""
    table = DeviceTable(RESOURCES)
    table.add_row([
        Device(minor, {"core": 100, "memory": 16}, minor * numas // 8, minor // 2)
        for minor in range(8)
    ])  # fmt: skip
    for minor, core in (busy or {}).items():
        table.charge(0, minor, {"core": core})
    return table


def linked(table: DeviceTable, *, honour: bool = False) -> DeviceTable:
    """With the partitions of eight GPUs that are all linked."""
    sizes = (1, 2, 4, 8)
    parts = [
        Partition(mask(range(start, start + size)), 1)
        for size in sizes
        for start in range(0, 8, size)
    ]
    set_partitions(table, 0, PartitionTable(parts), honour=honour)
    return table


def gpus(count: int = 1, core: int = 100, **more) -> Demand:
    return Demand([core, 0], count, grouped=True, shared=core < 100, **more)


def picked(table: DeviceTable, demand: Demand, offer: Offer | None = None) -> list[int] | Refusal:
    refusal, word = assign(table, 0, demand, offer)
    return minors(word) if refusal is Refusal.NONE else refusal


# docs/reference/devices.md#gpu-topology: two NUMA nodes of two PCIe roots of two GPUs, minor 5 in
# use.
def test_the_topology_example() -> None:
    table = machine(busy={5: 50})
    assert picked(table, gpus(1)) == [4]
    assert picked(table, gpus(2)) == [6, 7]


@pytest.mark.parametrize(
    ("busy", "count", "want"),
    [
        ({}, 1, [0]),
        ({0: 100}, 1, [1]),
        ({0: 100}, 2, [2, 3]),
        ({0: 100, 2: 100}, 2, [4, 5]),
        ({0: 100, 4: 100}, 4, Refusal.PARTITIONS_TAKEN),
        ({4: 100}, 4, [0, 1, 2, 3]),
        ({}, 3, Refusal.NO_PARTITION_SIZE),
    ],
)
def test_partitions_that_keep_the_large_ones_whole(busy, count: int, want) -> None:
    assert picked(linked(machine(busy=busy), honour=True), gpus(count)) == want
    assert picked(linked(machine(busy=busy)), gpus(count, honour_partition=True)) == want


def test_a_partition_that_need_not_be_is_taken_where_there_is_one() -> None:
    table = linked(machine(busy={0: 100, 2: 100, 4: 100, 6: 100}))
    assert picked(table, gpus(2)) == [1, 3]  # by topology: no partition of two is whole
    assert picked(machine(), gpus(1, honour_partition=True)) == Refusal.NO_PARTITIONS


def test_the_best_linked_partition_wins_and_restricted_looks_at_no_other() -> None:
    table = machine(busy={4: 100})
    parts = [Partition(0b11, 1, 100), Partition(0b110000, 7, 300), Partition(0b1100, 7)]
    set_partitions(table, 0, PartitionTable(parts), honour=True)
    assert picked(table, gpus(2)) == [2, 3]
    assert picked(table, gpus(2, bandwidth_bps=50)) == [0, 1]
    assert picked(table, gpus(2, bandwidth_bps=200)) == Refusal.PARTITIONS_TAKEN
    table.charge(0, 2, {"core": 1})
    assert picked(table, gpus(2)) == [0, 1]
    assert picked(table, gpus(2, best_partition_only=True)) == Refusal.PARTITIONS_TAKEN


@pytest.mark.parametrize(
    ("scope", "count", "want"),
    [
        (Scope.PCIE, 2, [0, 1]),
        (Scope.PCIE, 3, Refusal.SCOPES_TAKEN),
        (Scope.NUMA_NODE, 3, [0, 1, 2]),
        (Scope.NUMA_NODE, 5, Refusal.SCOPES_TAKEN),
        (Scope.NODE, 8, list(range(8))),
        (Scope.DEVICE, 1, [0]),
        (Scope.DEVICE, 2, Refusal.SCOPES_TAKEN),
    ],
)
def test_required_scopes(scope: Scope, count: int, want) -> None:
    assert picked(machine(), gpus(count, scope=scope)) == want


def test_what_scopes_cannot_do() -> None:
    unknown = DeviceTable(RESOURCES)
    unknown.add_row([Device(0, {"core": 100}, -2), Device(1, {"core": 100}, 0)])
    assert picked(unknown, gpus(1, scope=Scope.NODE)) == Refusal.NO_TOPOLOGY
    assert picked(unknown, gpus(1)) == [0]
    shares = gpus(2, 50, scope=Scope.NUMA_NODE)
    assert picked(machine(), shares) == Refusal.MANY_SHARES
    assert picked(machine(), gpus(2, 50)) == [0, 1]


# docs/reference/devices.md#gpu-topology: by real use, not only idle or used.
def test_shares_are_packed_by_real_use() -> None:
    table = machine(busy={0: 20, 1: 60})
    for strategy, want in ((Strategy.MOST_ALLOCATED, 0b10), (Strategy.LEAST_ALLOCATED, 0b1)):
        scoring = Scoring(strategy, [1, 0])
        assert assign(table, 0, gpus(1, 30), None, scoring) == (Refusal.NONE, want)


def test_offers_give_back_and_keep_back() -> None:
    table = machine(busy=dict.fromkeys(range(8), 100))
    assert picked(table, gpus(1)) == Refusal.GROUPS_TAKEN
    assert picked(table, gpus(1), Offer(returned=[(6, [100, 0])])) == [6]
    capped = Offer(returned=[(6, [100, 0])], caps=[(6, [50, 16])])
    assert picked(table, gpus(1), capped) == Refusal.GROUPS_TAKEN
    assert picked(table, gpus(1, 50), capped) == [6]
    assert picked(machine(), gpus(2), Offer(preferred=0b1010000)) == [4, 6]
    assert picked(machine(), gpus(1), Offer(numa_nodes=0b10)) == [4]


def test_a_whole_pcie_root() -> None:
    table = machine(busy={0: 1, 2: 1, 4: 1})
    assert picked(table, gpus(1, 50, whole_pcie=True)) == [6]
    assert picked(table, gpus(1, 50)) == [0]


def test_devices_in_turn_over_pcie_roots() -> None:
    nics = Demand([1, 0], 1)
    assert picked(machine(), nics, Offer(preferred_pcies=[1, 3])) == [2, 6]


def test_scores_of_what_is_offered() -> None:
    table = machine(busy={0: 100, 1: 100})
    scoring = Scoring(Strategy.MOST_ALLOCATED, [1, 0])
    assert score_rows(table, np.array([0]), gpus(1), scoring).tolist() == [300 * 100 // 800]
    assert offered_score(table, 0, gpus(1), Offer(allowed=0b11), scoring) == 100
    assert offered_score(table, 0, gpus(1), Offer(returned=[(0, [100, 0])]), scoring) == 25


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda t: assign(t, 3, gpus()), KeyError, "a row of the table"),
        (lambda t: assign(t, 0, Demand([1])), ValueError, "2, one a resource"),
        (lambda t: assign(t, 0, Demand([1, 1], 0)), ValueError, "1 to 64"),
        (lambda t: assign(t, 0, gpus(), Offer(returned=[(64, [0, 0])])), ValueError, "0 to 63"),
        (lambda t: assign(t, 0, gpus(), Offer(caps=[(0, [-1, 0])])), ValueError, "0 to 2"),
        (lambda t: assign_rows(t, np.array([-1]), gpus()), KeyError, "a row of the table"),
        (lambda t: PartitionTable([Partition(0)]), ValueError, "one or more"),
        (lambda t: PartitionTable([Partition(1, -1)]), ValueError, ">= 0"),
        (lambda t: t.charge(0, 64, {}), ValueError, "0 to 63"),
        (lambda t: t.discharge(0, 0, {"core": 1}), ValueError, "at most what is used"),
        (lambda t: t.discharge(0, 60, {"core": 0}), ValueError, "a minor that is charged"),
    ],
)
def test_bad_input_is_named(act, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        act(machine())


amounts = st.tuples(st.sampled_from([0, 50, 100]), st.sampled_from([0, 8, 16])).map(list)
in_use = st.one_of(
    st.just([0, 0]), st.tuples(st.sampled_from([0, 30, 50, 100]), st.integers(0, 16)).map(list)
)
cards = st.lists(
    st.builds(
        model.Card,
        total=st.one_of(st.just([100, 16]), amounts),
        used=in_use,
        numa=st.sampled_from([0, 0, 0, 1, 1, -1, -2]),
        pcie=st.integers(0, 2),
    ),
    min_size=1,
    max_size=8,
).map(lambda found: dict(enumerate(found)))
known_cards = cards.map(
    lambda found: {m: model.Card(c.total, c.used, max(c.numa, 0), c.pcie) for m, c in found.items()}
)
minor_sets = st.sets(st.integers(0, 7))
parts = st.builds(
    model.Part,
    minors=st.sets(st.integers(0, 7), min_size=1, max_size=4),
    score=st.integers(0, 2),
    bandwidth=st.none() | st.sampled_from([100, 200]),
)
machines = st.builds(
    model.Machine,
    cards=cards | known_cards,
    partitions=st.none() | st.lists(parts, max_size=8),
    honour=st.booleans(),
)
asks = st.builds(
    model.Ask,
    each=st.tuples(st.sampled_from([0, 20, 50, 100, 100]), st.sampled_from([0, 4])).map(list),
    count=st.integers(1, 4),
    grouped=st.booleans(),
    shared=st.booleans(),
    scope=st.sampled_from([Scope.ANY, Scope.ANY, *Scope]),
    honour=st.booleans(),
    best_only=st.booleans(),
    bandwidth=st.sampled_from([0, 0, 150]),
    whole_pcie=st.sampled_from([False, False, True]),
)
holdings = st.dictionaries(st.integers(0, 7), amounts, max_size=3)
wishes = st.builds(
    model.Wish,
    numa_nodes=st.none() | st.sets(st.integers(0, 1), min_size=1),
    allowed=st.none() | minor_sets,
    preferred=st.just(set()) | minor_sets,
    pcies=st.just([]) | st.lists(st.integers(0, 2), unique=True),
    returned=st.just({}) | holdings,
    caps=st.none() | holdings,
)


def table_of(modelled: model.Machine) -> DeviceTable:
    table = DeviceTable(RESOURCES)
    table.add_row([
        Device(minor, dict(zip(RESOURCES, card.total, strict=True)), card.numa, card.pcie)
        for minor, card in modelled.cards.items()
    ])  # fmt: skip
    for minor, card in modelled.cards.items():
        table.charge(0, minor, dict(zip(RESOURCES, card.used, strict=True)))
    if modelled.partitions is not None:
        found = [Partition(mask(p.minors), p.score, p.bandwidth) for p in modelled.partitions]
        set_partitions(table, 0, PartitionTable(found), honour=modelled.honour)
    else:
        set_partitions(table, 0, None, honour=modelled.honour)
    return table


def demand_of(ask: model.Ask) -> Demand:
    return Demand(
        ask.each, ask.count, grouped=ask.grouped, shared=ask.shared, scope=ask.scope,
        honour_partition=ask.honour, best_partition_only=ask.best_only,
        bandwidth_bps=ask.bandwidth, whole_pcie=ask.whole_pcie,
    )  # fmt: skip


def offer_of(wish: model.Wish) -> Offer:
    return Offer(
        None if wish.numa_nodes is None else mask(wish.numa_nodes),
        None if wish.allowed is None else mask(wish.allowed),
        mask(wish.preferred),
        wish.pcies,
        list(wish.returned.items()),
        None if wish.caps is None else list(wish.caps.items()),
    )


@given(machines, asks, wishes, st.sampled_from(list(Strategy)))
def test_assignments_are_the_model_s(
    modelled: model.Machine, ask: model.Ask, wish: model.Wish, strategy: Strategy
) -> None:
    want, chosen = model.assign(modelled, ask, wish, strategy.value, [2, 1])
    scoring = Scoring(strategy, [2, 1])
    got = assign(table_of(modelled), 0, demand_of(ask), offer_of(wish), scoring)
    assert got == (want, mask(chosen))


@given(machines, asks)
def test_many_rows_are_refused_as_each_one_is(modelled: model.Machine, ask: model.Ask) -> None:
    table = table_of(modelled)
    refusal, _ = assign(table, 0, demand_of(ask))
    assert assign_rows(table, np.array([0, 0]), demand_of(ask)).tolist() == [refusal, refusal]
