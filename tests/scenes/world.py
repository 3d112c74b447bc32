# SPDX-License-Identifier: Apache-2.0
"""All that an experiment has: cgroups, pods, a kubelet, an API server, and the agent."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from koord.kernels.cgroup_path import Driver
from koord.kernels.topology import Topology
from tests.scenes.apiserver import ApiServer
from tests.scenes.kubelet import Kubelet
from tests.scenes.nursery import Nursery
from tests.scenes.runtime import Runtime, milli
from tests.scenes.tree import Tree

NODE = "scene"


class World:
    """A node, made when it is entered and gone when it is left; parts start when first used.

    Args:
        cgroup_root: as the agent gets it.
        program: the program ``load``.
        memory_bytes: what the node says it has.
        nursery: starts programs.
        driver: the kubelet's.
        capabilities: all that the agent has; by default those of this process.

    Attributes:
        others: pods that the kubelet tells of beside the runtime's.
        api_server: starts the API server; another one before the first use of it.
    """

    def __init__(
        self,
        cgroup_root: Path,
        program: Path,
        memory_bytes: int,
        nursery: Nursery,
        driver: Driver = Driver.SYSTEMD,
        capabilities: list[str] | None = None,
    ) -> None:
        self.cgroup_root = cgroup_root
        self.nursery = nursery
        self.capabilities = capabilities
        self.cpus = os.cpu_count() or 1
        self.memory_bytes = memory_bytes
        self.topology = Topology.from_sysfs()
        self.folder = Path(tempfile.mkdtemp(prefix="koord-scene-"))
        self.tree = Tree(cgroup_root, driver)
        self.runtime = Runtime(self.tree, program)
        self.others: Callable[[], list[dict[str, Any]]] = list
        self.api_server: Callable[[Path, Nursery], ApiServer] = ApiServer
        self._started = ExitStack()
        self._hidden: list[str] = []
        self._started.callback(self.show)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()
        self.runtime.close()
        self.tree.remove("kubepods.slice" if self.tree.driver is Driver.SYSTEMD else "kubepods")
        shutil.rmtree(self.folder, ignore_errors=True)

    @cached_property
    def api(self) -> ApiServer:
        """An API server that knows the node."""
        folder = self.folder / "api"
        folder.mkdir()
        server = self.api_server(folder, self.nursery)
        self._started.callback(server.close)
        return server

    @cached_property
    def kubelet(self) -> Kubelet:
        """A kubelet that tells of the runtime's pods; callers show the API server's token."""
        kubelet = Kubelet(self.documents, self.api.certificates, self.api.token)
        self._started.callback(kubelet.stop)
        return kubelet

    def on_exit(self, call: Callable[[], object]) -> None:
        """Before the world ends, last given first."""
        self._started.callback(call)

    def hide(self, path: str) -> None:
        """Makes a file of the kernel's empty, until `show`."""
        empty = self.folder / "empty"
        empty.touch()
        subprocess.run(["mount", "--bind", str(empty), path], check=True)
        self._hidden.append(path)

    def show(self) -> None:
        """Shows again what was hidden."""
        while self._hidden:
            subprocess.run(["umount", self._hidden.pop()], check=True)

    def documents(self) -> list[dict[str, Any]]:
        """All pods as they are now."""
        return [*(pod.document(NODE) for pod in self.runtime.pods), *self.others()]

    def put_node(self, allocatable_cpu: str = "", **metadata: Any) -> None:
        """Tells the API server of the node, with its kubelet's address."""
        cpu = allocatable_cpu or str(self.cpus)
        memory = str(self.memory_bytes)
        self.api.put(
            "Node",
            NODE,
            metadata=metadata,
            status={
                "capacity": {"cpu": str(self.cpus), "memory": memory, "pods": "110"},
                "allocatable": {
                    "cpu": cpu, "memory": memory, "pods": "110",
                    "kubernetes.io/batch-cpu": str(milli(cpu)),
                    "kubernetes.io/batch-memory": memory,
                },
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.port}},
            },
        )  # fmt: skip

    def put_slo(self, **spec: Any) -> None:
        """Sets the node's NodeSLO, sections by their names on the wire."""
        self.api.put("NodeSLO", NODE, spec=spec)
