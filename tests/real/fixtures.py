# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests on a real control plane; each test that uses one is marked ``real``."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.ci import missing
from tests.real.binaries import MissingProgramError, find
from tests.real.plane import RealControlPlane

_ROOT = Path(__file__).resolve().parents[2]
# Files that take half a minute or more, in the order in which `make test-real` begins them: one
# begun last keeps one worker while the others have nothing left. What works hardest goes beside
# what mostly waits.
LONG = (
    "hostile/test_neighbours.py",
    "deploy/test_installation.py",
    "node/cluster/test_cluster.py",
    "deploy/test_overlap.py",
    "node/test_nri.py",
    "loop/test_loop.py",
    "loop/test_kinds_served.py",
    "loop/test_profile_demo.py",
    "contract/controllers/test_autoscaling.py",
    "kube/test_election_processes.py",
    "contract/clients/test_kubectl.py",
    "hostile/test_koordlet.py",
    "controllers/scheduler/e2e/test_rbac.py",
    "controllers/manager/e2e/test_rbac.py",
    "agent/e2e/test_rbac.py",
    "controllers/webhook/e2e/test_admission.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked ``real`` stands where `make test-real` looks, which has long files first."""
    looked = [_ROOT / name for name in real_tests((_ROOT / "Makefile").read_text())]
    for item in items:
        if item.get_closest_marker("real") and not any(map(item.path.is_relative_to, looked)):
            raise pytest.UsageError(f"{item.nodeid}: got mark real, expected REAL_TESTS to name it")
    if config.option.markexpr == "real":
        places = {_ROOT / "tests" / name: place for place, name in enumerate(LONG)}
        items.sort(key=lambda item: places.get(item.path, len(places)))


def real_tests(makefile: str) -> list[str]:
    """The files and folders that a Makefile's ``REAL_TESTS`` names."""
    _, _, rest = makefile.replace("\\\n", " ").partition("\nREAL_TESTS := ")
    return rest.partition("\n")[0].split()


def need(*programs: str) -> None:
    """Skips the test where a program is missing; in CI that is a failure, never a skip."""
    try:
        for program in programs:
            find(program)
    except MissingProgramError as error:
        missing(error)


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
