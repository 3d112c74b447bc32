# SPDX-License-Identifier: Apache-2.0
"""A container's start with koordlet behind NRI, and without: few starts show that it is measured.

Its figures: ``KOORD_NODE_STARTS=100 pytest -s -m real tests/node/test_start_cost.py``, as `make
test-node` does; of use on a quiet machine.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.node.figures import figures
from tests.node.start_cost_scene import KOORDLET, WITHOUT_NRI, WITHOUT_PLUGIN

pytestmark = pytest.mark.real

STARTS = int(os.environ.get("KOORD_NODE_STARTS", "8"))


@pytest.fixture(scope="module")
def seen() -> Any:
    return figures("tests.node.start_cost_scene", 150 + 4 * STARTS, starts=STARTS)


def test_hooks_serve_the_one_and_not_the_other(seen: Any) -> None:
    assert seen["shares"] == {WITHOUT_PLUGIN: "2", WITHOUT_NRI: "2", KOORDLET: "512"}
    assert seen["calls"]["CreateContainer"] == STARTS


@pytest.mark.skipif(STARTS < 50, reason="so few starts say nothing of a ratio")
def test_a_start_takes_hardly_longer(seen: Any) -> None:
    """Whatever the machine does beside: a fifth is several times what was measured."""
    assert seen["milliseconds"][KOORDLET]["ratio"] < 1.2
