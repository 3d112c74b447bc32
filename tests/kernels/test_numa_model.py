# SPDX-License-Identifier: Apache-2.0
"""NUMA alignment against its plain model, on random machines and hints."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from koord.kernels import numa
from koord.kernels.numa import Exclusive, Hint, TopologyPolicy, Zones, ZoneStatus
from tests.models import numa as model
from tests.outcomes import KERNEL_ERRORS, refusal

GI = 1 << 30
TWO = Zones([0, 1])


def plain(hint: Hint) -> tuple[object, ...]:
    return (hint.affinity, hint.preferred, hint.unsatisfied, hint.score)


# Cases are made from a seed: drawing every flag and amount would take most of the tests' time.
seeds = st.integers(0, 2**32 - 1).map(random.Random)


def hint_of(rng: random.Random, zones: int, preferred: float) -> Hint:
    # Few values, so that ties, repeated masks and repeated scores are common.
    affinity = rng.choice([None, rng.randrange(1 << zones), rng.randrange(1 << zones)])
    return Hint(affinity, rng.random() < preferred, rng.random() < 0.15, rng.randint(-1, 3))


@dataclass
class Case:
    zones: int
    lists: list[list[Hint]]
    statuses: list[str]
    exclusive: Exclusive

    @property
    def everything(self) -> int:
        return (1 << self.zones) - 1

    def by_zone(self) -> dict[int, ZoneStatus]:
        return {zone: ZoneStatus(status) for zone, status in enumerate(self.statuses)}


def case_of(rng: random.Random) -> Case:
    zones, longest, preferred = rng.randint(1, 4), rng.choice([2, 4, 6]), rng.choice([0.1, 0.6, 1])
    lists = [
        [hint_of(rng, zones, preferred) for _ in range(rng.randint(rng.random() > 0.1, longest))]
        for _ in range(rng.randint(0, 3))
    ]
    statuses = rng.choices(["idle", "shared", "single"], k=zones)
    return Case(zones, lists, statuses, rng.choice([Exclusive.NONE, Exclusive.REQUIRED]))


def modelled(row: list[Hint]) -> list[model.Hint]:
    return [model.Hint(h.affinity, h.preferred, h.unsatisfied, h.score) for h in row]


@given(seeds)
def test_merge_equals_trying_every_combination(rng: random.Random) -> None:
    case = case_of(rng)
    # Masks may name zones that the machine does not have.
    for row in case.lists:
        if row and row[0].affinity and rng.random() < 0.2:
            row[0] = replace(row[0], affinity=row[0].affinity | 1 << 40)
    got = numa.merge(
        Zones(range(case.zones)), case.lists, exclusive=case.exclusive, statuses=case.by_zone()
    )
    want = model.merge(
        case.everything,
        [modelled(row) for row in case.lists],
        case.exclusive == Exclusive.REQUIRED,
        case.statuses,
    )
    assert plain(got) == (want.affinity, want.preferred, want.unsatisfied, want.score)


@given(seeds)
def test_admit_equals_the_model(rng: random.Random) -> None:
    case, policy = case_of(rng), rng.choice(list(TopologyPolicy))
    provider: dict[str, list[Hint] | None] = {}
    provider.update(zip(["memory", "cpu", "example.com/gpu"], case.lists, strict=False))
    if rng.random() < 0.3:
        provider["hugepages-2Mi"] = None
    got = numa.admit(
        policy,
        Zones(range(case.zones)),
        [numa.Provider(provider), numa.Provider()],
        exclusive=case.exclusive,
        statuses=case.by_zone(),
    )
    want, admitted, reasons = model.admit(
        str(policy),
        case.everything,
        [{name: row and modelled(row) for name, row in provider.items()}, {}],
        case.exclusive == Exclusive.REQUIRED,
        case.statuses,
    )
    assert (got.admitted, got.reasons) == (admitted, reasons)
    assert plain(got.hint) == (want.affinity, want.preferred, want.unsatisfied, want.score)


RESOURCES = ("cpu", "memory", "hugepages-2Mi")


def table_of(rng: random.Random, zones: int, lowest: int = 0) -> dict[int, dict[str, int]]:
    def amount() -> int:
        return rng.choice([0, rng.randint(lowest, 9), rng.randint(lowest, 90)])

    return {
        zone: {
            name: amount() * (500 if name == "cpu" else 1)
            for name in RESOURCES
            if rng.random() < 0.8
        }
        for zone in range(zones)
    }


def requests_of(rng: random.Random) -> dict[str, int]:
    names = rng.sample([*RESOURCES, "other"], rng.randint(0, 3))
    return {name: rng.randint(0, 24) * (500 if name == "cpu" else 1) for name in names}


def binding_of(rng: random.Random, zones: int, needed: int) -> model.Binding | None:
    if rng.random() < 0.4:
        return None
    threads = rng.choice([1, 2, 2, 4])
    full_cores, required = rng.random() < 0.5, rng.random() < 0.5
    step = threads if required and full_cores else 1
    bindable = {zone: rng.randint(0, 6) * step for zone in range(zones)}
    return model.Binding(needed, bindable, required, full_cores, threads)


def bound(binding: model.Binding | None) -> numa.CpuBinding | None:
    return binding and numa.CpuBinding(
        binding.needed, binding.bindable, binding.required, binding.full_cores, binding.threads
    )


@given(seeds)
def test_distribution_equals_the_model(rng: random.Random) -> None:
    zones = rng.randint(1, 4)
    free, wanted, binding = table_of(rng, zones), requests_of(rng), binding_of(rng, zones, 4)
    mask = rng.randint(1, (1 << zones) - 1)
    ids = [zone for zone in range(zones) if mask >> zone & 1]
    got = numa.distribute(free, wanted, ids, cpus=bound(binding))
    by_zone, missing = model.distribute(free, wanted, mask, binding)
    assert got.by_zone == by_zone
    assert list(got.insufficient) == missing


@given(seeds)
def test_available_equals_the_model(rng: random.Random) -> None:
    zones = rng.randint(1, 3)
    total, used, back = (table_of(rng, zones, low) for low in (-5, 0, 0))
    used = {zone: row for zone, row in used.items() if rng.random() < 0.7}
    cpus = {zone: rng.randint(0, 9) for zone in range(zones)}
    ratio = rng.choice([0.0, 1.0, 1.01, 1.5, math.pi])
    got = numa.available(total, used, reusable=back, bound_cpus=cpus, cpu_ratio=ratio)
    assert got == model.available(total, used, back, cpus, ratio)


@given(seeds)
def test_hints_equal_a_trial_allocation_per_mask(rng: random.Random) -> None:
    zones = rng.randint(1, 4)
    total, free, wanted = table_of(rng, zones, -1), table_of(rng, zones), requests_of(rng)
    needed = wanted.get("cpu", 2000) // 1000
    pools = [
        (rng.choice([free, table_of(rng, zones)]), binding_of(rng, zones, needed))
        for _ in range(rng.randint(1, 2))
    ]
    weights = {"cpu": 1, "memory": 2, "hugepages-2Mi": 1}
    policy = rng.choice(list(TopologyPolicy))
    strategy = rng.choice(list(numa.Strategy))
    got = numa.generate_hints(
        total,
        free,
        wanted,
        policy,
        pools=[numa.Pool(table, bound(binding)) for table, binding in pools],
        scorer=numa.Scorer(strategy, weights),
    )
    most = strategy == numa.Strategy.MOST_ALLOCATED
    restricted = policy == TopologyPolicy.RESTRICTED
    want = model.generate_hints(total, free, wanted, pools, (most, weights), restricted)
    assert {name: [plain(h) for h in row] for name, row in got.items()} == {
        name: [(h.affinity, h.preferred, h.unsatisfied, h.score) for h in row]
        for name, row in want.items()
    }


def wild(rng: random.Random) -> int:
    return rng.choice([0, rng.randint(-3, 70), rng.randint(-(2**40), 2**40), rng.getrandbits(70)])


@given(seeds)
def test_tables_fuzzed(rng: random.Random) -> None:
    def row() -> dict[str, int]:
        return {name: wild(rng) for name in RESOURCES if rng.random() < 0.6}

    zone = (lambda: wild(rng)) if rng.random() < 0.3 else (lambda: rng.randint(0, 5))
    table, wanted = {zone(): row() for _ in range(rng.randint(0, 4))}, row()
    for call in (
        lambda: numa.available(table, table),
        lambda: numa.distribute(table, wanted, list(table)),
        lambda: numa.generate_hints(
            table, table, wanted, TopologyPolicy.RESTRICTED, scorer=numa.Scorer()
        ),
    ):
        refusal(call, errors=KERNEL_ERRORS)
