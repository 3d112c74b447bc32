# SPDX-License-Identifier: Apache-2.0
"""Which changes are worth a write, and what is in the patch."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.manager.noderesource.plugins.plugin import DesiredNode
from koord.controllers.manager.noderesource.writers.node_patches import (
    meta_patch,
    moved,
    status_due,
    status_patch,
)
from koord.kernels.quantity import Quantity
from tests.controllers.manager.noderesource.builders import node
from tests.models import noderesource as model

X = "example.com/x"


@pytest.mark.parametrize(
    ("old", "new", "share", "due"),
    [
        (None, None, 0.1, False), (None, 0, 0.1, True), (0, None, 0.1, True),
        (0, 1, 0.1, True), (0, 0, 0.1, False), (100, 110, 0.1, False), (100, 90, 0.1, False),
        (100, 111, 0.1, True), (100, 89, 0.1, True), (100, 0, 1.0, False), (1, 3, 1.0, True),
    ],
)  # fmt: skip
def test_what_counts_as_moved(old: int | None, new: int | None, share: float, due: bool) -> None:
    before = None if old is None else Quantity.from_value(old)
    after = None if new is None else Quantity.from_value(new)
    assert moved(before, after, share) is due


milli = st.none() | st.integers(0, 2**50)


@given(old=milli, new=milli, share=st.sampled_from([0.01, 0.1, 0.3, 1.0]))
def test_moved_is_the_plain_models(old: int | None, new: int | None, share: float) -> None:
    before = None if old is None else Quantity.from_milli(old)
    after = None if new is None else Quantity.from_milli(new)
    assert moved(before, after, share) is model.moved(old, new, share)


def test_one_resource_that_moved_takes_the_others_along() -> None:
    on = node({X: "100", "example.com/y": "100"})
    wanted = DesiredNode(resources={X: Quantity.from_value(101), "example.com/y": Quantity()})
    assert status_due(on, wanted, 0.1)
    patch = status_patch(on, wanted)
    assert patch is not None
    assert patch.conditional
    changed = {X: "101", "example.com/y": "0"}
    assert json.loads(patch.body) == {
        "metadata": {"resourceVersion": "7"},
        "status": {"capacity": changed, "allocatable": changed},
    }


def test_what_is_as_wanted_is_not_written() -> None:
    on = node({X: "1000m"}, labels={"a": "1"})
    wanted = DesiredNode(
        resources={X: Quantity.from_value(1), "z": None}, labels={"a": "1", "b": None}
    )
    assert not status_due(on, wanted, 0.1)
    assert status_patch(on, wanted) is None
    assert meta_patch(on, wanted) is None


def test_metadata_is_patched_by_what_differs() -> None:
    on = node(labels={"a": "1", "b": "2"}, annotations={"c": "3"})
    wanted = DesiredNode(labels={"a": "1", "b": None}, annotations={"c": "4"})
    patch = meta_patch(on, wanted)
    assert patch is not None
    assert json.loads(patch.body) == {
        "metadata": {"labels": {"b": None}, "annotations": {"c": "4"}, "resourceVersion": "7"}
    }
