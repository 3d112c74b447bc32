# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koord.kernels.devices import (
    FRAGMENT_CLASSES,
    Choice,
    Constraints,
    Device,
    DeviceTable,
    Fragmentation,
    PodShape,
    Strategy,
    TypicalPods,
    complete_memory,
    gradient_score,
)
from tests.models import devices as model

RESOURCES = ["core", "memory"]
IDLE = [Device(minor, {"core": 100, "memory": 16}) for minor in range(8)]

EXAMPLE_PODS = {
    PodShape(2000, 500, 1): 0.4,
    PodShape(4000, 1000, 1): 0.3,
    PodShape(6000, 1000, 2): 0.1,
    PodShape(1000): 0.2,
}


def table_of(devices: list[Device]) -> DeviceTable:
    table = DeviceTable(RESOURCES)
    table.add_row(devices)
    return table


# Koordinator's allocation order: 8 idle GPUs and a request for one or for half a GPU.
def test_without_a_strategy_the_lowest_minor_is_taken() -> None:
    assert table_of(IDLE).allocate(0, {"core": 100}) == [0]


def test_least_allocated_spreads_and_most_allocated_packs() -> None:
    table = table_of(IDLE)
    table.take(0, [0], {"core": 50})
    assert table.allocate(0, {"core": 50}, strategy=Strategy.LEAST_ALLOCATED) == [1]
    assert table.allocate(0, {"core": 50}, strategy=Strategy.MOST_ALLOCATED) == [0]


@pytest.mark.parametrize(
    ("constraints", "want"),
    [
        (Constraints(preferred=[5]), [0, 5]),
        (Constraints(required=[3, 6]), [3, 6]),
        (Constraints(required=[3]), None),
        (Constraints(numa_nodes=[1]), [4, 5]),
        (Constraints(labels=["zone=b"]), [1, 3]),
        (Constraints(preferred_pcies=[3, 1]), [2, 6]),
        (Constraints(preferred_pcies=[3, 1, 2]), [2, 4, 6]),
    ],
)
def test_constraints_narrow_and_order(constraints: Constraints, want: list[int] | None) -> None:
    devices = [
        replace(device, numa_node=minor // 4, pcie=minor // 2, labels=[f"zone={'ab'[minor % 2]}"])
        for minor, device in enumerate(IDLE)
    ]
    assert table_of(devices).allocate(0, {"core": 100}, 2, constraints) == want


def test_choice_by_what_is_left() -> None:
    table = table_of(IDLE[:4])
    for minor, used in enumerate([0, 60, 20, 60]):
        table.take(0, [minor], {"core": used})
    assert table.choose(0, {"core": 30}, choice=Choice.FIRST) == [0]
    assert table.choose(0, {"core": 30}, choice=Choice.BEST) == [1]
    assert table.choose(0, {"core": 30}, choice=Choice.WORST) == [0]
    assert table.choose(0, {"core": 50}, 3) is None
    seen = {table.choose(0, {"core": 30}, choice=Choice.RANDOM, seed=seed)[0] for seed in range(50)}
    assert seen == {0, 1, 2, 3}


def test_whole_devices_are_taken_lowest_first_whatever_the_choice() -> None:
    table = table_of(IDLE)
    table.take(0, [0], {"core": 10})
    for choice in Choice:
        assert table.choose(0, {"core": 100}, 2, choice=choice, seed=3) == [1, 2]


def test_an_update_keeps_what_is_used() -> None:
    table = table_of(IDLE[:2])
    table.take(0, [0, 1], {"core": 70, "memory": 4})
    table.update_row(0, [replace(IDLE[0], healthy=False), Device(9, {"core": 50})])
    assert table.total(0, "core") == [0] * 9 + [50]
    assert table.used(0, "core") == [70, 70] + [0] * 8
    assert table.free(0, "core") == [0] * 9 + [50]
    table.update_row(0, IDLE)
    assert table.free(0, "core")[:3] == [30, 30, 100]
    table.give_back(0, [0, 1], {"core": 70, "memory": 4})
    assert table.idle(0) == list(range(8))


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda t: t.add_row([Device(64, {})]), ValueError, "got '64', expected 0 to 63"),
        (lambda t: t.add_row([Device(1, {}), Device(1, {})]), ValueError, "each minor once"),
        (lambda t: t.add_row([Device(0, {"core": -1})]), ValueError, r"got '-1', expected 0 to 2"),
        (lambda t: t.add_row([Device(0, {"x": 1})]), KeyError, "one of core, memory"),
        (lambda t: t.take(0, [0], {"core": 101}), ValueError, "minors with enough free"),
        (lambda t: t.take(0, [60], {"core": 1}), ValueError, "minors of the node"),
        (lambda t: t.give_back(0, [0], {"core": 1}), ValueError, "at most what is used"),
        (lambda t: t.take(0, [64], {"core": 1}), ValueError, "got 64, expected 0 to 63"),
        (lambda t: t.choose(0, {"core": 1}, 0), ValueError, "got '0', expected 1 to 64"),
        (lambda t: t.free(7, "core"), KeyError, "a row of the table"),
        (lambda t: DeviceTable([]), ValueError, "1 to 8 names"),
        (lambda t: complete_memory(0, percent=1), ValueError, "card memory: got '0'"),
        (lambda t: complete_memory(9, percent=101), ValueError, "gpu memory: got"),
    ],
)
def test_bad_input_is_named(act, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        act(table_of(IDLE))


device = st.builds(
    model.DeviceState,
    total=st.fixed_dictionaries(
        {"core": st.sampled_from([0, 50, 100]), "memory": st.sampled_from([0, 8, 16])}
    ),
    used=st.fixed_dictionaries({"core": st.integers(0, 100), "memory": st.integers(0, 16)}),
    numa_node=st.integers(-1, 2),
    pcie=st.integers(-1, 3),
    labels=st.sampled_from([(), ("a=1",), ("a=1", "b=2")]),
)


def native_table(devices: dict[int, model.DeviceState]) -> DeviceTable:
    """The model's devices, used as the model says (clipped to what there is)."""
    table = DeviceTable(RESOURCES)
    table.add_row([
        Device(minor, state.total, state.numa_node, state.pcie, state.labels)
        for minor, state in devices.items()
    ])  # fmt: skip
    for minor, state in devices.items():
        state.used = {name: min(state.used[name], state.total[name]) for name in RESOURCES}
        if any(state.total.values()):
            table.take(0, [minor], state.used)
    return table


@given(
    st.dictionaries(st.integers(0, 11), device, max_size=8),
    st.fixed_dictionaries({"core": st.integers(0, 100), "memory": st.integers(0, 16)}),
    st.integers(1, 3),
    st.none() | st.sets(st.integers(0, 2)),
    st.none() | st.sets(st.integers(0, 11)),
    st.sets(st.integers(0, 11), max_size=3),
    st.lists(st.integers(0, 3), unique=True, max_size=3),
    st.sampled_from([(), ("a=1",)]),
    st.sampled_from(list(Strategy)),
    st.fixed_dictionaries({"core": st.integers(0, 3), "memory": st.integers(0, 3)}),
)
def test_allocation_is_the_models(
    devices, each, count, numa, required, preferred, pcies, labels, strategy, weights
) -> None:
    table = native_table(devices)
    want = model.allocate(
        devices, each, count, numa_nodes=numa, required=required, preferred=preferred,
        preferred_pcies=pcies, labels=labels, strategy=strategy.value, weights=weights,
    )  # fmt: skip
    constraints = Constraints(numa, required, preferred, pcies, labels)
    assert table.allocate(0, each, count, constraints, strategy, weights) == (want or None)


@pytest.mark.parametrize(
    ("card", "asked", "want"),
    [
        (16 << 30, {"percent": 50}, (8 << 30, 50)),
        (16 << 30, {"size_bytes": 8 << 30}, (8 << 30, 50)),
        (100, {"size_bytes": 29}, (29, 28)),  # 0.29 * 100 falls short in double
    ],
)
def test_memory_is_completed_from_the_card(
    card: int, asked: dict[str, int], want: tuple[int, int]
) -> None:
    assert complete_memory(card, **asked) == want


class TakeAndGiveBack(RuleBasedStateMachine):
    """Every take has an exact inverse, and nothing is given twice."""

    @initialize()
    def start(self) -> None:
        self.table = table_of(IDLE[:3])
        self.held: list[tuple[list[int], dict[str, int]]] = []

    @rule(
        minors=st.sets(st.integers(0, 2), min_size=1),
        core=st.integers(0, 60),
        memory=st.integers(0, 8),
    )
    def take(self, minors: set[int], core: int, memory: int) -> None:
        each = {"core": core, "memory": memory}
        free = [min(self.table.free(0, name)[m] for m in minors) for name in RESOURCES]
        if core <= free[0] and memory <= free[1]:
            self.table.take(0, minors, each)
            self.held.append((sorted(minors), each))
        else:
            with pytest.raises(ValueError, match="enough free"):
                self.table.take(0, minors, each)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.held) - 1))
        self.table.give_back(0, *self.held.pop(index))

    @invariant()
    def used_is_what_is_held(self) -> None:
        for name in RESOURCES:
            want = [sum(each[name] for minors, each in self.held if m in minors) for m in range(3)]
            assert self.table.used(0, name) == want
            total = self.table.total(0, name)
            assert self.table.free(0, name) == [t - u for t, u in zip(total, want, strict=True)]


TestTakeAndGiveBack = TakeAndGiveBack.TestCase
TestTakeAndGiveBack.settings = settings(stateful_step_count=15)


@pytest.mark.parametrize(
    ("cpu", "gpus", "want"),
    [
        (16000, [1000, 1000], 400),
        (14000, [500, 1000], 600),
        (14000, [0, 1000], 300),
        (14000, [500, 500], 600),
        (14000, [500, 0], 300),
        (14000, [600, 700], 780),
        (7000, [1000, 1000], 400),
        (4000, [1000, 1000], 600),
        (16000, [0, 0], 0),
    ],
)
def test_fragmentation_by_hand(cpu: int, gpus: list[int], want: float) -> None:
    measure = Fragmentation(TypicalPods(EXAMPLE_PODS))
    assert measure.amount(cpu, gpus, "T4") == pytest.approx(want, abs=1e-9)
    assert sum(measure.classes(cpu, gpus, "T4").values()) == pytest.approx(sum(gpus))


def test_the_classes_of_one_example() -> None:
    classes = Fragmentation(TypicalPods(EXAMPLE_PODS)).classes(14000, [500, 1000])
    assert classes["q2_lack_gpu"] == pytest.approx(300)
    assert classes["xl_satisfied"] == pytest.approx(300)
    assert classes["q3_satisfied"] == pytest.approx(900)


@pytest.mark.parametrize(
    ("gain_milli", "want"), [(0, 50), (40, 50), (40.01, 51), (-0.001, 49), (-8000, 0), (8000, 99)]
)
def test_gradient_score_edges(gain_milli: float, want: int) -> None:
    assert gradient_score(gain_milli, 0) == want


@given(st.floats(-60, 60))
def test_gradient_score_is_the_logistic_function(gain: float) -> None:
    assert gradient_score(gain * 1000, 0) == model.gradient_score(gain * 1000, 0)


@given(st.integers(1, 100), st.integers(-3, 3))
def test_gradient_score_at_its_edges(score: int, ulps: int) -> None:
    gain = -math.log(100 / score - 1) if score < 100 else 36.7368
    for _ in range(abs(ulps)):
        gain = math.nextafter(gain, math.inf if ulps > 0 else -math.inf)
    assert gradient_score(gain * 1000, 0) == model.gradient_score(gain * 1000, 0)


shapes = st.builds(
    lambda cpu, milli, count, spec: PodShape(cpu, milli if count else 0, count, spec),
    st.sampled_from([0, 1000, 4000, 9000]),
    st.sampled_from([1, 333, 500, 999, 1000]),
    st.integers(0, 3),
    st.sampled_from(["", "T4", "T4|P100", "|G2|"]),
)
counts = st.dictionaries(shapes, st.integers(0, 50), min_size=1, max_size=8)


@given(counts, st.integers(1, 100))
def test_typical_pods_are_the_models(counted: dict[PodShape, int], percent: int) -> None:
    typical = TypicalPods.count(counted, percent)
    assert list(typical.frequencies.items()) == model.typical_pods(counted, percent)


@given(
    counts,
    st.integers(0, 10000),
    st.lists(st.integers(0, 1000), max_size=8),
    st.sampled_from(["T4", "P100", "G2", ""]),
)
def test_fragmentation_is_the_models_bit_by_bit(
    counted: dict[PodShape, int], cpu: int, gpus: list[int], node_model: str
) -> None:
    typical = TypicalPods.count(counted)
    measure = Fragmentation(typical)
    pods = list(typical.frequencies.items())
    want = model.fragment_sums(cpu, gpus, node_model, pods)
    assert list(measure.classes(cpu, gpus, node_model).values()) == want
    assert measure.amount(cpu, gpus, node_model) == model.fragment_amount(
        cpu, gpus, node_model, pods
    )
    assert len(want) == len(FRAGMENT_CLASSES)


@pytest.mark.parametrize(
    ("counted", "percent", "text"),
    [
        ({PodShape(-1): 1}, 95, "typical pod: got '-1'"),
        ({PodShape(1): -1}, 95, "shape count: got '-1'"),
        ({PodShape(1): 1}, 0, "coverage: got '0', expected 1 to 100 percent"),
    ],
)
def test_bad_counts_are_named(counted: dict[PodShape, int], percent: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TypicalPods.count(counted, percent)
