# SPDX-License-Identifier: Apache-2.0
"""The places that a scene is tried in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenes.place import (
    GuestPlace,
    MissingPlaceError,
    Place,
    find_hierarchies,
    find_unified,
)

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


@pytest.fixture
def unified() -> Place:
    """This machine's cgroup v2; skips with the reason where it has none with all controllers."""
    try:
        return find_unified()
    except MissingPlaceError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["v1", "unified", pytest.param("v2", marks=pytest.mark.vm)])
def place(request: pytest.FixtureRequest) -> Place:
    """Cgroup v1 or v2 on this machine, then cgroup v2 in the guest."""
    if request.param != "v2":
        here: Place = request.getfixturevalue(request.param)
        return here
    return GuestPlace(request.getfixturevalue("guest"))


@pytest.fixture
def v2(request: pytest.FixtureRequest) -> Place:
    """The guest, for scenes that need NUMA, SMT or cgroup v2; mark the test ``vm``."""
    return GuestPlace(request.getfixturevalue("guest"))
