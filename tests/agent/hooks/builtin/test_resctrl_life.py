# SPDX-License-Identifier: Apache-2.0
"""Annotations of pods, their groups and their threads, in any order, with restarts and few ids."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.resctrl import ResctrlWriter
from koord.agent.hooks.builtin.resctrl import Resctrl
from koord.agent.hooks.reconciliation.reconciler import Reconciler
from koord.agent.host.machine import Machine
from koord.base.clock import VirtualClock
from koord.kernels import resctrl
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from tests.agent.executor.rig import quick_directory
from tests.agent.hooks.build import LAYOUT, options, pod, snapshot
from tests.models.resctrl_group import ResctrlGroups

ANNOTATION = "node.koordinator.sh/resctrl"
IDS = 4  # three groups beside the root
UIDS = [f"u{n}" for n in range(5)]
PERCENTS = st.sampled_from([25, 50, 75, 100])


class Life(RuleBasedStateMachine):
    """One node whose pods come, change and go."""

    @initialize()
    def begin(self) -> None:
        self.place = quick_directory()
        root = Path(self.place.name)
        for name in ("cgroup/cpu", "cgroup/cpuset", "resctrl"):
            (root / name).mkdir(parents=True)
        self.root, self.clock = root, VirtualClock()
        self.tree = ResctrlGroups(root / "resctrl", IDS)
        self.wanted: dict[str, int | None] = {}
        self.start()

    def start(self) -> None:
        cgroups = Hierarchy(self.root / "cgroup", Version.V1)
        kind = ResctrlWriter(self.tree, cgroups)
        journal = Journal(self.root / "state", "boot")
        self.executor = HostExecutor([kind], journal, self.clock, ExecutorOptions(Version.V1))
        self.executor.adopt((group, 0) for group in kind.groups())
        machine = cast("Machine", SimpleNamespace(layout=LAYOUT, hierarchy=cgroups))
        info = resctrl.read_info(self.root / "resctrl"), resctrl.Vendor.INTEL
        hook = Resctrl(options(resctrl_info=lambda: info))
        self.reconciler = Reconciler([hook], self.executor, machine, sandbox=lambda pod: "")
        self.reconcile()

    def reconcile(self) -> None:
        states = []
        for uid, percent in sorted(self.wanted.items()):
            annotations: dict[str, Any] = {}
            if percent is not None:
                annotations[ANNOTATION] = {"llc": {"schemata": {"range": [0, percent]}}}
            states.append(pod("LS", uid=uid, annotations=annotations))
            place = self.root / "cgroup/cpu" / states[-1].containers[0].directory
            place.mkdir(parents=True, exist_ok=True)
            (place / "tasks").write_text(f"{100 + int(uid[1:])}\n")
        self.reconciler.changed(snapshot(*states))

    @rule(uid=st.sampled_from(UIDS), percent=st.one_of(st.none(), PERCENTS))
    def put(self, uid: str, percent: int | None) -> None:
        self.wanted[uid] = percent
        self.reconcile()

    @rule(uid=st.sampled_from(UIDS))
    def remove(self, uid: str) -> None:
        self.wanted.pop(uid, None)
        self.reconcile()

    @rule()
    def restart(self) -> None:
        self.start()

    @rule(uid=st.sampled_from(UIDS))
    def left_by_another_agent(self, uid: str) -> None:
        if uid not in self.wanted and len(self.tree.groups()) + 1 < IDS:
            if f"koordlet-{uid}" not in self.tree.groups():
                self.tree.make_directory(f"koordlet-{uid}")
            self.start()

    @rule(seconds=st.sampled_from([1, 10, 61, 130]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.reconciler.tick()

    def expected(self) -> set[str]:
        return {f"koordlet-{uid}" for uid, percent in self.wanted.items() if percent is not None}

    @invariant()
    def never_too_many_groups(self) -> None:
        if hasattr(self, "tree"):
            assert len(self.tree.groups()) < IDS

    def teardown(self) -> None:
        if not hasattr(self, "tree"):
            return
        for _ in range(3):
            self.clock.advance(130)
            self.reconciler.tick()
        there = set(self.tree.groups())
        assert there <= self.expected()
        assert len(there) == min(len(self.expected()), IDS - 1)
        told = {f.target.directory for f in self.executor.failures()}
        assert told == self.expected() - there
        for name in there:
            uid = name.removeprefix("koordlet-")
            ways = -(-12 * (self.wanted[uid] or 0) // 100)
            mask = (1 << ways) - 1
            assert f"L3:0={mask:x};1={mask:x}" in self.tree.lines(name)
            assert 100 + int(uid[1:]) in self.tree.tasks(name)
        self.wanted.clear()
        self.reconcile()
        assert self.tree.groups() == []
        assert self.executor.failures() == []
        self.place.cleanup()


TestResctrlLife = Life.TestCase
TestResctrlLife.settings = settings(deadline=None, stateful_step_count=12)
