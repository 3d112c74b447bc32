# SPDX-License-Identifier: Apache-2.0
"""The places that a scene is tried in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenes.place import GuestPlace, MissingPlaceError, Place, find_hierarchies

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that stands here is a scene."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("scene")


@pytest.fixture
def v1() -> Place:
    """This machine's cgroup v1 hierarchies; skips with the reason where it has none."""
    try:
        return find_hierarchies()
    except MissingPlaceError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["v1", pytest.param("v2", marks=pytest.mark.vm)])
def place(request: pytest.FixtureRequest) -> Place:
    """Cgroup v1 on this machine, then cgroup v2 in the guest."""
    if request.param == "v1":
        here: Place = request.getfixturevalue("v1")
        return here
    return GuestPlace(request.getfixturevalue("guest"))


@pytest.fixture
def v2(request: pytest.FixtureRequest) -> Place:
    """The guest, for scenes that need NUMA, SMT or cgroup v2; mark the test ``vm``."""
    return GuestPlace(request.getfixturevalue("guest"))
