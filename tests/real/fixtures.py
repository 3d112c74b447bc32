# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests on a real control plane; each test that uses one is marked ``real``."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.ci import IN_CI
from tests.real.binaries import MissingProgramError, find
from tests.real.plane import RealControlPlane


def need(*programs: str) -> None:
    """Skips the test where a program is missing; in CI that is a failure, never a skip."""
    try:
        for program in programs:
            find(program)
    except MissingProgramError as error:
        if IN_CI:
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Beside a failure on a control plane, the last lines of its logs."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, RealControlPlane):
                report.sections.append(("control plane", value.logs()))
                break
    return report


@pytest.fixture(scope="session")
def real_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    """etcd and kube-apiserver, shared by a session's tests: each keeps to namespaces of its own."""
    need("etcd", "kube-apiserver")
    with RealControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane
        plane.check()


@pytest.fixture(scope="session")
def real_controllers(real_plane: RealControlPlane) -> RealControlPlane:
    """The same with kube-controller-manager running from the first test that wants it on."""
    need("kube-controller-manager")
    real_plane.start_controller_manager()
    return real_plane


@pytest.fixture
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    """A control plane for one test that kills, pauses or fills it."""
    need("etcd", "kube-apiserver")
    with RealControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane
