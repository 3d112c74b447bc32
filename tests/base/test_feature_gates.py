# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from koord.base.errors import KoordError
from koord.base.feature_gates import FeatureGates, Gate, GateStage

GATES = [
    Gate("BECPUEvict", False, GateStage.ALPHA, "evict best-effort pods that starve"),
    Gate("CPUBurst", True, GateStage.BETA),
    Gate("RdtResctrl", True, GateStage.GA),
]


def test_defaults_hold_until_set() -> None:
    gates = FeatureGates(GATES)
    assert [gates.enabled(gate.name) for gate in gates.known()] == [False, True, True]
    gates.set_from(" BECPUEvict=true , CPUBurst=False")
    assert [gates.enabled(gate.name) for gate in gates.known()] == [True, False, True]


def test_what_has_no_effect_is_counted_not_listed() -> None:
    gates = FeatureGates([*GATES, *(Gate(f"Stock{n}", False, effect=False) for n in range(300))])
    with pytest.raises(KoordError) as caught:
        gates.set_from("Zzz=true")
    assert str(caught.value) == (
        "--feature-gates: got 'Zzz', expected one of BECPUEvict, CPUBurst, RdtResctrl, "
        "or one of 300 that have no effect"
    )


def test_a_stage_is_set_whole_and_a_name_wins_over_it() -> None:
    gates = FeatureGates(GATES)
    gates.set_from("CPUBurst=true,AllBeta=false,AllAlpha=true")
    assert gates.enabled("CPUBurst")
    assert gates.enabled("BECPUEvict")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "CPUBrust=true",
            "--feature-gates: got 'CPUBrust', expected a known gate, such as CPUBurst",
        ),
        (
            "Zzz=true",
            "--feature-gates: got 'Zzz', expected one of BECPUEvict, CPUBurst, RdtResctrl",
        ),
        ("CPUBurst", "--feature-gates: got 'CPUBurst', expected NAME=true or NAME=false"),
        (
            "CPUBurst=maybe",
            "--feature-gates: got 'CPUBurst=maybe', expected NAME=true or NAME=false",
        ),
    ],
)
def test_a_wrong_item_changes_nothing(text: str, line: str) -> None:
    gates = FeatureGates(GATES)
    with pytest.raises(KoordError) as caught:
        gates.set_from(f"BECPUEvict=true,{text}")
    assert str(caught.value) == line
    assert not gates.enabled("BECPUEvict")
