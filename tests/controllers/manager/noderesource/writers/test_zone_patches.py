# SPDX-License-Identifier: Apache-2.0
"""Batch resources in a NodeResourceTopology: what is written, and when."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import NodeResourceTopology
from koord.controllers.manager.noderesource.writers import zone_patches
from koord.kernels.quantity import Quantity
from tests.controllers.manager.noderesource.builders import topology
from tests.models import noderesource as model

CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"


def amount(name: str, value: str) -> dict[str, str]:
    return {"name": name, "capacity": value, "allocatable": value, "available": value}


def zone(name: str, *resources: dict[str, str]) -> dict[str, Any]:
    own = (amount("cpu", "50"), amount("zz.example.com/x", "1"))
    return {"name": name, "type": "Node", "resources": [*own, *resources],
            "costs": [{"name": "node-0", "value": 10}]}  # fmt: skip


def written(
    nrt: NodeResourceTopology, late: bool = False, share: float = 0.1, **offers: tuple[int, int]
) -> dict[str, list[tuple[str, str]]] | None:
    """By zone, resources and what is available of them; None where nothing is written."""
    wanted = {
        name.replace("_", "-"): zone_patches.amounts(*each, 1.0) for name, each in offers.items()
    }
    zones = zone_patches.updated_zones(nrt, wanted, share, late=late)
    if zones is None:
        return None
    patch = zone_patches.zones_patch(nrt, zones)
    assert patch.conditional
    document = json.loads(patch.body)
    assert document["metadata"] == {"resourceVersion": "9"}
    for each in document["zones"]:
        assert each["costs"] == [{"name": "node-0", "value": 10}]
        for resource in each["resources"]:
            assert resource["capacity"] == resource["allocatable"] == resource["available"]
    return {
        each["name"]: [(one["name"], one["available"]) for one in each["resources"]]
        for each in document["zones"]
    }


def test_resources_are_added_in_the_order_of_their_names() -> None:
    nrt = topology([zone("node-0"), zone("node-1")])
    assert written(nrt, node_0=(2000, 5300), node_1=(12_000, 12_001)) == {
        "node-0": [("cpu", "50"), (CPU, "2k"), (MEMORY, "5300m"), ("zz.example.com/x", "1")],
        "node-1": [("cpu", "50"), (CPU, "12k"), (MEMORY, "12001m"), ("zz.example.com/x", "1")],
    }


@pytest.mark.parametrize(
    ("cpu", "late", "due"),
    [(1000, False, False), (1100, False, False), (1101, False, True), (1001, True, True),
     (1000, True, False), (0, False, True)],
)  # fmt: skip
def test_zones_are_written_when_they_have_moved(cpu: int, late: bool, due: bool) -> None:
    nrt = topology([zone("node-0", amount(CPU, "1k"), amount(MEMORY, "1"))])
    assert (written(nrt, late, node_0=(cpu, 1000)) is not None) is due


def test_each_of_the_three_amounts_is_looked_at() -> None:
    for field in ("capacity", "allocatable", "available"):
        odd = amount(CPU, "1k") | {field: "5"}
        nrt = topology([zone("node-0", odd, amount(MEMORY, "1"))])
        assert written(nrt, node_0=(1000, 1000)) is not None


def test_a_zone_of_which_nothing_is_known_offers_nothing() -> None:
    """However large the share that may go unnoticed."""
    nrt = topology([zone("node-0", amount(CPU, "1k"), amount(MEMORY, "1")), zone("node-1")])
    assert written(nrt, share=1.0) == {
        "node-0": [("cpu", "50"), (CPU, "0"), (MEMORY, "0"), ("zz.example.com/x", "1")],
        "node-1": [("cpu", "50"), ("zz.example.com/x", "1")],
    }
    assert written(topology([zone("node-0")]), late=True) is None


def test_zones_go_by_the_number_in_their_names() -> None:
    names = ["node-10", "node-2", "node-0"]
    assert zone_patches.numbers_by_zone(topology([zone(name) for name in names])) == {
        "node-10": 10, "node-2": 2, "node-0": 0
    }  # fmt: skip


@given(
    cpu=st.integers(0, 2**30), memory=st.integers(0, 2**50),
    speed=st.sampled_from([1.0, 1.22, 3.3]),
)  # fmt: skip
def test_zone_cpu_is_amplified_as_the_nodes_is(cpu: int, memory: int, speed: float) -> None:
    shown, _ = model.batch((cpu, 0), speed, [])
    assert shown is not None
    assert zone_patches.amounts(cpu, memory, speed) == (
        Quantity.from_value(shown[0]), Quantity.from_milli(memory)
    )  # fmt: skip
