# SPDX-License-Identifier: Apache-2.0
"""Real v1 cgroups in a subtree of their own, made and taken away again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from koord.agent.host.cgroup_layout import CgroupLayout
from koord.api.kinds.pod import Pod
from koord.kernels.cgroup_path import KubeQos

ROOT = Path("/sys/fs/cgroup")
SUBSYSTEMS = ("cpu", "cpuacct", "memory", "cpuset")


@dataclass(frozen=True)
class SubtreeLayout(CgroupLayout):
    """The kubelet's layout below one directory of the hierarchy."""

    prefix: str = ""

    def qos(self, qos: KubeQos) -> str:
        return f"{self.prefix}/{super().qos(qos)}"

    def pod(self, pod: Pod) -> str:
        return f"{self.prefix}/{super().pod(pod)}"


def why_not() -> str:
    """Why no cgroups can be made here; empty where they can."""
    for subsystem in SUBSYSTEMS:
        if not os.access(ROOT / subsystem, os.W_OK) or not (ROOT / subsystem / "tasks").exists():
            return f"{ROOT / subsystem} is no v1 hierarchy that can be written"
    return ""


@contextmanager
def subtree() -> Iterator[str]:
    """The name of a new cgroup in every hierarchy; what is in it is removed at the end."""
    name = f"koord-test-{os.getpid()}-{secrets.token_hex(4)}"
    make(name)
    try:
        yield name
    finally:
        for subsystem in SUBSYSTEMS:
            for directory, _, _ in os.walk(ROOT / subsystem / name, topdown=False):
                os.rmdir(directory)  # noqa: PTH106 (rmdir alone takes a cgroup with its files away)


def make(directory: str) -> None:
    """A cgroup, with those above it, in every hierarchy; its CPU set is that of the machine."""
    for subsystem in SUBSYSTEMS:
        path = ROOT / subsystem
        for part in directory.split("/"):
            parent, path = path, path / part
            path.mkdir(exist_ok=True)
            if subsystem == "cpuset":
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (path / file).write_text((parent / file).read_text())
