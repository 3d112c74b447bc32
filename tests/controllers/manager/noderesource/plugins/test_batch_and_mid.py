# SPDX-License-Identifier: Apache-2.0
"""Batch and mid resources on a node against plain Python and the reference's examples."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.manager.noderesource.writers.node_patches import meta_patch, status_patch
from koord.kernels.quantity import Quantity
from tests.controllers.manager.noderesource.builders import (
    Bench,
    config,
    node,
    seen,
    shown,
    topology,
)
from tests.models import noderesource as model

CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
MID_CPU, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
ORIGIN = "node.koordinator.sh/originExtendedAllocatable"
HELD = "node.koordinator.sh/thirdPartyAllocations"


def holding(*parties: tuple[str, int, int]) -> dict[str, str]:
    allocations = [
        {"name": f"party-{number}", "priority": priority,
         "resources": {CPU: str(cpu), MEMORY: str(memory)}}
        for number, (priority, cpu, memory) in enumerate(parties)
    ]  # fmt: skip
    return {HELD: json.dumps({"allocations": allocations})}


def origin(text: str | None) -> dict[str, int]:
    found: dict[str, str] = json.loads(text or "{}")["resources"]
    return {name: Quantity.parse(amount).value() for name, amount in found.items()}


def test_the_speed_of_the_cpus_multiplies_batch_cpu_alone() -> None:
    settings = config(cpu_normalization_config={"enable": True, "defaultRatio": 1.22})
    nrt = topology(info={"cpuModel": "x"})
    known = seen(settings=settings, topology=nrt, batch=(25_000, 33), mid=(1000, 7))
    wanted = shown(Bench("CPUNormalization", "BatchResource", "MidResource").wanted(known))
    assert wanted == {CPU: 30_500, MEMORY: 33, MID_CPU: 1000, MID_MEMORY: 7}


def test_what_third_parties_hold_of_batch_comes_off_and_is_remembered() -> None:
    parties = (("koord-batch", 1000, 30), ("koord-mid", 9, 9), ("koord-batch", 500, 100))
    known = seen(node(annotations=holding(*parties)), batch=(5000, 120))
    wanted = Bench("BatchResource").wanted(known)
    assert shown(wanted) == {CPU: 3500, MEMORY: 0}
    assert origin(wanted.beside[ORIGIN]) == {CPU: 5000, MEMORY: 120}


def test_a_malformed_note_of_third_parties_takes_nothing() -> None:
    bench = Bench("BatchResource")
    wanted = bench.wanted(seen(node(annotations={HELD: "{"}), batch=(5000, 120)))
    assert shown(wanted) == {CPU: 5000, MEMORY: 120}
    assert bench.failed == ["BatchResource"]


def test_the_origin_is_kept_where_a_node_has_no_annotations() -> None:
    wanted = Bench("BatchResource").wanted(seen(node(), batch=(5000, 120)))
    patch = status_patch(node(), wanted)
    assert patch is not None
    metadata = json.loads(patch.body)["metadata"]
    assert origin(metadata["annotations"][ORIGIN]) == {CPU: 5000, MEMORY: 120}
    assert metadata["resourceVersion"] == "7"


def test_other_resources_of_the_origin_stay() -> None:
    before = {ORIGIN: json.dumps({"resources": {"example.com/x": "3", CPU: "1"}})}
    wanted = Bench("BatchResource").wanted(seen(node(annotations=before), batch=(5, 6)))
    assert origin(wanted.beside[ORIGIN]) == {"example.com/x": 3, CPU: 5, MEMORY: 6}


@pytest.mark.parametrize("enabled", [True, False])
def test_a_node_without_a_report_offers_nothing(enabled: bool) -> None:
    extended = {CPU: "5", MEMORY: "6", MID_CPU: "7", MID_MEMORY: "8", "nvidia.com/gpu": "1"}
    on = node(extended, annotations={ORIGIN: json.dumps({"resources": {CPU: "5", MEMORY: "6"}})})
    wanted = Bench("BatchResource", "MidResource").wanted(seen(on), enabled)
    assert shown(wanted) == dict.fromkeys((CPU, MEMORY, MID_CPU, MID_MEMORY))
    assert origin(wanted.beside[ORIGIN]) == {CPU: 0, MEMORY: 0}
    patch = status_patch(on, wanted)
    assert patch is not None
    gone: dict[str, Any] = dict.fromkeys((CPU, MEMORY, MID_CPU, MID_MEMORY))
    assert json.loads(patch.body)["status"] == {"capacity": gone, "allocatable": gone}


def test_a_node_that_never_offered_is_left_alone() -> None:
    wanted = Bench("BatchResource", "MidResource").wanted(seen(), enabled=False)
    assert status_patch(node(), wanted) is None
    assert meta_patch(node(), wanted) is None


def test_capacity_is_mended_with_allocatable() -> None:
    on = node({CPU: "5", MEMORY: "6"}, capacity={CPU: "50"})
    patch = status_patch(on, Bench("BatchResource").wanted(seen(on, batch=(5, 6))))
    assert patch is not None
    assert json.loads(patch.body)["status"] == {"capacity": {CPU: "5"}}


amount = st.integers(0, 2**40)
party = st.tuples(st.sampled_from(["koord-batch", "koord-prod", ""]), amount, amount)


@given(
    offered=st.none() | st.tuples(amount, amount),
    speed=st.sampled_from([None, 1.0, 1.01, 1.22, 3.33, 5.0]),
    parties=st.lists(party, max_size=3),
)
def test_batch_is_the_plain_models(
    offered: tuple[int, int] | None, speed: float | None, parties: list[tuple[str, int, int]]
) -> None:
    on = node(annotations=holding(*parties))
    normal = {"enable": speed is not None, "defaultRatio": speed}
    known = seen(
        on, config(cpu_normalization_config=normal), batch=offered,
        topology=topology(info={"cpuModel": "x"}),
    )  # fmt: skip
    wanted = Bench("CPUNormalization", "BatchResource").wanted(known)
    want, remembered = model.batch(offered, speed or 1.0, parties)
    assert tuple(shown(wanted).values()) == (want or (None, None))
    if offered is not None:
        assert tuple(origin(wanted.beside[ORIGIN]).values()) == remembered
    # Prepared again for what it has written, it wants nothing more.
    assert Bench("CPUNormalization", "BatchResource").wanted(known) == wanted
