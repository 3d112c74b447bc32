# SPDX-License-Identifier: Apache-2.0
"""A day of a dry run: of all writes of any kind there is none, and what would be is told."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.agent.app import Agent, AgentServices
from koord.agent.executor.audit import AuditLog, AuditSubject
from koord.agent.executor.writers.core_sched import CoreSchedWriter
from koord.agent.executor.writers.oom_score import OomScoreWriter
from koord.agent.executor.writers.resctrl import ResctrlWriter
from koord.agent.executor.writers.terway_files import TerwayWriter
from koord.agent.hooks.options import machine_options
from koord.agent.prediction.checkpoints import Checkpoints
from koord.agent.prediction.usage_models import UsageModels
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.base.metrics import registry
from koord.kernels.cgroup_parse import Version
from koord.kube.client import Client
from koord.kube.dry_run import DryRun
from koord.kube.events import EventRecorder
from tests.agent.day.plant import Plant, PlantFiles
from tests.agent.day.population import NODE
from tests.agent.day.world import START, World, options, play
from tests.agent.machine_tree import MachineTree
from tests.agent.test_day import ROUNDS
from tests.kube.harness import FakeTransport, answer, logged

_FILE_WRITES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link",
                "os.chmod", "os.chown", "os.truncate", "os.utime", "os.setxattr", "os.kill",
                "sqlite3.connect")  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What this process does to files and processes, as the interpreter tells; off at first.

    Attributes:
        seen: event and path, of what changes something.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._on = 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._on <= 0:
            return
        opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        if opened or event in _FILE_WRITES:
            self.seen.append(f"{event} {arguments[0]}")

    @contextmanager
    def turned(self, step: int) -> Iterator[None]:
        """On (1), or off within (-1)."""
        self._on += step
        try:
            yield
        finally:
            self._on -= step


WATCH = Watch()
sys.addaudithook(WATCH)  # for the life of the process; it looks only while it is on


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kind of writer was called; the machine's own writes are not watched."""
    calls: Counter[str] = Counter()
    monkeypatch.setattr("koord.agent.executor.startup.NativeCgroupFiles", PlantFiles)
    for kind in (ResctrlWriter, CoreSchedWriter, TerwayWriter, OomScoreWriter):
        monkeypatch.setattr(kind, "write", _counted(calls, kind.__name__))
    monkeypatch.setattr(PlantFiles, "write_leveled", _counted(calls, "cgroup"))
    for name in ("__init__", "make", "start", "end", "advance", "truncate"):
        monkeypatch.setattr(Plant, name, _unwatched(getattr(Plant, name)))
    return calls


def _counted(calls: Counter[str], name: str) -> Any:
    def write(*arguments: Any, **named: Any) -> list[Any]:
        calls[name] += 1
        return []

    return write


def _unwatched(method: Any) -> Any:
    def work(*arguments: Any, **named: Any) -> Any:
        with WATCH.turned(-1):
            return method(*arguments, **named)

    return work


async def _reported_nothing(world: World) -> None:
    metric = await world.admin.get(NodeMetric, NODE)
    assert metric.status.update_time is None
    assert not (await world.admin.list(NodeResourceTopology)).items
    with WATCH.turned(-1):
        assert world.plant.changed() == {}


@pytest.mark.parametrize("version", Version, ids=["v1", "v2"])
def test_a_day_of_a_dry_run_writes_nothing(
    version: Version, tmp_path: Path, made: Counter[str]
) -> None:
    WATCH.seen.clear()
    with logged("koord.dryrun", logging.INFO) as records, WATCH.turned(1):
        world = play(tmp_path, version, 3, ROUNDS, _reported_nothing, step=600, dry_run=True)
    assert world.clock.wall_seconds() - START > ROUNDS * 2400
    assert (world.transport.writes, made, WATCH.seen) == ([], {}, [])
    assert [path.name for path in tmp_path.iterdir()] == ["machine"]
    said = [vars(record)["koord_fields"] for record in records]
    verbs = Counter(f"{each['verb']} {each['object'].split(' ')[0]}" for each in said)
    assert verbs["create NodeResourceTopology"] >= 1
    assert verbs["patch NodeMetric"] >= ROUNDS
    assert any(each["object"].endswith("/cpu.cfs_quota_us") for each in said)
    assert any(each["object"].startswith(str(tmp_path / "checkpoints")) for each in said)
    assert "koord_dry_run_writes_total{" in world.metrics.expose().decode()


def test_the_watch_sees_what_it_is_for(tmp_path: Path) -> None:
    WATCH.seen.clear()
    with WATCH.turned(1):
        (tmp_path / "a").write_text("x")
        (tmp_path / "a").read_text()
        (tmp_path / "a").unlink()
        with WATCH.turned(-1):
            (tmp_path / "b").mkdir()
    assert WATCH.seen == [f"open {tmp_path / 'a'}", f"os.remove {tmp_path / 'a'}"]


def test_a_dry_run_with_a_client_that_writes_does_not_begin(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    client = Client(FakeTransport([answer({})]))
    around = AgentServices(client, EventRecorder(client, "koordlet"), None, registry(), clock)
    machine = MachineTree(tmp_path / "machine", Version.V2).machine()
    flags = options(tmp_path)
    with pytest.raises(KoordError, match="--dry-run: got 'a client that writes'"):
        Agent(type(flags)(**{**vars(flags), "dry_run": True}), machine, around)


def test_an_audit_log_of_a_dry_run_stays_in_memory() -> None:
    """Lines of 100 kB: of 30 the last 20 are within 2 MiB."""
    audit = AuditLog(None, VirtualClock(START))
    for number in range(30):
        audit.record(1, AuditSubject("node"), f"r{number}", "x" * 100_000)
    reasons = [event["reason"] for event in audit.events()]
    assert reasons == [f"r{number}" for number in range(29, 9, -1)]


def test_checkpoints_of_a_dry_run_are_read_and_neither_written_nor_deleted(tmp_path: Path) -> None:
    models = UsageModels()
    models.by_name["a"] = models.new()
    models.by_name["a"].updated_ms = 1_000_000
    Checkpoints(tmp_path).step(models, 1_000_000)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert [path.name for path in before] == ["a"]
    again = UsageModels()
    dry = Checkpoints(tmp_path, DryRun())
    with logged("koord.dryrun", logging.INFO) as records:
        assert dry.restore(again, {"a"}) == ["a"]
        dry.step(again, 2_000_000)
        assert dry.restore(UsageModels(), ()) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    place = str(tmp_path / "a")
    said = [vars(record)["koord_fields"] for record in records]
    assert said == [{"verb": "write", "object": place}, {"verb": "delete", "object": place}]
    assert Checkpoints(tmp_path / "none", DryRun()).restore(again, ()) == []
    assert not (tmp_path / "none").exists()


def test_a_hook_of_a_dry_run_makes_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("agent_mode", "hostMode")
    machine = MachineTree(tmp_path / "machine", Version.V2).machine()
    place = tmp_path / "vgpu"
    for dry_run in (DryRun(), None):
        assert not place.exists()
        asked = machine_options(lambda _: True, machine.features, machine.roots, dry_run=dry_run)
        asked.make_directory(str(place))
    assert place.is_dir()
