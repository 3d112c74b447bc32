# SPDX-License-Identifier: Apache-2.0
"""Containers come and go on a real containerd, and nothing of them is left.

Few in a usual run; `make test-node` takes 200 each way (``KOORD_NODE_CONTAINERS``).
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.node.figures import figures

pytestmark = pytest.mark.real

CONTAINERS = int(os.environ.get("KOORD_NODE_CONTAINERS", "16"))
# Descriptors of connections and of what is read at the moment come and go.
DESCRIPTORS = 8


@pytest.fixture(scope="module", params=["NRI", "proxy"])
def seen(request: pytest.FixtureRequest) -> Any:
    return figures(
        "tests.node.churn_scene", 120 + 2 * CONTAINERS, way=request.param, containers=CONTAINERS
    )


def served(seen: Any) -> Any:
    """What koordlet tells of who called it."""
    runtime = seen["runtime"]
    return runtime if runtime["way"] == "NRI" else runtime["hookServer"]


def test_each_had_what_hooks_want(seen: Any) -> None:
    assert seen["right"] == seen["containers"] == CONTAINERS
    assert served(seen)["unknownPods"] == 0


def test_nothing_is_left_in_stores_or_cgroups(seen: Any) -> None:
    assert {name: left for name, left in seen["left"].items() if left} == {}


def test_no_descriptors_are_left(seen: Any) -> None:
    for before, after in seen["descriptors"].values():
        assert after <= before + DESCRIPTORS


def test_no_call_failed(seen: Any) -> None:
    calls = served(seen)["calls"]
    assert {"CreateContainer", "PreCreateContainer"} & {each["method"] for each in calls}
    assert all(each["failures"] == 0 for each in calls)
    assert seen["complaints"] == []
