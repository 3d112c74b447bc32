# SPDX-License-Identifier: Apache-2.0
"""The node of a cluster in the guest: cgroup v2, all of the machine its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.node.cluster.kubelet import KubeletNode
from tests.node.cluster.visitor import Document, Visitor, folder_of
from tests.node.guest.machine import NAMES
from tests.node.machine import CGROUP


class GuestKubeletNode(KubeletNode):
    """A kubelet that takes its time."""

    request_seconds = 60

    def mount(self) -> None:
        """All is mounted."""

    def configuration(self) -> dict[str, Any]:
        """As elsewhere, but for what is of cgroup v1, and a folder that cannot be written."""
        plugins = {"volumePluginDir": str(self.folder / "plugins")}
        return {**super().configuration(), "failCgroupV1": True, **plugins}


class GuestVisitor(Visitor):
    """An administrator in the guest.

    Args:
        order: as elsewhere, and the cluster's certificates and kubeconfigs as ``files``.
    """

    kind = GuestKubeletNode
    node: GuestKubeletNode

    def __init__(self, order: dict[str, Any]) -> None:
        folder = Path(order["cluster"])
        folder.mkdir(parents=True)
        for name, text in order["files"].items():
            (folder / name).write_text(text, encoding="utf-8")
        super().__init__(order)

    def read(self, file: str, pod: Document) -> str:
        """What a file says, named as on cgroup v1, in v2's terms."""
        return (folder_of(CGROUP, pod) / NAMES.get(file, file)).read_text("ascii").strip()
