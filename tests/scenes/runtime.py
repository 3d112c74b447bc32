# SPDX-License-Identifier: Apache-2.0
"""Pods whose containers are real processes in real cgroups, as kubelet and a runtime make them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from koord.kernels import cgroup_path
from koord.kernels.cgroup_path import KubeQos
from tests.scenes.tree import Tree

_PERIOD_US = 100_000
_BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")


@dataclass
class Container:
    """A container that runs processes.

    Attributes:
        id: ``containerd://HASH``.
        directory: its cgroup.
        loads: what its processes do, e.g. ``["burn 50"]``; several are several processes.
        user: whose its processes are.
        oom_score: what the runtime gives them; None leaves that alone.
    """

    name: str
    loads: list[str]
    requests: dict[str, str]
    limits: dict[str, str]
    id: str = ""
    directory: str = ""
    user: int = 0
    oom_score: int | None = None
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """Its processes that were started, dead or alive."""
        return [process.pid for process in self.processes]

    @property
    def running(self) -> bool:
        """Whether one of its processes is alive, or it has none to begin with."""
        alive = any(process.poll() is None for process in self.processes)
        return alive or not self.processes


@dataclass
class Pod:
    """A pod with what the API says of it."""

    name: str
    containers: list[Container]
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    priority: int | None = None
    address: str = ""
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    directory: str = ""
    killed: list[str] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """Processes of all its containers."""
        return [pid for container in self.containers for pid in container.pids]

    @property
    def running(self) -> bool:
        """Whether a process of it is alive."""
        return any(container.running for container in self.containers)

    @property
    def kube_qos(self) -> KubeQos:
        """By cpu and memory of its containers, as Kubernetes does."""
        plain = [
            ({k: v for k, v in c.requests.items() if k not in _BATCH},
             {k: v for k, v in c.limits.items() if k not in _BATCH})
            for c in self.containers
        ]  # fmt: skip
        if not any(requests or limits for requests, limits in plain):
            return KubeQos.BEST_EFFORT
        whole = all(limits.keys() >= {"cpu", "memory"} and r == limits for r, limits in plain)
        return KubeQos.GUARANTEED if whole else KubeQos.BURSTABLE

    def document(self, node: str) -> dict[str, Any]:
        """As the kubelet and the API server show it."""
        spec: dict[str, Any] = {
            "nodeName": node,
            "containers": [
                {"name": c.name, "image": "load",
                 "resources": {"requests": c.requests, "limits": c.limits}}
                for c in self.containers
            ],
        }  # fmt: skip
        if self.priority is not None:
            spec["priority"] = self.priority
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name, "namespace": "default", "uid": self.uid,
                "labels": self.labels, "annotations": self.annotations,
                "creationTimestamp": "2024-01-01T00:00:00Z",
            },
            "spec": spec,
            "status": {
                "phase": "Running" if self.running else "Failed",
                "qosClass": str(self.kube_qos),
                "podIP": self.address,
                "containerStatuses": [
                    {"name": c.name, "containerID": c.id, "image": "load", "imageID": "load",
                     "ready": c.running, "restartCount": 0,
                     "state": {"running": {}} if c.running else {"terminated": {"exitCode": 137}}}
                    for c in self.containers
                ],
            },
        }  # fmt: skip


class Runtime:
    """Starts pods, ends them, and sees to it that none is left.

    Args:
        tree: where their cgroups are made.
        program: the program ``load``.
    """

    def __init__(self, tree: Tree, program: Path) -> None:
        self.tree = tree
        self.pods: list[Pod] = []
        self._program = program
        self._opened = os.open(program, os.O_RDONLY)

    def start(self, pod: Pod) -> Pod:
        """Makes the cgroups with the limits that a kubelet sets, then starts the processes."""
        driver, qos = self.tree.driver, pod.kube_qos
        pod.directory = cgroup_path.pod_directory(driver, qos, pod.uid).strip("/")
        self.tree.make(pod.directory)
        self._limit(pod.directory, pod.containers)
        for container in pod.containers:
            container.id = f"containerd://{uuid.uuid4().hex}"
            name = cgroup_path.container_name(driver, container.id)
            container.directory = f"{pod.directory}/{name}"
            self.tree.make(container.directory)
            self._limit(container.directory, [container])
        self.pods.append(pod)
        self._share()
        for container in pod.containers:
            self.add(container, container.loads)
        return pod

    def add(self, container: Container, loads: list[str]) -> None:
        """Starts further processes in a container."""
        for load in loads:
            container.processes.append(self._process(container, load))

    def stop_container(self, container_id: str) -> None:
        """Kills the processes of a container and waits for their end."""
        for pod in self.pods:
            for container in pod.containers:
                if container.id == container_id:
                    for process in container.processes:
                        with contextlib.suppress(ProcessLookupError):
                            process.send_signal(signal.SIGKILL)
                        process.wait()

    def stop(self, pod: Pod) -> None:
        """Ends a pod and removes its cgroups."""
        for container in pod.containers:
            self.stop_container(container.id)
        self.tree.remove(pod.directory)
        self.pods.remove(pod)
        self._share()

    def running(self) -> list[str]:
        """Names of the pods that still run."""
        return [pod.name for pod in self.pods if pod.running]

    def close(self) -> None:
        """Ends all pods."""
        for pod in list(self.pods):
            self.stop(pod)
        os.close(self._opened)

    def _share(self) -> None:
        """CPU shares of the classes, as the kubelet keeps them."""
        requested = sum(
            milli(container.requests.get("cpu", "0"))
            for pod in self.pods
            if pod.kube_qos is KubeQos.BURSTABLE
            for container in pod.containers
        )
        shares = {
            KubeQos.BEST_EFFORT: 2,
            KubeQos.BURSTABLE: max(2, requested * 1024 // 1000),
            KubeQos.GUARANTEED: 1024 * (os.cpu_count() or 1),
        }
        for qos, value in shares.items():
            directory = cgroup_path.qos_directory(self.tree.driver, qos).strip("/")
            self.tree.write(directory, cpu__shares=value)

    def _process(self, container: Container, load: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [str(self._program), *load.split()],
            # Whoever the container runs as may not look into the folder above.
            executable=f"/proc/self/fd/{self._opened}",
            pass_fds=(self._opened,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if load.startswith("hold") else subprocess.DEVNULL,
            preexec_fn=lambda: self._enter(container),
        )
        if process.stdout:
            process.stdout.readline()
        return process

    def _enter(self, container: Container) -> None:
        """In the process that becomes the container's."""
        self.tree.enter(container.directory)
        if container.oom_score is not None:
            Path("/proc/self/oom_score_adj").write_text(str(container.oom_score))
        os.setuid(container.user)

    def _limit(self, directory: str, containers: list[Container]) -> None:
        requested = sum(milli(c.requests.get("cpu", "0")) for c in containers)
        values = {"cpu__shares": max(2, requested * 1024 // 1000)}
        limits = [milli(c.limits.get("cpu", "0")) for c in containers]
        if all(limits):
            values["cpu__cfs_quota_us"] = sum(limits) * _PERIOD_US // 1000
        memory = [c.limits.get("memory") for c in containers]
        if all(memory):
            values["memory__limit_in_bytes"] = sum(size(text) for text in memory if text)
        self.tree.write(directory, **values)


def milli(text: str) -> int:
    """Milli-cores of a quantity such as ``500m`` or ``2``."""
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def size(text: str) -> int:
    """Bytes of a quantity such as ``64Mi``."""
    return int(text[:-2]) * 2**20 if text.endswith("Mi") else int(text)


def pod(
    name: str,
    loads: list[str],
    qos: str = "",
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    **more: Any,
) -> Pod:
    """A pod with one container; `more` are further attributes of :class:`Pod`."""
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    labels.update(more.pop("labels", {}))
    container = Container("main", loads, requests or {}, limits or {})
    return Pod(name, [container], labels=labels, **more)


def wait_until(what: str, seconds: float, check: Any) -> float:
    """Waits until `check()` is true; gives how long that took.

    Raises:
        AssertionError: it was not in time.
    """
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if check():
            return time.monotonic() - began
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
