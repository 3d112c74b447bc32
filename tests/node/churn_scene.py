# SPDX-License-Identifier: Apache-2.0
"""Containers come and go, and what is left of them: ``python -m tests.node.churn_scene ORDER``."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from tests.node.cri import CriPod
from tests.node.inside import write_figures
from tests.node.machine import CGROUP, RealNode, until
from tests.node.proxy_koordlet_scene import KoordletNode
from tests.node.scene import Pods, read

# As many containers one after the other in a pod, as where one fails and is made again.
_IN_A_POD = 2
_AT_A_TIME = 4
# One of so many pods has a CPU of its own.
_BOUND_OF = 4
_FORGOTTEN_SECONDS = 60.0
_COMMAND = ["/bin/sleep", "100000"]
_BOUND: dict[str, Any] = {"cpu_shares": 1024, "cpu_quota": 100_000, "cpu_period": 100_000}
_BATCH: dict[str, Any] = {"cpu_shares": 2, "oom_score_adj": 1000}


class Churn:
    """Pods that come and go.

    Args:
        node: where.
        pods: who makes them.

    Attributes:
        directories: of all that there were.
    """

    def __init__(self, node: RealNode, pods: Pods) -> None:
        self._node, self._pods = node, pods
        self._cpu = Lock()
        self.directories: list[str] = []

    def come_and_go(self, number: int) -> int:
        """A pod from its beginning to its end; how many of its containers had what hooks want."""
        name = f"pod-{number}"
        if number % _BOUND_OF:
            return self._life(self._pods.batch(name), bound=False)
        # A CPU is one pod's at a time, and free once koordlet knows that the pod before has gone.
        with self._cpu:
            pod = self._pods.bound(name, "1")
            right = self._life(pod, bound=True)
            until("koordlet forgets the pod", lambda: pod.uid not in json.dumps(self._known()))
        return right

    def _known(self) -> list[Any]:
        known: list[Any] = self._node.status()["pods"]
        return known

    def _life(self, pod: CriPod, *, bound: bool) -> int:
        self.directories.append(pod.directory)
        sandbox = self._node.cri.run_pod(pod)
        right = sum(self._container(sandbox, pod, bound=bound) for _ in range(_IN_A_POD))
        self._node.cri.remove(sandbox)
        self._pods.delete(pod)
        return right

    def _container(self, sandbox: str, pod: CriPod, *, bound: bool) -> bool:
        node = self._node
        container = node.cri.create(sandbox, pod, _COMMAND, **(_BOUND if bound else _BATCH))
        node.cri.start(container)
        file, wanted = ("cpuset.cpus", "1") if bound else ("cpu.shares", "512")
        found = read(node, pod, container)[file]
        node.cri.end(container)
        return found == wanted


def run(folder: Path, order: dict[str, Any]) -> dict[str, Any]:
    """By NRI, or through the proxy with koordlet as its hook server."""
    node: RealNode
    if order["way"] == "NRI":
        node = RealNode(folder)
        node.start_koordlet()
        pods, programs = Pods(node), ["koordlet"]
    else:
        node = KoordletNode(folder)
        node.start_hook_server()
        pods, programs = node.pods, ["koordlet", "proxy"]
    before = {name: _descriptors(node, name) for name in programs}
    churn = Churn(node, pods)
    numbers = range(order["containers"] // _IN_A_POD)
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        right = sum(threads.map(churn.come_and_go, numbers))
    found: dict[str, Any] = {"containers": _IN_A_POD * len(numbers), "right": right}
    until("koordlet has forgotten", lambda: not _left(node)["koordlet"], _FORGOTTEN_SECONDS)
    # Theirs alone: a hierarchy that has no directory of this node's own has others' pods too.
    kept = [str(p) for each in churn.directories for p in CGROUP.glob(f"*/{each}")]
    found["left"] = {**_left(node), "cgroups": kept}
    found["descriptors"] = {name: (before[name], _descriptors(node, name)) for name in programs}
    found["runtime"] = node.status()["runtime"]
    found["complaints"] = [
        line for name in programs for line in node.log(name).splitlines() if "Traceback" in line
    ]  # fmt: skip
    return found


def _left(node: RealNode) -> dict[str, Any]:
    """What is left of pods; nothing is an empty list or 0."""
    status, journal = node.status(), node.folder / "state" / "executor.journal"
    known = [each["directory"] for each in (*status["files"], *status["failures"])]
    kept = [str(line) for line in json.loads(journal.read_text().partition("\n")[2])]
    left = {
        "koordlet": [*status["pods"], *_of_pods(known), *_of_pods(kept), *_open(node, "koordlet")],
        "runtime": node.containers(),
    }
    if isinstance(node, KoordletNode):
        proxy = node.proxy_status()
        left["proxy"] = proxy["pods"] + proxy["containers"] + len(node.pod_files())
        left["open"] = _open(node, "proxy")
    return left


def _of_pods(lines: Any) -> list[str]:
    return [line for line in lines if "/pod" in line]


def _open(node: RealNode, program: str) -> list[str]:
    """Files of pods' cgroups that a program has open."""
    targets = []
    for each in _files(node, program):
        with contextlib.suppress(FileNotFoundError):  # closed since they were listed
            targets.append(str(each.readlink()))
    return _of_pods(targets)


def _descriptors(node: RealNode, program: str) -> int:
    return len(_files(node, program))


def _files(node: RealNode, program: str) -> list[Path]:
    return list(Path(f"/proc/{node.process(program)}/fd").iterdir())


if __name__ == "__main__":
    write_figures(run)
