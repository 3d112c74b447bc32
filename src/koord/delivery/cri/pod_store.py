# SPDX-License-Identifier: Apache-2.0
"""The pods and containers of the node, as hook servers are told of them.

Bounded: of more than there is place for the oldest go. Variables of the environment are told when a
container is made and are not kept, for they may be secrets.
Rule: docs/reference/delivery.md#pods-and-containers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PODS = 2048
MOST_CONTAINERS_OF_POD = 256
MOST_ENTRY_BYTES = 1 << 20
"""Of a request; one that is longer is not kept. Kubernetes takes 256 KiB of annotations."""


@dataclass
class SandboxRecord:
    """A sandbox.

    Attributes:
        request: ``PodSandboxHookRequest``.
        containers: ``ContainerResourceHookRequest`` without what is the pod's, by container id.
    """

    request: Any
    containers: dict[str, Any] = field(default_factory=dict)


class PodStore:
    """What the proxy knows.

    Args:
        changed: told of the sandbox that is another or gone, by its id.

    Attributes:
        dropped: how many entries there was no place for.
    """

    def __init__(self, changed: Callable[[str], None] = lambda _: None) -> None:
        self.changed = changed
        self.dropped = 0
        self._pods: dict[str, SandboxRecord] = {}
        self._sandboxes: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def pod_ids(self) -> list[str]:
        """Of all sandboxes, the oldest first."""
        return list(self._pods)

    def container_ids(self) -> list[str]:
        """Of all containers."""
        return list(self._sandboxes)

    def pod(self, sandbox: str) -> SandboxRecord | None:
        """A sandbox, by its id."""
        return self._pods.get(sandbox)

    def sandbox_of(self, container: str) -> str:
        """Whose container it is; empty where it is not known."""
        return self._sandboxes.get(container, "")

    def add_pod(self, sandbox: str, request: Any) -> None:
        """Takes a sandbox up."""
        if not sandbox or request.ByteSize() > MOST_ENTRY_BYTES:
            self.dropped += 1
            return
        self.remove_pod(sandbox)
        if len(self._pods) >= MOST_PODS:
            self.dropped += 1
            self.remove_pod(next(iter(self._pods)))
        self._pods[sandbox] = SandboxRecord(request)
        self.changed(sandbox)

    def add_container(self, sandbox: str, container: str, request: Any) -> None:
        """Takes a container of a known sandbox up; one of another's leaves that."""
        pod = self._pods.get(sandbox)
        if pod is None or not container:
            return
        bare = type(request)()
        for name in ("container_meta", "container_resources"):
            if request.HasField(name):
                getattr(bare, name).CopyFrom(getattr(request, name))
        bare.container_annotations.update(request.container_annotations)
        bare.container_meta.id = container
        full = len(pod.containers) >= MOST_CONTAINERS_OF_POD and container not in pod.containers
        if full or bare.ByteSize() > MOST_ENTRY_BYTES:
            self.dropped += 1
            return
        if self.sandbox_of(container) not in ("", sandbox):
            self.remove_container(container)
        pod.containers[container] = bare
        self._sandboxes[container] = sandbox
        self.changed(sandbox)

    def remove_container(self, container: str) -> None:
        """Forgets it."""
        sandbox = self._sandboxes.pop(container, "")
        if sandbox:
            self._pods[sandbox].containers.pop(container, None)
            self.changed(sandbox)

    def remove_pod(self, sandbox: str) -> None:
        """Forgets it and its containers."""
        pod = self._pods.pop(sandbox, None)
        if pod is not None:
            for container in pod.containers:
                self._sandboxes.pop(container, None)
            self.changed(sandbox)
