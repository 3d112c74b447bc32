# SPDX-License-Identifier: Apache-2.0
"""Profiles of the property tests, and the reference data that lies beside the checkout."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import shutil
import tarfile
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from koord.base.memory.garbage_collection import collection_paused
from tests.ci import missing

pytest_plugins = ["tests.real.fixtures", "tests.retries", "tests.vm.fixtures"]

# Managers that tests start serve admission, too; several may run on one machine.
os.environ.setdefault("WEBHOOK_PORT", "0")

ROOT = Path(__file__).resolve().parent.parent

# Derandomised: a failure seen once is seen again. `make test-examples` takes twice as many, and
# `make soak` explores with fresh seeds.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=50, derandomize=True, **_COMMON)
settings.register_profile("ci", max_examples=100, derandomize=True, **_COMMON)
settings.register_profile("soak", max_examples=50_000, **_COMMON)
settings.load_profile(os.environ.get("KOORD_PROFILE", "dev"))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """All modules and ten thousand tests stay: the collector does not look at them again.

    That would be a second each time, and tests that count what is left behind look often.
    """
    with collection_paused():
        _import_share(session.config)
        return (yield)


def _import_share(config: pytest.Config) -> None:
    """Of several workers that read all tests each begins with other files.

    In a new checkout all of them would rewrite the assertions of the same file at the same time, a
    quarter of a minute each; so most are found as another has left them.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted((ROOT / "tests").rglob("test_*.py"))[number::count]:
        # What keeps one from being imported is told by whoever collects it.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


# After so many tests what is left of them, as caches and modules, is no longer looked at either.
_TESTS_BETWEEN = 100
_ended = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Between two files, where no fixture of theirs is left, what stays goes out of sight."""
    global _ended
    yield
    _ended += 1
    if _ended >= _TESTS_BETWEEN and (nextitem is None or nextitem.path != item.path):
        _ended = 0
        gc.collect()
        gc.freeze()


def _reference_data() -> Path | None:
    named = os.environ.get("KOORD_REFERENCE_DATA")
    path = Path(named) if named else ROOT.parent / "shared"
    return path if path.is_dir() else None


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder of reference data; a test that needs it skips where there is none, fails in CI."""
    path = _reference_data()
    if path is None:
        reason = "KOORD_REFERENCE_DATA is not set and ../shared does not exist"
        missing(reason)
    return path


def _unpacked(archive: Path, folder: Path) -> Path:
    """What an archive holds, unpacked by the first who asks: one has 16,000 files."""
    there = folder / archive.name.partition(".")[0]
    with (folder / f"{there.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not there.is_dir():
            with tarfile.open(archive) as opened, TemporaryDirectory(dir=folder) as new:
                # Python before 3.11.4 knows no filters.
                if hasattr(tarfile, "data_filter"):
                    opened.extraction_filter = tarfile.data_filter
                opened.extractall(new)
                (Path(new) / there.name).rename(there)
    return there


@pytest.fixture
def sysfs_dump(
    reference_data: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """A real machine's /proc and /sys by its name; gives a folder that may be written to.

    What is beneath /sys/devices is that of all tests, and is to be read alone.
    """
    # Workers have folders of their own in that of the run.
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def unpack(name: str) -> Path:
        there = _unpacked(reference_data / "data/sysfs" / f"{name}.tar.gz", shared)
        shutil.copytree(there / "proc", tmp_path / name / "proc")
        (tmp_path / name / "sys").mkdir()
        (tmp_path / name / "sys/devices").symlink_to(there / "sys/devices")
        return tmp_path / name

    return unpack


@pytest.fixture(autouse=True)
def _quiet_logging() -> Iterator[None]:
    """Every test finds koord's logging as a program does before it sets it up, whoever came before.

    What is logged then reaches ``caplog``.
    """
    koord = logging.getLogger("koord")
    before = koord.handlers, koord.level, koord.propagate
    koord.handlers, koord.propagate = [], True
    koord.setLevel(logging.NOTSET)
    yield
    koord.handlers, koord.propagate = before[0], before[2]
    koord.setLevel(before[1])
