# SPDX-License-Identifier: Apache-2.0
"""koordlet as a process of its own, which can be killed and started again."""

from __future__ import annotations

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any

from tests.scenes.runtime import wait_until
from tests.scenes.world import NODE, World

# Under emulation a start takes long.
_START_SECONDS = 180.0
_ANSWER_SECONDS = 20.0
# One of the fields of a line of the log.
_WORD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')


class Agent:
    """The agent of a world's node.

    Args:
        world: whose node.
        gates: as ``--feature-gates`` takes them.
        force_seconds: how often files are compared, and edits by hand put back.
        flags: further ones.
    """

    def __init__(
        self, world: World, gates: str = "", force_seconds: int = 5, flags: Iterable[str] = ()
    ) -> None:
        self._world = world
        self._starts = 0
        self._port = free_port()
        folder = world.folder
        self._arguments = [
            "--node-name", NODE,
            "--kubeconfig", str(world.api.kubeconfig),
            "--cgroup-root-dir", str(world.cgroup_root),
            "--state-dir", str(folder / "state"),
            "--var-lib-kubelet-dir", str(folder / "kubelet"),
            "--audit-log-dir", str(folder / "audit"),
            "--prediction-checkpoint-filepath", str(folder / "checkpoints"),
            "--feature-gates", gates,
            "--resource-force-update-seconds", str(force_seconds),
            "--kubelet-sync-interval", "1s",
            "--addr", f"127.0.0.1:{self._port}",
            "-v", "4",
            *flags,
        ]  # fmt: skip
        self.start()

    def start(self, wait: bool = True) -> None:
        """Starts it, by default until strategies and hooks run."""
        self._starts += 1
        self.log = self._world.folder / f"agent-{self._starts}.log"
        self._process = self._world.nursery.start(
            "koord.cli.daemons.koordlet",
            self._arguments,
            self.log,
            {"agent_mode": "hostMode"},
            self._world.capabilities,
        )
        self._world.on_exit(self.kill)
        if wait:
            took = wait_until("the agent is ready", _START_SECONDS, self._ready)
            print(f"agent ready after {took:.1f} s", flush=True)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def stop(self) -> None:
        """SIGTERM, and waits for its end."""
        self._process.send(signal.SIGTERM)
        self._process.wait(_START_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.alive

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def status(self) -> dict[str, Any]:
        """What it sees, decided and wrote last."""
        found: dict[str, Any] = json.loads(self._get("/status"))
        return found

    def check_health(self) -> None:
        """It says that it lives; OSError where it does not."""
        self._get("/healthz")

    def strategy(self, name: str) -> dict[str, Any]:
        """The last round of a strategy: ``decided`` and ``error``; both empty before the first."""
        found = [each for each in self.status()["strategies"] if each["name"] == name]
        return found[0] if found else {"decided": {}, "error": ""}

    def rounds(self, name: str) -> list[dict[str, str]]:
        """What a strategy saw and decided in every round that it could finish, as it logged it."""
        return rounds_in(self.lines(), name)

    def wait_rounds(self, name: str, count: int, seconds: float = 90.0) -> None:
        """Waits for so many more rounds of a strategy."""
        wanted = len(self.rounds(name)) + count
        wait_until(f"{count} rounds of {name}", seconds, lambda: len(self.rounds(name)) >= wanted)

    def troubles(self) -> list[str]:
        """What the kernel refused or it could not compute, by now and since its start."""
        status = self.status()
        now = [str(each) for each in status["failures"] + status["hookProblems"]]
        refused = ("claim refused", "Invalid argument", "Traceback", "EINVAL")
        said = [line for line in self.lines() if any(word in line for word in refused)]
        return now + said

    def words(self) -> str:
        """The end of its log, for messages."""
        return "\n".join(self.lines())[-3000:]

    def lines(self) -> list[str]:
        """Its log since its start."""
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()

    def _ready(self) -> bool:
        if not self.alive:
            raise AssertionError(f"the agent ended: {self.words()}")
        try:
            self._get("/readyz")
        except (urllib.error.URLError, OSError):
            return False
        return True

    def _get(self, path: str) -> bytes:
        url = f"http://127.0.0.1:{self._port}{path}"
        with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:
            body: bytes = answer.read()
        return body


def rounds_in(lines: Iterable[str], name: str) -> list[dict[str, str]]:
    """What a strategy saw and decided in every round that it could finish, by its agent's log."""
    start = f" component=agent.strategies message=round strategy={name} "
    return [
        {key: value.strip('"') for key, value in _WORD.findall(line)}
        for line in lines
        if start in line
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
