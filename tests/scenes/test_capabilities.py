# SPDX-License-Identifier: Apache-2.0
"""koordlet's capabilities in the chart: enough, and none of them for nothing.

Every scene of this folder runs koordlet with exactly these; here each is taken away in turn.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenes import capabilities
from tests.scenes.place import Place

# Of each capability: the acts that need it, and what koordlet says where it is not there.
NEEDED = {
    "DAC_OVERRIDE": ({"raise", "lower"}, "Permission denied"),
    "KILL": ({"kill"}, "not permitted"),
    "PERFMON": ({"counters"}, "CAP_PERFMON"),
    "SYS_PTRACE": ({"driver"}, "listens on"),
    "SYS_RESOURCE": ({"lower"}, "Permission denied"),
}
# Debian's kernels know one more level above, and ask for SYS_ADMIN there.
DEBIAN_PARANOID = 2


def lacking(seen: dict[str, Any]) -> set[str]:
    """Acts that did not come off."""
    acts = {
        **{name: seen[name] for name in ("kill", "raise", "lower")},
        "driver": not seen["driver"].startswith("refused"),
        # Without such hardware it gets as far as the kernel's looking for it.
        "counters": "not permitted" not in seen["counters"],
    }
    return {name for name, done in acts.items() if not done}


def check(place: Place, without: str = "") -> dict[str, Any]:
    """Exactly those acts fail that need what is not there."""
    seen: dict[str, Any] = place.run("capabilities", without=without)
    absent = {*seen["absent"], without} - {""}
    expected = set().union(*(NEEDED[name][0] for name in absent))
    if seen["paranoid"] > DEBIAN_PARANOID:
        expected |= {"counters"}
    assert lacking(seen) == expected, seen
    said = str([seen["refused"], seen["driver"], seen["counters"]])
    assert all(NEEDED[name][1] in said for name in absent), seen
    return seen


def test_each_capability_of_the_chart_is_looked_at() -> None:
    assert set(capabilities.of_chart()) == set(NEEDED)


@pytest.mark.vm
def test_the_charts_capabilities_are_enough(v2: Place) -> None:
    seen = check(v2)
    assert seen["absent"] == []
    # A file system is for the host to mount: koordlet uses resctrl where it is.
    assert "not permitted" in seen["mount"]


@pytest.mark.parametrize("name", ["", *sorted(NEEDED)])
def test_without_a_capability_something_fails(v1: Place, name: str) -> None:
    check(v1, name)
