# SPDX-License-Identifier: Apache-2.0
"""A node whose pods, processes and settings change from round to round, for core scheduling."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.vectors.agent import documents

if TYPE_CHECKING:
    from random import Random

_GROUP = "koordinator.sh/core-sched-group-id"
_POLICY = "koordinator.sh/core-sched-policy"
_CLASSES = ("lsrClass", "lsClass", "beClass")


def case(rng: Random) -> dict[str, Any]:
    """One to five rounds, a minute apart at most."""
    world = _World(rng)
    rounds = [world.round()]
    for _ in range(rng.choice([0, 1, 2, 3, 4])):
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            world.change()
        rounds.append(world.round())
    return {"cookies": world.cookies, "rounds": rounds}


class _World:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._next = 1
        self._made = 0
        self._pods: dict[str, dict[str, Any]] = {}
        self._tasks: dict[str, list[int]] = {}
        self._born: dict[str, int] = {}
        self._gone: list[int] = []
        self._restart = False
        self._slo = self._settings()
        self.cookies: dict[str, int] = {}
        for _ in range(rng.choice([1, 2, 3, 4])):
            self._add()
        if rng.random() < 0.25:
            self._inherit()
        self._born = {}

    def round(self) -> dict[str, Any]:
        """What there is now, and what happened since the round before."""
        living = [pid for pids in self._tasks.values() for pid in pids]
        # Such as an earlier agent gave a cookie are never refused: what is left of it then says
        # nothing of either agent.
        often = 0.0 if self.cookies else 0.015
        refusing = [pid for pid in living if self._rng.random() < often]
        found = {
            "slo": self._slo, "pods": list(self._pods.values()), "tasks": self._tasks,
            "born": self._born, "gone": self._gone, "refusing": refusing,
            "restart": self._restart,
        }  # fmt: skip
        self._born, self._gone, self._restart = {}, [], False
        told: dict[str, Any] = json.loads(json.dumps(found))
        return told

    def change(self) -> None:
        """One thing."""
        steps = [self._add, self._remove, self._relabel, self._fork, self._exit, self._recreate,
                 self._reconfigure, self._again]  # fmt: skip
        self._rng.choices(steps, [3, 2, 3, 4, 3, 3, 3, 1])[0]()

    def _inherit(self) -> None:
        """Cookies as an earlier agent left them, which knew nothing of processes since."""
        groups: dict[str, int] = {}
        for pod in self._pods.values():
            labels = pod["metadata"]["labels"]
            group = labels.get(_GROUP, "")
            if labels.get(_POLICY) == "exclusive":
                group = pod["metadata"]["uid"]
            cookie = groups.setdefault(group, 51 + len(groups))
            for directory, pids in self._tasks.items():
                inside = directory.startswith(f"{documents.directory(pod)}/")
                if inside and labels.get(documents.QOS) != "SYSTEM" and self._rng.random() < 0.8:
                    self.cookies |= {str(pid): cookie for pid in pids}

    def _settings(self) -> dict[str, Any]:
        rng = self._rng
        strategy: dict[str, Any] = {}
        for name in _CLASSES:
            enabled = rng.random() < 0.8
            # As NodeSLOs are merged, what is switched off says nothing else.
            own = {
                "enable": enabled, "groupIdentity": 0,
                "coreExpeller": enabled and rng.random() < 0.5,
                "schedIdle": rng.choice([0, 0, 1]) if enabled else 0,
            }  # fmt: skip
            strategy[name] = {"cpuQOS": own}
        policy = rng.choice(["coreSched"] * 6 + ["groupIdentity", ""])
        strategy["policies"] = rng.choice([{"cpuPolicy": policy}] * 9 + [{}])
        return {"resourceQOSStrategy": strategy}

    def _labels(self) -> dict[str, str]:
        rng, found = self._rng, {}
        if rng.random() < 0.6:
            found[_GROUP] = rng.choice(["a", "a", "b", ""])
        if rng.random() < 0.3:
            found[_POLICY] = rng.choice(["none", "exclusive", "other", ""])
        if qos := rng.choice(["LS", "LS", "LSR", "LSE", "BE", "SYSTEM", ""]):
            found[documents.QOS] = qos
        return found

    def _add(self) -> None:
        rng = self._rng
        self._made += 1
        name = f"p{self._made}"
        containers = [documents.container(f"c{at}") for at in range(rng.choice([1, 1, 2]))]
        states = [rng.choice(["running"] * 9 + ["waiting"]) for _ in containers]
        pod = documents.pod(
            name, containers, states=states, labels=self._labels(),
            kube=rng.choice(["Burstable", "Guaranteed", "BestEffort"]),
            phase=rng.choice(["Running"] * 8 + ["Pending"]),
        )  # fmt: skip
        pod["metadata"]["creationTimestamp"] = f"2024-01-01T00:{self._made:02}:00Z"
        self._pods[name] = pod
        self._tasks[sandbox(pod)] = self._new(1)
        for status in pod["status"]["containerStatuses"]:
            count = rng.choice([0, 1, 1, 2, 3]) if "running" in status["state"] else 0
            self._tasks[place(pod, status)] = self._new(count)

    def _new(self, count: int, parent: int = 0) -> list[int]:
        pids = list(range(self._next, self._next + count))
        self._next += count
        self._born |= {str(pid): parent for pid in pids}
        return pids

    def _any(self) -> dict[str, Any] | None:
        return self._rng.choice(list(self._pods.values())) if self._pods else None

    def _remove(self) -> None:
        if pod := self._any():
            del self._pods[pod["metadata"]["name"]]
            beneath = documents.directory(pod)
            for directory in [each for each in self._tasks if each.startswith(f"{beneath}/")]:
                self._gone += self._tasks.pop(directory)

    def _relabel(self) -> None:
        if pod := self._any():
            qos = pod["metadata"]["labels"].get(documents.QOS)
            pod["metadata"]["labels"] = self._labels()
            if self._rng.random() < 0.7:
                # Classes seldom change.
                pod["metadata"]["labels"].pop(documents.QOS, None)
                pod["metadata"]["labels"] |= {documents.QOS: qos} if qos else {}

    def _fork(self) -> None:
        directory = self._rng.choice(list(self._tasks) or [""])
        if pids := self._tasks.get(directory):
            # Of a process here, or brought in from outside.
            pids += self._new(1, self._rng.choice([*pids, 0]))

    def _exit(self) -> None:
        directory = self._rng.choice(list(self._tasks) or [""])
        if pids := self._tasks.get(directory):
            pid = self._rng.choice(pids)
            pids.remove(pid)
            self._gone.append(pid)

    def _recreate(self) -> None:
        """A container that ends and is made anew."""
        if pod := self._any():
            status = self._rng.choice(pod["status"]["containerStatuses"])
            self._made += 1
            self._gone += self._tasks.pop(place(pod, status))
            status["containerID"] = f"containerd://x{self._made}"
            status["state"] = {"running": {}}
            self._tasks[place(pod, status)] = self._new(self._rng.choice([1, 2]))

    def _reconfigure(self) -> None:
        self._slo = self._settings()

    def _again(self) -> None:
        self._restart = True


def place(pod: dict[str, Any], status: dict[str, Any]) -> str:
    """A container's cgroup."""
    number = status["containerID"].removeprefix("containerd://")
    return f"{documents.directory(pod)}/cri-containerd-{number}.scope"


def sandbox(pod: dict[str, Any]) -> str:
    """The cgroup of a pod's sandbox."""
    return f"{documents.directory(pod)}/cri-containerd-{pod['metadata']['name']}-box.scope"
