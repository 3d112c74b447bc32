# SPDX-License-Identifier: Apache-2.0
"""Which cgroup directory is whose, for the driver that the kubelet uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api.protocol.qos import kubernetes_qos
from koord.base.errors import value_text
from koord.kernels import cgroup_path
from koord.kernels.cgroup_path import Driver, KubeQos

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod

MOST_UID_BYTES = 128
"""Of a pod's UID, which is part of names that the kernel limits to 255 bytes."""
_MOST_NAME_BYTES = 255


@dataclass(frozen=True)
class CgroupLayout:
    """Directories relative to the root of a hierarchy, without a slash at either end.

    Rule: docs/reference/cgroup.md#driver.
    """

    driver: Driver

    def qos(self, qos: KubeQos) -> str:
        """The directory of a Kubernetes QoS class; Guaranteed has the parent of all."""
        return cgroup_path.qos_directory(self.driver, qos).strip("/")

    @property
    def best_effort(self) -> str:
        """The directory that holds every best-effort pod."""
        return self.qos(KubeQos.BEST_EFFORT)

    @property
    def kubepods(self) -> str:
        """The directory that holds every pod."""
        return self.qos(KubeQos.GUARANTEED)

    def pod(self, pod: Pod) -> str:
        """The directory of a pod.

        Raises:
            ValueError: its UID or QoS class is no name of a directory.
        """
        uid = pod.metadata.uid
        if len(uid) > MOST_UID_BYTES or not _is_plain(uid):
            expected = f"at most {MOST_UID_BYTES} characters that are ASCII and print"
            raise ValueError(f"metadata.uid: got {value_text(uid)}, expected {expected}")
        qos = KubeQos(kubernetes_qos(pod))
        return cgroup_path.pod_directory(self.driver, qos, pod.metadata.uid).strip("/")

    def container(self, pod_directory: str, container_id: str) -> str:
        """The directory of a container, by its id ``runtime://hash``.

        Raises:
            ValueError: an unknown runtime, or no name of a directory.
        """
        name = cgroup_path.container_name(self.driver, container_id)
        if len(name) > _MOST_NAME_BYTES or not _is_plain(name):
            expected = f"one that is ASCII, prints, and names a directory ({_MOST_NAME_BYTES})"
            raise ValueError(f"containerID: got {value_text(container_id)}, expected {expected}")
        return f"{pod_directory}/{name}"


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isprintable()
