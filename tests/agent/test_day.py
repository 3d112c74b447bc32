# SPDX-License-Identifier: Apache-2.0
"""The agent as a whole through a day of comings, goings and mishaps, in virtual time."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path

import pytest

from koord.agent.strategies.eviction.api_evictor import ApiEvictor
from koord.agent.write_history import RecordedWrite
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.topology import NodeResourceTopology
from koord.kernels.cgroup_parse import Version
from tests.agent.day.plant import PlantFiles
from tests.agent.day.population import NODE
from tests.agent.day.world import START, World, play
from tests.descriptors import descriptors

SOAKS = os.environ.get("KOORD_PROFILE") == "soak"
ROUNDS = 32 if SOAKS else 6
"""Of about three quarters of an hour each: a day, or a morning."""
_QUIET_SECONDS = 900


async def calm(world: World) -> None:
    """What holds whenever nothing has happened for a quarter of an hour."""
    agent = world.agent
    live = {state.uid for state in world.pods.values()}
    assert {pod.uid for pod in agent.store.snapshot().pods.value} == live
    assert list(world.plant.wrong()) == []
    assert world.late == []
    _check_nothing_is_left_of_the_gone(world, live)
    _check_bounds(world)
    await _check_reports(world)


def _check_nothing_is_left_of_the_gone(world: World, live: set[str]) -> None:
    agent = world.agent
    directories = set(world.plant._groups) | {""}
    executor = agent.executor
    held = {line.target for line in executor.explain()} | set(executor._journal.targets())
    held |= {failure.target for failure in executor._failures.all()} | set(executor._last_values)
    assert {target.directory for target in held} <= directories
    scopes = {scope for _, scope in executor.refused()} | set(agent.reconciler._pods)
    scopes |= set(agent.reconciler._sandboxes) | {s for _, s in agent.reconciler.problems()}
    known = {"node", "kubeqos", "rule"} | directories
    assert {scope for scope in scopes if scope not in known} <= live
    assert isinstance(agent.evictor, ApiEvictor)
    assert set(agent.evictor._cases) <= live
    agent.owners._index()
    assert set(agent.owners._by_directory) <= directories


def _check_bounds(world: World) -> None:
    agent = world.agent
    open_now = descriptors()
    # Of each group eight files that are measured, and five that are compared.
    assert open_now <= world.descriptors + (8 + 5) * len(world.plant._groups) + 8
    assert agent.cache.series <= 60 + 40 * len(world.plant._groups)
    assert agent.cache.bytes <= world.options.tsdb_max_bytes
    assert len(agent.owners.last()) <= 500
    # Not made before there is something to write down.
    audit = list(Path(world.options.audit_log_dir).glob("*"))
    assert sum(path.stat().st_size for path in audit) <= 3 << 20
    _check_nothing_grows(world)


def _check_nothing_grows(world: World) -> None:
    """What the agent's code has made and not let go, by type, does not follow time.

    A kind of object that one is kept of for every round or pod is soon twice what the first hours
    had at most; the pods that are there are never more than a few.
    """
    gc.collect()
    modules = ("koord.agent", "koord.kernels")
    types = map(type, gc.get_objects())
    own = Counter(str(kind) for kind in types if str(kind.__module__).startswith(modules))
    # The world remembers all of these, and of the agent's that it keeps the number is known.
    own[str(RecordedWrite)] -= len(world.deeds)
    world.sizes.append(own)
    early = world.sizes[:4]
    for kind, count in world.sizes[-1].items():
        assert count <= 2 * max(sizes[kind] for sizes in early) + 300, kind


async def _check_reports(world: World) -> None:
    metric = await world.admin.get(NodeMetric, NODE)
    assert metric.status.update_time is not None
    age = world.clock.wall_seconds() - metric.status.update_time.timestamp()
    assert age <= _QUIET_SECONDS
    reported = {pod.name for pod in metric.status.pods_metric}
    assert reported == set(world.pods)
    topology = await world.admin.get(NodeResourceTopology, NODE)
    computed = world.agent.store.snapshot().topology.value
    assert computed is not None
    assert topology.zones == computed.zones
    told = topology.metadata.annotations
    assert {key: told.get(key) for key in computed.metadata.annotations} == (
        computed.metadata.annotations
    )


def _ended(world: World) -> None:
    """After the stop everything is as it was."""
    assert world.plant.changed() == {}
    assert descriptors() <= world.descriptors
    assert not world.agent.executor.explain()
    assert not world.agent.executor._journal.targets()


def a_day(folder: Path, version: Version, seed: int, rounds: int, step: int) -> None:
    """So many rounds, looked at whenever it is quiet; the files of the host are made up."""
    world = play(folder, version, seed, rounds, calm, step=step)
    _ended(world)
    written = [deed for deed in world.deeds if deed.what == "written"]
    assert len(written) > 20
    # Eight pauses of 50 s at least, and a quarter of quiet.
    assert world.clock.wall_seconds() - START > rounds * (8 * 50 + _QUIET_SECONDS)


@pytest.mark.parametrize("version", Version, ids=["v1", "v2"])
@pytest.mark.parametrize("seed", range(200 if SOAKS else 1))
def test_a_day(
    seed: int, version: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koord.agent.executor.startup.NativeCgroupFiles", PlantFiles)
    a_day(tmp_path, version, seed, ROUNDS, step=20 if SOAKS else 120)


@pytest.mark.parametrize("version", Version, ids=["v1", "v2"])
def test_a_seed_says_what_is_written(
    version: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koord.agent.executor.startup.NativeCgroupFiles", PlantFiles)
    told = [play(tmp_path / name, version, 7, 1, calm, step=120).deeds for name in ("a", "b")]
    assert told[0] == told[1]
    assert len(told[0]) > 10
