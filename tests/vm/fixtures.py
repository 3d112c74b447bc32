# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests in the guest; each test that uses one is marked ``vm``."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.ci import missing
from tests.vm import packages
from tests.vm.machine import Guest


@pytest.fixture(scope="session")
def guest() -> Iterator[Guest]:
    """A booted guest, shared by a session's tests; skips where there is none, fails in CI."""
    try:
        packages.find()
    except packages.MissingVmError as error:
        missing(error)
    with Guest() as machine:
        yield machine


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Beside a failure in the guest, what it printed last."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Guest):
                report.sections.append(("guest", value.console[-6000:]))
    return report
