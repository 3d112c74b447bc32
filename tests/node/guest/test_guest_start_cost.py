# SPDX-License-Identifier: Apache-2.0
"""A container's start with koordlet behind NRI, and without, on cgroup v2: `make test-node`.

Emulated, a start takes eleven times what it takes natively: of use is the ratio.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.guest.figures import figures
from tests.node.start_cost_scene import KOORDLET, WITHOUT_NRI, WITHOUT_PLUGIN

pytestmark = pytest.mark.node

STARTS = 20
# Of sixteen emulated processors most of the time goes into waking each other.
_HARDWARE = ("-smp", "4", "-m", "3G")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("guest")
    return figures("tests.node.guest.start_cost", folder, _HARDWARE, starts=STARTS)


def test_hooks_serve_the_one_and_not_the_other(seen: Any) -> None:
    """Of 2 and of 512 shares: 1, and 1 + 510 * 9999 / 262142."""
    assert seen["shares"] == {WITHOUT_PLUGIN: "1", WITHOUT_NRI: "1", KOORDLET: "20"}
    assert seen["calls"]["CreateContainer"] == STARTS
    assert all(each["failures"] == 0 for each in seen["last calls"])


def test_a_start_takes_hardly_longer(seen: Any) -> None:
    """By pairs, whatever the machine does beside: a fifth is several times what was measured."""
    times = seen["milliseconds"]
    assert times[KOORDLET]["more"] < 0.2 * times[WITHOUT_PLUGIN]["median"]
