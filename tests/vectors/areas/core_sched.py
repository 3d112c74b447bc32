# SPDX-License-Identifier: Apache-2.0
"""CoreSched: which processes have which cookie after each round, and which classes are idle."""

from __future__ import annotations

import errno
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.core_sched import CoreSchedWriter
from koord.agent.hooks.builtin.core_sched import IDLE, CoreSched, group_of, rule_of
from koord.agent.hooks.options import HookOptions
from koord.agent.hooks.pod_contexts import pod_context
from koord.agent.hooks.reconciliation.reconciler import Reconciler
from koord.agent.host.kernel.features import Feature
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.api.protocol.qos import QoSClass
from koord.base.clock import VirtualClock
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import KubeQos
from tests.agent.strategies.fakes import machine
from tests.vectors.agent import core_sched_world
from tests.vectors.agent.scene import slo_of, state
from tests.vectors.area import Difference

SEED = 20273
_COUNT = 320
_ROUND_SECONDS = 10.0
# A journal that waits for a disk takes most of a case's time.
_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Histories of up to four pods at first."""
    return [core_sched_world.case(rng) for _ in range(_COUNT)]


def answer(case: dict[str, Any]) -> object:
    """Cookies of living processes by the order in which they are first seen, and idle classes."""
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as root:
        node = _Node(Path(root), case["cookies"])
        return [node.round(each) for each in case["rounds"]]


class _Kernel:
    """Cookies of processes."""

    def __init__(self, cookies: dict[str, int]) -> None:
        self.of = {int(pid): cookie for pid, cookie in cookies.items()}
        self.tasks: dict[str, list[int]] = {}
        self._gone: set[int] = set()
        self._refusing: set[int] = set()
        self._next = 1000

    def change(self, happened: dict[str, Any]) -> None:
        for pid, parent in happened["born"].items():
            self.of[int(pid)] = self.of.get(parent, 0)
        self._gone |= set(happened["gone"])
        self._refusing = set(happened["refusing"])
        self.tasks = happened["tasks"]

    def processes(self, directory: str) -> list[int]:
        if directory not in self.tasks:
            raise OSError(errno.ENOENT, "no such cgroup")
        return list(self.tasks[directory])

    def get(self, pid: int) -> int:
        if number := self._refusal(pid):
            raise OSError(number, "refused")
        return self.of.get(pid, 0)

    def create(self, pid: int) -> None:
        if number := self._refusal(pid):
            raise OSError(number, "refused")
        self.of[pid] = self._next
        self._next += 1

    def assign(self, source: int, pids: Iterable[int]) -> dict[int, int]:
        return self._put(self.get(source), pids)

    def clear(self, pids: Iterable[int]) -> dict[int, int]:
        return self._put(0, pids)

    def _put(self, cookie: int, pids: Iterable[int]) -> dict[int, int]:
        failed = {pid: number for pid in pids if (number := self._refusal(pid))}
        self.of |= dict.fromkeys(set(pids) - failed.keys(), cookie)
        return failed

    def _refusal(self, pid: int) -> int:
        return errno.ESRCH if pid in self._gone else errno.EPERM if pid in self._refusing else 0

    def numbered(self) -> dict[str, int]:
        living = [pid for pids in self.tasks.values() for pid in pids]
        return _numbered({str(pid): self.of.get(pid, 0) for pid in living})


class _Node:
    """One agent on one kernel."""

    def __init__(self, root: Path, cookies: dict[str, int]) -> None:
        self._kernel, self._clock = _Kernel(cookies), VirtualClock()
        self._root, self._machine = root, machine(root, version=Version.V1)
        self._start()

    def _start(self) -> None:
        kind = CoreSchedWriter(self._kernel, self._kernel.processes)
        journal = Journal(self._root / "state", "boot")
        # What is not claimed after a restart is given back in the first round.
        settings = ExecutorOptions(Version.V1, grace_seconds=_ROUND_SECONDS / 2)
        executor = HostExecutor([kind], journal, self._clock, settings)
        self._reconciler = Reconciler(
            [_hook({Feature.CORE_SCHED})], executor, self._machine, _sandbox
        )
        self._classes = _hook({Feature.CORE_SCHED, Feature.CPU_IDLE})

    def round(self, given: dict[str, Any]) -> dict[str, Any]:
        self._kernel.change(given)
        if given["restart"]:
            self._start()
        self._clock.advance(_ROUND_SECONDS)
        snapshot = Snapshot(
            slo=Timestamped(slo_of(given)),
            pods=Timestamped(tuple(state(pod) for pod in given["pods"])),
        )
        self._reconciler.changed(snapshot)
        self._reconciler.tick()
        self._classes.learn(snapshot)
        return {"cookies": self._kernel.numbered(), "idle": self._idle()}

    def _idle(self) -> dict[str, int]:
        answers = {kube.value: self._classes.kube_qos(kube) for kube in KubeQos}
        return {kube: int(told.values[IDLE]) if told else 0 for kube, told in answers.items()}


def _hook(has: set[Feature]) -> CoreSched:
    return CoreSched(HookOptions(gate=lambda _: True, has=lambda feature: feature in has))


def _sandbox(pod: Any) -> str:
    """Its directory, as the cases have it."""
    return f"{pod.directory}/cri-containerd-{pod.pod.metadata.name}-box.scope"


def _groups(given: dict[str, Any]) -> dict[int, str]:
    """The core scheduling group of each process that has one."""
    rule, found = rule_of(slo_of(given)), {}
    for pod in map(state, given["pods"]):
        group = group_of(rule, pod_context(pod))
        for directory, pids in given["tasks"].items():
            if group is not None and directory.startswith(f"{pod.directory}/"):
                found |= dict.fromkeys(pids, group)
    return found


def _of_others(case: Any, theirs: Any, ours: Any) -> Any:
    """koord's own answer, if it gave the original's without cookies that belong to no group."""
    grouped = _groups(case["rounds"][0])
    left = {pid: cookie for pid, cookie in case["cookies"].items() if int(pid) in grouped}
    twin = json.loads(json.dumps(case)) | {"cookies": left}
    if left == case["cookies"] or json.loads(json.dumps(answer(twin))) != theirs:
        return theirs
    return ours


def _of_system(case: Any, theirs: Any, ours: Any) -> Any:
    """The original's cookies without those that processes of SYSTEM pods have from before."""
    grouped: set[int] = set()
    rounds = []
    for given, told, own in zip(case["rounds"], theirs, ours, strict=True):
        kept = dict(told["cookies"])
        for pod in map(state, given["pods"]):
            inside = [pids for at, pids in given["tasks"].items() if f"{pod.directory}/" in at]
            system = {pid for pids in inside for pid in pids if pod.qos is QoSClass.SYSTEM}
            kept |= {str(pid): 0 for pid in system & grouped if not own["cookies"][str(pid)]}
        grouped |= _groups(given).keys()
        rounds.append({**told, "cookies": _numbered(kept)})
    return rounds


def _numbered(cookies: dict[str, int]) -> dict[str, int]:
    """By the order in which they are first seen."""
    numbers = {0: 0}
    in_order = sorted(cookies, key=int)
    return {pid: numbers.setdefault(cookies[pid], len(numbers)) for pid in in_order}


def _shared(case: Any, rounds: Any) -> bool:
    """Whether processes of two groups ever have one cookie."""
    for given, told in zip(case["rounds"], rounds, strict=True):
        groups: dict[int, set[str]] = {}
        for pid, group in _groups(given).items():
            groups.setdefault(told["cookies"][str(pid)], set()).add(group)
        groups.pop(0, None)
        if any(len(each) > 1 for each in groups.values()):
            return True
    return False


DIFFERENCES = {
    "hooks-cookie-others": Difference(
        "the original clears cookies that it finds at its start on pods without core scheduling",
        adjusted=_of_others,
    ),
    "hooks-cookie-system": Difference(
        "the original leaves a pod that becomes SYSTEM with the cookie that it has",
        adjusted=_of_system,
    ),
    "hooks-cookie-adoption": Difference(
        "two groups whose processes an earlier agent gave one cookie keep it at the original",
        lambda case, theirs, ours: _shared(case, theirs) and not _shared(case, ours),
    ),
}  # fmt: skip
_UNREADY = "what is left are null contexts, and kernels and rules that are not ready"
_FAILURES = "what is left are processes that end between two looks, and failures of reads"
COVERAGE = {
    "core_sched.go:SetContainerCookie": _UNREADY,
    "core_sched.go:SetKubeQOSCPUIdle": _UNREADY,
    "coresched/rule.go:ruleUpdateCb": _UNREADY,
    "coresched/helper.go:addCookie": _FAILURES,
    "coresched/helper.go:clearCookie": _FAILURES,
    "coresched/helper.go:getContainerPIDs": _FAILURES,
}
