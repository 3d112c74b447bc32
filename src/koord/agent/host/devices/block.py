# SPDX-License-Identifier: Apache-2.0
"""Block devices, what is mounted from them, and volumes of volume groups, from /sys and /proc.

The original runs lsblk, vgs, lvs and findmnt in the host's mount namespace; sysfs and mountinfo say
the same without a process. Rule: docs/reference/measuring.md#static-facts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from koord.agent.host import files
from koord.base.errors import KoordError

_LVM = "LVM-"
# dm names join group and volume with one dash and double the dashes within each.
_JOINT = re.compile(r"(?<!-)-(?!-)")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A disk, partition or logical volume.

    Attributes:
        name: the kernel's, such as ``sda1`` or ``dm-0``.
        path: what people call it: ``/dev/sda1``, ``/dev/mapper/vg-data``.
        number: ``major:minor``.
        disk: name of the whole disk of a partition; its own name for others.
        volume_group: of a logical volume; else empty.
        below: names of the devices that it lies on.
    """

    name: str
    path: str
    number: str
    disk: str
    volume_group: str
    below: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BlockStorage:
    """The machine's local storage.

    Attributes:
        devices: by name.
        mounts: ``major:minor`` by mount point.
    """

    devices: dict[str, BlockDevice]
    mounts: dict[str, str]

    def device_of_mount(self, mount_point: str) -> BlockDevice | None:
        """What is mounted at exactly this directory."""
        number = self.mounts.get(mount_point.rstrip("/") or "/")
        return next((d for d in self.devices.values() if d.number == number), None)

    def disk_of(self, device: BlockDevice) -> BlockDevice | None:
        """The one whole disk behind a device; None where it spans several or lies on none known."""
        disks = self._disks(device.name, frozenset())
        return self.devices.get(next(iter(disks))) if len(disks) == 1 else None

    def disk_of_group(self, volume_group: str) -> BlockDevice | None:
        """The disk of a volume group that lies on exactly one physical volume."""
        below = {
            name
            for device in self.devices.values()
            if volume_group and device.volume_group == volume_group
            for name in device.below
        }
        physical = next(iter(below)) if len(below) == 1 else ""
        return self.disk_of(self.devices[physical]) if physical in self.devices else None

    def _disks(self, name: str, seen: frozenset[str]) -> set[str]:
        device = self.devices.get(name)
        if device is None or name in seen:
            return set()
        if device.disk != name:
            return self._disks(device.disk, seen | {name})
        if not device.below:
            return {name}
        return {disk for part in device.below for disk in self._disks(part, seen | {name})}


def read_storage(sys: str, proc: str) -> BlockStorage:
    """Reads all of it; devices that vanish meanwhile are left out.

    Raises:
        KoordError: the list of devices or of mounts cannot be read.
    """
    devices = {}
    for name in files.names(f"{sys}/class/block"):
        try:
            devices[name] = _device(sys, name)
        except KoordError:
            continue
    return BlockStorage(devices, read_mounts(proc))


def signature(sys: str, proc: str) -> tuple[list[str], int]:
    """Something small that changes with the devices' names and the mounts.

    Raises:
        KoordError: either cannot be read.
    """
    return files.names(f"{sys}/class/block"), hash(files.read_bytes(f"{proc}/1/mountinfo"))


def read_mounts(proc: str) -> dict[str, str]:
    """``major:minor`` by mount point, as the host's first process sees them; the last one counts.

    Raises:
        KoordError: unreadable.
    """
    found = {}
    text = files.read_bytes(f"{proc}/1/mountinfo").decode("utf-8", "surrogateescape")
    for line in text.split("\n"):
        fields = line.split(" ")
        if len(fields) >= 6:  # id, parent, major:minor, root, mount point, options
            found[_OCTAL.sub(lambda m: chr(int(m[1], 8)), fields[4])] = fields[2]
    return found


def _device(sys: str, name: str) -> BlockDevice:
    directory = f"{sys}/class/block/{name}"
    number = files.read_text(f"{directory}/dev")
    if not re.fullmatch(r"\d+:\d+", number, re.ASCII):
        raise KoordError(f"{directory}/dev", "", number, "major:minor")
    mapped = _text_or_empty(f"{directory}/dm/name")
    group = ""
    if mapped and _text_or_empty(f"{directory}/dm/uuid").startswith(_LVM):
        group = _JOINT.split(mapped)[0].replace("--", "-")
    return BlockDevice(
        name=name,
        path=f"/dev/mapper/{mapped}" if mapped else f"/dev/{name.replace('!', '/')}",
        number=number,
        disk=_disk(directory, name),
        volume_group=group,
        below=tuple(files.names(f"{directory}/slaves")),
    )


def _disk(directory: str, name: str) -> str:
    if not files.exists(f"{directory}/partition"):
        return name
    # A partition's directory lies in that of its disk.
    return files.link(directory).rpartition("/")[0].rpartition("/")[2] or name


def _text_or_empty(path: str) -> str:
    return files.read_text(path) if files.exists(path) else ""
