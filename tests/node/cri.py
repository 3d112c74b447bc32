# SPDX-License-Identifier: Apache-2.0
"""What a kubelet asks of a container runtime, in a few calls of CRI."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from koord.delivery.proto import types_of

CRI: Any = types_of("cri.proto", Path(__file__).with_name("cri.proto").read_text(encoding="utf-8"))
IMAGE, PAUSE_IMAGE = "example.test/busybox:1", "example.test/pause:1"
_SERVICE = "/runtime.v1.RuntimeService"
_SECONDS = 60.0 * float(os.environ.get("KOORD_NODE_PATIENCE", "1"))
_HOST_NETWORK = 2


@dataclass(frozen=True)
class CriPod:
    """A pod as a kubelet tells a runtime of it."""

    name: str
    uid: str
    directory: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class CriClient:
    """One runtime's.

    Args:
        socket: where it listens.
        logs: folder for what containers print.
    """

    def __init__(self, socket: str, logs: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix://{socket}")
        self._logs = logs

    def _call(self, method: str, asked: Any, kind: str = "Nothing") -> Any:
        call = self._channel.unary_unary(
            f"{_SERVICE}/{method}", lambda m: m.SerializeToString(), getattr(CRI, kind).FromString
        )
        return call(asked, timeout=_SECONDS)

    def version(self) -> str:
        """Its name and version."""
        found = self._call("Version", CRI.Nothing(), "VersionResponse")
        return f"{found.runtime_name} {found.runtime_version}"

    def run_pod(self, pod: CriPod) -> str:
        """Makes a sandbox; gives its id."""
        asked = CRI.RunPodSandboxRequest(config=self._config(pod))
        return str(self._call("RunPodSandbox", asked, "Sandbox").pod_sandbox_id)

    def _config(self, pod: CriPod) -> Any:
        made = CRI.PodSandboxConfig(log_directory=str(self._logs))
        made.metadata.name, made.metadata.uid = pod.name, pod.uid
        made.metadata.namespace = "default"
        made.linux.cgroup_parent = f"/{pod.directory}"
        made.linux.security_context.namespace_options.network = _HOST_NETWORK
        for key, value in pod.labels.items():
            made.labels.add(key=key, value=value)
        for key, value in pod.annotations.items():
            made.annotations.add(key=key, value=value)
        return made

    def create(
        self, sandbox: str, pod: CriPod, command: list[str], name: str = "main", **resources: Any
    ) -> str:
        """Makes a container; gives its id."""
        made = CRI.ContainerConfig(command=command, log_path=f"{pod.name}.log")
        made.metadata.name, made.image.image = name, IMAGE
        made.linux.security_context.namespace_options.network = _HOST_NETWORK
        for key, value in resources.items():
            setattr(made.linux.resources, key, value)
        asked = CRI.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=made, sandbox_config=self._config(pod)
        )
        return str(self._call("CreateContainer", asked, "OneContainer").container_id)

    def start(self, container: str) -> None:
        """Starts it."""
        self._call("StartContainer", CRI.OneContainer(container_id=container))

    def update(self, container: str, **resources: Any) -> None:
        """Changes its resources."""
        asked = CRI.UpdateContainerResourcesRequest(container_id=container)
        for name, value in resources.items():
            setattr(asked.linux, name, value)
        self._call("UpdateContainerResources", asked)

    def started_at(self, container: str) -> int:
        """When it started, in nanoseconds; 0 where it does not run."""
        asked = CRI.OneContainer(container_id=container)
        found = self._call("ContainerStatus", asked, "ContainerStatusResponse").status
        return int(found.started_at) if found.state == 1 else 0

    def remove(self, sandbox: str, container: str = "") -> None:
        """Ends a pod."""
        if container:
            self.end(container)
        self._call("StopPodSandbox", CRI.Sandbox(pod_sandbox_id=sandbox))
        self._call("RemovePodSandbox", CRI.Sandbox(pod_sandbox_id=sandbox))

    def end(self, container: str) -> None:
        """Ends a container."""
        self._call("StopContainer", CRI.StopContainerRequest(container_id=container))
        self._call("RemoveContainer", CRI.OneContainer(container_id=container))

    def output(self, pod: CriPod) -> list[str]:
        """The lines that its container printed."""
        path = self._logs / f"{pod.name}.log"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line.split(" ", 3)[3] for line in lines]

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()
