# SPDX-License-Identifier: Apache-2.0
"""resctrl groups, OOM scores, cookies and whole files, behind the same claims."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from koord.agent.executor.claim import Claim
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.target import Target
from koord.agent.executor.writers.core_sched import CoreSchedWriter
from koord.agent.executor.writers.core_sched_cookies import PrctlCookies
from koord.agent.executor.writers.oom_score import OomScoreWriter
from koord.agent.executor.writers.resctrl import ResctrlWriter
from koord.agent.executor.writers.rooted_files import RootedFiles
from koord.agent.executor.writers.target_writer import TargetWriter
from koord.agent.executor.writers.terway_files import TerwayWriter
from koord.base.clock import VirtualClock
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from tests.models.resctrl_group import ResctrlGroups

C1, C2 = "kubepods/p/c1", "kubepods/p/c2"


class FakeCookies:
    """Cookies of processes; those in ``refusing`` cannot be changed."""

    def __init__(self, *pids: int) -> None:
        self.of = dict.fromkeys(pids, 0)
        self.refusing: set[int] = set()
        self._next = 100

    def get(self, pid: int) -> int:
        if pid not in self.of:
            raise OSError(errno.ESRCH, "no such process")
        return self.of[pid]

    def create(self, pid: int) -> None:
        self._next += 1
        self.of[pid] = self._next

    def assign(self, source: int, pids: Iterable[int]) -> dict[int, int]:
        return self._put(self.get(source), pids)

    def clear(self, pids: Iterable[int]) -> dict[int, int]:
        return self._put(0, pids)

    def _put(self, cookie: int, pids: Iterable[int]) -> dict[int, int]:
        failed = {}
        for pid in pids:
            if pid in self.refusing or pid not in self.of:
                failed[pid] = errno.EPERM if pid in self.of else errno.ESRCH
            else:
                self.of[pid] = cookie
        return failed


class Node:
    """Containers with processes, their /proc, resctrl and terway's directory."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, VirtualClock()
        for name in ("cgroup", "proc", "resctrl", "terway"):
            (root / name).mkdir()
        self.cookies = FakeCookies(*range(1, 20))
        self.resctrl = ResctrlGroups(root / "resctrl")
        self.start()

    def start(self) -> None:
        cgroups = Hierarchy(self.root / "cgroup", Version.V1)
        groups = ResctrlWriter(self.resctrl, cgroups)
        kinds: list[TargetWriter] = [
            groups,
            OomScoreWriter(RootedFiles(self.root / "proc"), cgroups),
            CoreSchedWriter(self.cookies, self.pids),
            TerwayWriter(RootedFiles(self.root / "terway")),
        ]
        journal = Journal(self.root / "state", "boot")
        settings = ExecutorOptions(Version.V1)
        self.executor = HostExecutor(kinds, journal, self.clock, settings)
        self.executor.adopt((group, 0) for group in groups.groups())

    def put(self, directory: str, *pids: int) -> None:
        place = self.root / "cgroup/cpu" / directory
        place.mkdir(parents=True, exist_ok=True)
        for name in ("tasks", "cgroup.procs"):
            (place / name).write_text("".join(f"{pid}\n" for pid in pids))
        for pid in pids:
            (self.root / f"proc/{pid}").mkdir(exist_ok=True)
            score = self.root / f"proc/{pid}/oom_score_adj"
            if not score.exists():
                score.write_text("7\n")

    def pids(self, directory: str) -> list[int]:
        text = (self.root / "cgroup/cpu" / directory / "cgroup.procs").read_text()
        return [int(line) for line in text.split()]

    def score(self, pid: int) -> int:
        return int((self.root / f"proc/{pid}/oom_score_adj").read_text())

    def want(self, scope: str, *claims: tuple[str, str, str | int]) -> None:
        self.executor.state("test", scope, [Claim(*claim, "test") for claim in claims])

    def settle(self, seconds: float = 0) -> None:
        self.clock.advance(seconds)
        self.executor.settle()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = Node(tmp_path)
    found.put(C1, 1, 2)
    found.put(C2, 3)
    return found


def group(name: str, *lines: str) -> list[tuple[str, str, str | int]]:
    return [("resctrl.group", name, 1), *(("resctrl.schemata", name, line) for line in lines)]


def test_a_group_is_made_edited_filled_and_removed(node: Node) -> None:
    node.want("p", *group("koordlet-u", "L3:0=7;1=7;"), ("resctrl.members", "koordlet-u", C1))
    node.settle()
    assert node.resctrl.lines("koordlet-u") == ["MB:0=100;1=100", "L3:0=7;1=7"]
    assert node.resctrl.tasks("koordlet-u") == [1, 2]
    node.want("p", *group("koordlet-u", "L3:0=3f;1=3f;", "MB:0=50;1=50;"))
    node.settle()
    assert node.resctrl.lines("koordlet-u") == ["MB:0=50;1=50", "L3:0=3f;1=3f"]
    assert node.resctrl.tasks() == [1, 2]  # the member left for the root group
    node.want("p")
    node.settle()
    assert node.resctrl.groups() == []
    assert node.executor.failures() == []


def test_new_threads_are_found_without_anybody_asking(node: Node) -> None:
    node.want("p", *group("LS"), ("resctrl.members", "LS", C1))
    node.settle()
    node.put(C1, 1, 2, 9)
    node.settle(9)
    assert node.resctrl.tasks("LS") == [1, 2]
    node.settle(2)
    assert node.resctrl.tasks("LS") == [1, 2, 9]


def test_a_group_that_was_there_stays_with_its_lines(node: Node) -> None:
    node.resctrl.make_directory("LS")
    node.resctrl.write("LS/schemata", "L3:0=ff;1=ff\n")
    node.want("p", *group("LS", "L3:0=3;1=3;"))
    node.settle()
    assert node.resctrl.lines("LS")[1] == "L3:0=3;1=3"
    node.want("p")
    node.settle()
    assert node.resctrl.lines("LS")[1] == "L3:0=ff;1=ff"


def test_groups_left_by_an_earlier_agent_go_unless_claimed(node: Node) -> None:
    for name in ("koordlet-gone", "koordlet-here"):
        node.resctrl.make_directory(name)
    node.start()
    node.want("here", *group("koordlet-here"))
    node.settle(1)
    assert node.resctrl.groups() == ["koordlet-gone", "koordlet-here"]
    node.settle(121)
    assert node.resctrl.groups() == ["koordlet-here"]
    node.want("here")
    node.settle()
    assert node.resctrl.groups() == []


def test_running_out_of_ids_is_told_clearly_and_ends_by_itself(node: Node) -> None:
    for name in "abc":
        node.want(name, *group(f"koordlet-{name}"))
    node.want("d", *group("koordlet-d", "L3:0=3;1=3;"), ("resctrl.members", "koordlet-d", C1))
    node.settle()
    failures = {f.target.resource: f for f in node.executor.failures()}
    failed = failures["resctrl.group"]
    assert failed.result.errno == errno.ENOSPC
    assert "no id is left for another group: 3 groups and the root, of 4 ids" in str(failed)
    node.want("a")
    node.settle()
    node.settle(3)
    assert node.resctrl.groups() == ["koordlet-b", "koordlet-c", "koordlet-d"]
    assert node.resctrl.lines("koordlet-d")[1] == "L3:0=3;1=3"
    assert node.executor.failures() == []


def test_a_refused_mask_gives_the_kernels_own_words(node: Node) -> None:
    node.want("p", *group("LS", "L3:0=1;1=1;"))
    node.settle()
    (failure,) = node.executor.failures()
    assert "Mask too narrow" in failure.result.message


@pytest.mark.parametrize(
    "claim",
    [
        ("resctrl.group", "..", 1), ("resctrl.group", "a/b", 1), ("resctrl.group", "", 1),
        ("resctrl.group", "info", 1), ("resctrl.group", "mon_groups", 1),
        ("resctrl.group", "koordlet-\n", 1), ("resctrl.schemata", "LS", "L3:0=7;1=7;\nMB:0=9"),
        ("resctrl.schemata", "LS", "L3:zz"), ("resctrl.members", "LS", "../../etc"),
        ("resctrl.members", "LS", ""), ("oom_score_adj", C1, 1001), ("oom_score_adj", "", 5),
        ("oom_score_adj", "../1", 5), ("core_sched", "", "g"), ("terway.pod.json", "x", "{}"),
        ("terway.pod.json", "", ""), ("cpu.shares", C1, 5),
    ],
)  # fmt: skip
def test_hostile_claims_are_refused(node: Node, claim: tuple[str, str, str | int]) -> None:
    node.want("p", claim)
    node.settle()
    assert len(node.executor.refused()["test", "p"]) == 1
    assert node.executor.failures() == []
    assert node.resctrl.groups() == []


def test_oom_scores_reach_every_process_and_go_back(node: Node) -> None:
    node.want("p", ("oom_score_adj", C1, -500))
    node.settle()
    assert [node.score(pid) for pid in (1, 2, 3)] == [-500, -500, 7]
    node.put(C1, 1, 2, 5)
    node.settle(10)
    assert node.score(5) == -500
    node.want("p")
    node.settle()
    assert [node.score(pid) for pid in (1, 2, 5)] == [7, 7, 7]


def test_a_process_that_ends_is_no_failure(node: Node) -> None:
    node.put(C1, 1, 2, 6)
    (node.root / "proc/6/oom_score_adj").unlink()
    node.want("p", ("oom_score_adj", C1, 100))
    node.settle()
    assert node.executor.failures() == []
    assert node.score(1) == 100


def test_a_container_without_processes_waits_for_one(node: Node) -> None:
    node.put("kubepods/p/c3")
    node.want("p", ("oom_score_adj", "kubepods/p/c3", 100))
    node.settle()
    node.put("kubepods/p/c3", 8)
    node.settle(10)
    assert node.score(8) == 100


def test_containers_of_a_group_share_one_cookie_and_others_do_not(node: Node) -> None:
    node.put("kubepods/q/c", 4)
    node.want("p", ("core_sched", C1, "g"), ("core_sched", C2, "g"))
    node.want("q", ("core_sched", "kubepods/q/c", ""))
    node.settle()
    cookies = node.cookies.of
    assert cookies[1] == cookies[2] == cookies[3] != 0
    assert cookies[4] not in (0, cookies[1])
    executor = node.executor
    assert executor.last_values("core_sched", [C1, "kubepods/q/c", "none"]) == ["g", "", None]
    assert [executor.cookie(group) for group in ("g", "", "h")] == [cookies[1], cookies[4], 0]
    node.put(C1, 1, 2, 10)
    node.settle(10)
    assert cookies[10] == cookies[1]
    node.want("p", ("core_sched", C2, "g"))
    node.settle()
    assert [cookies[pid] for pid in (1, 2, 10)] == [0, 0, 0]
    assert cookies[3]
    node.want("p")
    node.want("q")
    node.settle()
    assert not any(cookies.values())
    assert executor.last_values("core_sched", [C1]) == [None]


def test_moving_to_another_group_takes_another_cookie(node: Node) -> None:
    node.want("p", ("core_sched", C1, "g"), ("core_sched", C2, "g"))
    node.settle()
    shared = node.cookies.of[1]
    node.want("p", ("core_sched", C1, "h"), ("core_sched", C2, "g"))
    node.settle()
    assert node.cookies.of[3] == shared
    assert node.cookies.of[1] == node.cookies.of[2] not in (0, shared)


def test_after_a_restart_the_cookie_is_found_again_on_the_processes(node: Node) -> None:
    node.want("p", ("core_sched", C1, "g"), ("core_sched", C2, "g"))
    node.settle()
    shared = node.cookies.of[1]
    node.start()
    node.put(C2, 3, 11)
    node.want("p", ("core_sched", C1, "g"), ("core_sched", C2, "g"))
    node.settle()
    assert {node.cookies.of[pid] for pid in (1, 2, 3, 11)} == {shared}


def test_two_groups_never_adopt_one_cookie(node: Node) -> None:
    node.cookies.of.update({1: 55, 2: 55, 3: 55})
    node.want("p", ("core_sched", C1, "g"), ("core_sched", C2, "h"))
    node.settle()
    assert node.cookies.of[1] == node.cookies.of[2]
    assert node.cookies.of[3] != node.cookies.of[1]


def test_a_group_whose_processes_all_ended_begins_anew(node: Node) -> None:
    node.want("p", ("core_sched", C1, "g"))
    node.settle()
    first = node.cookies.of[1]
    del node.cookies.of[1], node.cookies.of[2]
    node.put(C1, 12)
    node.settle(10)
    assert node.cookies.of[12] not in (0, first)


def test_a_refused_cookie_is_tried_again(node: Node) -> None:
    node.cookies.refusing = {2}
    node.want("p", ("core_sched", C1, "g"))
    node.settle()
    (failure,) = node.executor.failures()
    assert failure.result.errno == errno.EPERM
    node.cookies.refusing = set()
    node.settle(2)
    assert node.executor.failures() == []
    assert node.cookies.of[1] == node.cookies.of[2]


def test_terways_files_are_whole_and_removed_at_the_end(node: Node) -> None:
    path = node.root / "terway/pod.json"
    node.want("node", ("terway.pod.json", "", "{}"))
    node.settle()
    assert path.read_text() == "{}"
    path.write_text("edited")
    node.settle(61)
    assert path.read_text() == "{}"
    node.want("node")
    node.settle()
    assert sorted(p.name for p in path.parent.iterdir()) == []


def test_this_machines_own_threads_keep_no_cookie() -> None:
    cookies = PrctlCookies()
    try:
        before = cookies.get(0)
    except OSError as error:
        pytest.skip(f"this kernel has no core scheduling: {error}")
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        cookies.create(child)
        assert cookies.get(child)
        assert cookies.get(0) == before
        assert cookies.clear([child]) == {}
        assert cookies.get(child) == 0
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_held_of_an_unmounted_tree_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    kind = ResctrlWriter(RootedFiles(tmp_path / "none"), Hierarchy(tmp_path, Version.V1))
    with pytest.raises(FileNotFoundError):
        kind.held(Target("resctrl.group", "LS"))
    assert kind.groups() == []
