# SPDX-License-Identifier: Apache-2.0
"""Evictions by killing what runs in a pod's cgroups: real processes in a tree of plain files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from koord.agent.strategies.eviction.api_evictor import FAILURE, SUCCESS
from koord.agent.strategies.eviction.cgroup_killer import (
    REPORT_AFTER_SECONDS,
    SETTLED_SECONDS,
    CgroupKiller,
)
from koord.agent.strategies.eviction.cgroup_processes import CgroupProcesses
from koord.agent.strategies.eviction.evictor import EvictionState
from koord.base import faults
from koord.base.clock import VirtualClock
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from tests.agent.strategies.eviction.test_api_evictor import Told
from tests.agent.strategies.nodes import pod

_POD = pod("one", qos="BE", containers=[{"name": "a"}, {"name": "b"}])
_FEATURE = "CPUEvict"


class Tree:
    """Cgroups as files: processes are listed by hand, and leave when they are told to."""

    def __init__(self, root: Path, version: Version) -> None:
        self.root, self.version = root, version
        root.mkdir(exist_ok=True)
        self.children: list[subprocess.Popen[bytes]] = []

    def folder(self, directory: str) -> Path:
        path = self.root / ("cpu" if self.version is Version.V1 else "") / directory
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, directory: str, pids: list[int]) -> None:
        text = "".join(f"{pid}\n" for pid in pids)
        (self.folder(directory) / "cgroup.procs").write_text(text)

    def start(self) -> int:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.children.append(child)
        return child.pid

    def ended(self, pid: int) -> bool:
        child = next(each for each in self.children if each.pid == pid)
        return child.wait(timeout=60) == -9


@pytest.fixture(params=[Version.V1, Version.V2])
def tree(tmp_path, request):
    made = Tree(tmp_path / "cgroup", request.param)
    yield made
    for child in made.children:
        child.kill()
        child.wait(timeout=60)


def _killer(tree: Tree) -> tuple[CgroupKiller, Told, VirtualClock]:
    told, clock = Told(), VirtualClock()
    hierarchy = Hierarchy(tree.root, tree.version, "kubepods.slice")
    return CgroupKiller(CgroupProcesses(hierarchy), told, clock), told, clock


def test_every_process_of_every_container_ends_and_that_is_seen(tree):
    first, second, nested = tree.start(), tree.start(), tree.start()
    a, b = (each.directory for each in _POD.containers)
    tree.write(a, [first])
    tree.write(b, [second])
    tree.write(f"{b}/inner", [nested])
    killer, told, clock = _killer(tree)
    assert killer.fate(_POD.uid) is None
    assert killer.evict(_POD, _FEATURE, "why") is EvictionState.STARTED
    assert all(tree.ended(pid) for pid in (first, second, nested))
    assert killer.fate(_POD.uid) is EvictionState.UNDER_WAY, "still listed"
    assert told.events == []
    tree.write(a, [])
    tree.write(b, [])
    assert killer.fate(_POD.uid) is EvictionState.UNDER_WAY, "one beneath is still listed"
    tree.write(f"{b}/inner", [])
    assert killer.fate(_POD.uid) is EvictionState.GONE
    assert told.events == [("Warning", SUCCESS, "why")]
    clock.advance(SETTLED_SECONDS + 1)
    assert killer.fate(_POD.uid) is None


def test_what_was_forked_meanwhile_is_killed_by_the_next_look(tree):
    directory = _POD.containers[0].directory
    first = tree.start()
    tree.write(directory, [first])
    killer, _, _ = _killer(tree)
    killer.evict(_POD, _FEATURE, "why")
    assert tree.ended(first)
    forked = tree.start()
    tree.write(directory, [forked])
    killer.watch()
    assert tree.ended(forked)


def test_what_does_not_end_is_told_once_and_tried_on(tree):
    # The process listed is this one, which is never killed: it stands for one that cannot end.
    killer, told, clock = _killer(tree)
    held = tree.start()
    tree.write(_POD.containers[0].directory, [held])
    killer.evict(_POD, _FEATURE, "why")
    for _ in range(5):
        clock.advance(REPORT_AFTER_SECONDS)
        assert killer.fate(_POD.uid) is EvictionState.UNDER_WAY
    assert [reason for _, reason, _ in told.events] == [FAILURE]


def test_a_new_agent_finds_the_eviction_as_far_as_it_came(tree):
    directory = _POD.containers[0].directory
    tree.write(directory, [])
    killer, told, _ = _killer(tree)
    assert killer.evict(_POD, _FEATURE, "why") is EvictionState.GONE
    assert told.events == []
    left = tree.start()
    tree.write(directory, [left])
    again, _, _ = _killer(tree)
    assert again.evict(_POD, _FEATURE, "why") is EvictionState.STARTED
    assert tree.ended(left)


def test_containers_that_were_started_anew_are_another_eviction(tree):
    directory = _POD.containers[0].directory
    tree.write(directory, [])
    killer, _, _ = _killer(tree)
    assert killer.evict(_POD, _FEATURE, "why") is EvictionState.GONE
    again = pod("one", qos="BE", containers=[{"name": "a"}])
    tree.write(again.containers[0].directory, [tree.start()])
    assert killer.evict(again, _FEATURE, "why") is EvictionState.STARTED


def test_a_pod_without_containers_is_refused(tree):
    killer, _, _ = _killer(tree)
    assert killer.evict(pod("bare", containers=[]), _FEATURE, "why") is EvictionState.REFUSED


def test_processes_that_cannot_be_seen_and_this_agent_are_left_alone(tree):
    tree.write("group", [0, 1, os.getpid()])
    processes = CgroupProcesses(Hierarchy(tree.root, tree.version, "kubepods.slice"))
    processes.kill("group")
    assert not processes.alive("group")
    assert not processes.alive("no/such/group")


def test_a_fault_while_killing_is_tried_again(tree):
    held = tree.start()
    tree.write(_POD.containers[0].directory, [held])
    killer, _, _ = _killer(tree)
    error = PermissionError(1, "injected")
    plan = faults.FaultPlan(1, {"agent.evict.kill": faults.FaultRule(1.0, error)})
    with faults.inject(plan):
        assert killer.evict(_POD, _FEATURE, "why") is EvictionState.STARTED
    assert tree.children[0].poll() is None
    killer.watch()
    assert tree.ended(held)


def test_the_kernel_kills_a_whole_group_at_once_where_it_can(tmp_path):
    tree = Tree(tmp_path / "cgroup", Version.V2)
    folder = tree.folder("group")
    (folder / "cgroup.kill").write_text("")
    (folder / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    processes = CgroupProcesses(Hierarchy(tree.root, Version.V2, "kubepods.slice"))
    assert processes.alive("group")
    processes.kill("group")
    assert (folder / "cgroup.kill").read_text().strip() == "1"
    (folder / "cgroup.events").write_text("populated 0\nfrozen 0\n")
    assert not processes.alive("group")


def test_a_process_that_left_its_cgroup_meanwhile_is_left_alone(tree, monkeypatch):
    held = tree.start()
    tree.write("group", [held])
    opened = os.pidfd_open

    def leaves(pid: int) -> int:
        tree.write("group", [])
        return opened(pid)

    sent: list[int] = []
    monkeypatch.setattr(os, "pidfd_open", leaves)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda fd, number: sent.append(number))
    processes = CgroupProcesses(Hierarchy(tree.root, tree.version, "kubepods.slice"))
    processes.kill("group")
    assert sent == []
    monkeypatch.setattr(os, "pidfd_open", opened)
    tree.write("group", [held])
    processes.kill("group")
    assert sent == [signal.SIGKILL]
