# SPDX-License-Identifier: Apache-2.0
"""Which device a block of the configuration means.

Rule: docs/reference/strategies.md#targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.qos_strategy import BlockCfg

DEVICE, VOLUME_GROUP, POD_VOLUME = "device", "volumegroup", "podvolume"


class DeviceNumber(Protocol):
    """A block device: the path that people know it by, and ``major:minor``."""

    @property
    def path(self) -> str:
        """Such as ``/dev/vdb``."""
        ...

    @property
    def number(self) -> str:
        """``major:minor``."""
        ...


class DeviceLookup(Protocol):
    """The machine's block devices, as the host lists them."""

    @property
    def devices(self) -> Mapping[str, Any]:
        """Each a :class:`DeviceNumber`, by the kernel's name."""
        ...

    def device_of_mount(self, mount_point: str) -> Any:
        """What is mounted there; None for nothing."""
        ...

    def disk_of(self, device: Any) -> Any:
        """The whole disk behind a device; None where there is not exactly one."""
        ...

    def disk_of_group(self, volume_group: str) -> Any:
        """The disk of a volume group on one physical volume; None for any other."""
        ...


class DeviceResolver:
    """Finds the disks of blocks.

    Args:
        storage: the machine's devices.
        volume_of: the PersistentVolume of a claim, by namespace and name; empty for none.
        kubelet: the kubelet's directory, where volumes are mounted.
    """

    def __init__(
        self, storage: DeviceLookup, volume_of: Callable[[str, str], str], kubelet: str
    ) -> None:
        self._storage = storage
        self._volume_of = volume_of
        self._kubelet = kubelet
        self._by_path = {device.path: device for device in storage.devices.values()}

    def number(self, block: BlockCfg, pod: PodState | None) -> str:
        """``major:minor`` of the disk behind a block.

        Raises:
            KoordError: there is none, or several.
        """
        disk = self._disk(block, pod)
        if disk is None:
            field = f"blocks[{block.name}]"
            expected = "a device, volume group or pod volume on exactly one disk"
            raise KoordError("blkioQOS", field, block.type, expected, Code.NOT_FOUND)
        return str(disk.number)

    def _disk(self, block: BlockCfg, pod: PodState | None) -> Any:
        if block.type == VOLUME_GROUP:
            return self._storage.disk_of_group(block.name)
        found = None
        if block.type == DEVICE:
            found = self._by_path.get(block.name)
        elif block.type == POD_VOLUME and pod is not None:
            found = self._storage.device_of_mount(self._mount_point(block.name, pod))
        return None if found is None else self._storage.disk_of(found)

    def _mount_point(self, name: str, pod: PodState) -> str:
        """Where the CSI volume of a pod's volume is mounted; empty for any other volume."""
        volume = next((v for v in pod.pod.spec.volumes if v.get("name") == name), {})
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        mounted = name if "csi" in volume else ""
        if claim:
            mounted = self._volume_of(pod.pod.metadata.namespace, claim)
        if not mounted:
            return ""
        base = f"{self._kubelet}/pods/{pod.uid}/volumes/kubernetes.io~csi"
        return f"{base}/{mounted}/mount"
