# SPDX-License-Identifier: Apache-2.0
"""Which cgroup directory is whose, for the driver that the kubelet uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api.protocol.qos import kubernetes_qos
from koord.kernels import cgroup_path
from koord.kernels.cgroup_path import Driver, KubeQos

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod


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
        qos = KubeQos(kubernetes_qos(pod))
        return cgroup_path.pod_directory(self.driver, qos, pod.metadata.uid).strip("/")

    def container(self, pod_directory: str, container_id: str) -> str:
        """The directory of a container, by its id ``runtime://hash``.

        Raises:
            ValueError: an unknown runtime, or no name of a directory.
        """
        return f"{pod_directory}/{cgroup_path.container_name(self.driver, container_id)}"
