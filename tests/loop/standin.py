# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a machine and its kubelet: cgroups as plain files, pods that run once bound.

No kernel enforces what is written here, and no process runs: a pod uses the CPU that a test says.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from koord.agent.states.pod_state import PodState, pod_state
from koord.api.kinds.pod import Pod
from koord.api.objects import decode_as
from koord.base.clock import Clock
from koord.kernels.cgroup_parse import Version
from koord.kube.client import Client
from koord.kube.transport.messages import MERGE_PATCH, Request, Response, Stream
from tests.agent.day.plant import Plant
from tests.agent.machine_tree import GIB, MIB, TICKS_PER_SECOND

CPUS = 4
SYSTEM_CORES = 0.2
_POD_BYTES = 100 * MIB
_LOOK_SECONDS = 0.5
_STARTED = "2030-03-17T17:46:40Z"


class StandInHost(Plant):
    """Four CPUs and 16 GiB whose counters follow what its pods are said to use.

    Attributes:
        cores: what each pod uses, by name; nothing where none is told.
    """

    def __init__(self, root: Path, version: Version) -> None:
        super().__init__(root, version, random.Random(1))
        self.cores: dict[str, float] = {}
        self.pods: dict[str, PodState] = {}
        self._ticks = 0.0
        self.tree.meminfo(total=16 * GIB, free=12 * GIB, available=14 * GIB)

    def run_for(self, seconds: float) -> None:
        """Counters after a while in which every pod used what it uses."""
        used = {name: self.cores.get(name, 0.0) for name in self.pods}
        self._ticks += (SYSTEM_CORES + sum(used.values())) * seconds * TICKS_PER_SECOND / CPUS
        self.tree.stat([int(self._ticks)] * CPUS)
        for name, pod in self.pods.items():
            for directory in (pod.directory, *(each.directory for each in pod.containers)):
                self._groups[directory].usage_ns += int(used[name] * seconds * 1e9)
                self._tell_usage(directory)

    def start(self, pod: PodState) -> None:
        """Cgroups of a pod, with memory that stays as it is."""
        super().start(pod)
        for directory in (pod.directory, *(each.directory for each in pod.containers)):
            self._groups[directory].anon = _POD_BYTES
            self._count(directory, self._groups[directory])
        self.pods[pod.pod.metadata.name] = pod

    def _tell_usage(self, directory: str) -> None:
        usage_ns = self._groups[directory].usage_ns
        if self.tree.version is Version.V1:
            self.tree.write(f"sys/fs/cgroup/cpuacct/{directory}/cpuacct.usage", f"{usage_ns}\n")
            return
        text = f"usage_usec {usage_ns // 1000}\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
        self.tree.write(f"sys/fs/cgroup/{directory}/cpu.stat", text)

    def says(self, resource: str, directory: str) -> str:
        """What a file of a cgroup says now."""
        return self.file(resource, directory).read_text(encoding="ascii").strip()


class StandInKubelet:
    """Starts what is bound to its node, and answers the agent's questions: a transport to it.

    Args:
        client: the way to the API server.
        node: whose kubelet.
        host: where the cgroups of its pods are made.
        clock: how far counters move.
        step_seconds: how often they do.
    """

    def __init__(
        self, client: Client, node: str, host: StandInHost, clock: Clock, step_seconds: float
    ) -> None:
        self._client, self._node, self._host = client, node, host
        self._clock, self._step_seconds = clock, step_seconds
        self._documents: list[dict[str, Any]] = []

    async def run(self) -> None:
        """Lives until cancelled."""
        before, looked = self._clock.monotonic_seconds(), float("-inf")
        while True:
            if before - looked >= _LOOK_SECONDS:
                looked = before
                await self._look()
            await asyncio.sleep(self._step_seconds)
            now = self._clock.monotonic_seconds()
            self._host.run_for(now - before)
            before = now

    async def send(self, request: Request) -> Response:
        """What the kubelet serves; see :class:`koord.kube.transport.messages.Transport`."""
        if request.path == "/pods/":
            return Response(200, json.dumps({"items": self._documents}).encode())
        assert request.path == "/configz"
        return Response(200, b'{"kubeletconfig":{"cpuManagerPolicy":"none"}}')

    async def open(self, request: Request) -> Stream:
        """Nothing of a kubelet is watched."""
        raise AssertionError(request.path)

    async def close(self) -> None:
        """Nothing is held."""

    async def _look(self) -> None:
        answer = await self._client.request(Request("GET", "/api/v1/pods"))
        items = json.loads(answer.body)["items"]
        mine = [item for item in items if item["spec"].get("nodeName") == self._node]
        self._documents = [await self._started(item) for item in mine]

    async def _started(self, document: dict[str, Any]) -> dict[str, Any]:
        """A pod that runs, with its cgroups; started first where it does not yet."""
        name = document["metadata"]["name"]
        if name in self._host.pods:
            return document
        path = f"/api/v1/namespaces/{document['metadata']['namespace']}/pods/{name}/status"
        body = json.dumps({"status": _running(document)}).encode()
        request = Request("PATCH", path, body=body, content_type=MERGE_PATCH)
        started: dict[str, Any] = json.loads((await self._client.request(request)).body)
        pod = pod_state(decode_as(json.dumps(started).encode(), Pod), self._host.machine.layout)
        self._host.start(pod)
        return started


def _running(document: dict[str, Any]) -> dict[str, Any]:
    state = {"running": {"startedAt": _STARTED}}
    statuses = [
        {"name": each["name"], "image": each["image"], "imageID": each["image"], "ready": True,
         "containerID": f"containerd://{document['metadata']['name']}-{each['name']}",
         "restartCount": 0, "state": state}
        for each in document["spec"]["containers"]
    ]  # fmt: skip
    return {"phase": "Running", "startTime": _STARTED, "containerStatuses": statuses}
