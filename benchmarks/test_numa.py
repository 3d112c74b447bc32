# SPDX-License-Identifier: Apache-2.0
"""NUMA hints and their merge, against the model that tries every combination and every mask."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.conftest import Gate
from koord.kernels import numa
from tests.models import numa as model


def both_lists(zones: int, preferred_up_to: int) -> tuple[numa.HintList, list[model.Hint]]:
    """All masks of a machine as hints, ours and the model's."""
    plain = [
        model.Hint(mask, mask.bit_count() <= preferred_up_to, False, mask * 37 % 101)
        for mask in numa.enumerate_masks(zones)
    ]
    ours = numa.HintList(numa.Hint(h.affinity, h.preferred, h.unsatisfied, h.score) for h in plain)
    return ours, plain


# The model needs a second for 8 zones, so the gate runs at 6; the ratio only grows from there.
@pytest.mark.parametrize(
    ("zones", "resources", "preferred_up_to", "at_least"),
    [
        (2, 2, 2, 2.5),
        (4, 2, 4, 50.0),
        (4, 3, 4, 500.0),
        (6, 2, 6, 600.0),
        (6, 2, 0, 600.0),
    ],
)
def test_merge(
    gate: Gate, zones: int, resources: int, preferred_up_to: int, at_least: float
) -> None:
    ours, plain = both_lists(zones, preferred_up_to)
    machine, everything, idle = numa.Zones(range(zones)), (1 << zones) - 1, ["idle"] * zones
    preferred = "all" if preferred_up_to else "none"
    gate(
        f"numa: merge, {zones} zones x {resources}, {preferred} preferred",
        lambda: numa.merge(machine, [ours] * resources),
        lambda: model.merge(everything, [plain] * resources, False, idle),
        at_least,
    )


def test_merge_with_none_preferred(gate: Gate) -> None:
    """Nothing is known beforehand of the winner, and yet not all combinations are looked at."""
    machine = numa.Zones(range(8))
    (none, _), (preferred, _) = both_lists(8, 0), both_lists(8, 8)
    gate(
        "numa: merge, 8 zones x 2, none preferred (all preferred)",
        lambda: numa.merge(machine, [none] * 2),
        lambda: numa.merge(machine, [preferred] * 2),
        1 / 3,
    )


def hint_calls(zones: int) -> tuple[Callable[[], object], Callable[[], object]]:
    total = {zone: {"cpu": 32000, "memory": 1 << 36} for zone in range(zones)}
    free = {zone: {"cpu": 32000 - 3000 * zone, "memory": 1 << 36} for zone in range(zones)}
    wanted = {"cpu": 16000, "memory": 1 << 35}
    bindable = dict.fromkeys(range(zones), 32)
    pool = numa.Pool(free, numa.CpuBinding(16, bindable, True, True, 2))
    trial = (free, model.Binding(16, bindable, True, True, 2))
    weights = {"cpu": 1, "memory": 1}
    policy = numa.TopologyPolicy.RESTRICTED
    return (
        lambda: numa.generate_hints(
            total, free, wanted, policy, pools=[pool], scorer=numa.Scorer(weights=weights)
        ),
        lambda: model.generate_hints(total, free, wanted, [trial], (False, weights), True),
    )


@pytest.mark.parametrize(("zones", "at_least"), [(2, 1.5), (8, 40.0)])
def test_hints(gate: Gate, zones: int, at_least: float) -> None:
    ours, reference = hint_calls(zones)
    gate(f"numa: hints, {zones} zones, bound cpus", ours, reference, at_least)
