# SPDX-License-Identifier: Apache-2.0
"""The first file system of the guest: busybox, the disk's driver, and a script that hands over."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.vm.packages import Programs

# In the order in which they need each other.
_MODULES = (
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/block/virtio_blk.ko",
    # For stand-ins of kernel files.
    "fs/fuse/fuse.ko",
)
# vda: Python and packages; vdb: koord and these tests. Both read-only, what is written goes to
# memory.
_INIT = """#!/bin/busybox sh
export PATH=/bin
busybox mount -t devtmpfs none /dev
busybox mount -t proc none /proc
busybox mount -t sysfs none /sys
for module in {modules}; do busybox insmod /modules/$module || echo "no $module"; done
busybox mount -t ext4 -o ro,noatime /dev/vda /guest || exec busybox poweroff -f
busybox mount -t ext4 -o ro,noatime /dev/vdb /guest/opt/koord || exec busybox poweroff -f
for folder in tmp run var; do busybox mount -t tmpfs none /guest/$folder; done
for folder in dev proc sys; do busybox mount --move /$folder /guest/$folder; done
busybox mkdir /guest/dev/shm
busybox mount -t tmpfs none /guest/dev/shm
busybox mount -t cgroup2 none /guest/sys/fs/cgroup
busybox ip link set lo up
exec busybox switch_root /guest /bin/busybox sh /opt/koord/start
"""


def write(programs: Programs, path: Path) -> None:
    """Writes the archive (cpio, newc, uncompressed: unpacking is slow under emulation)."""
    names = [Path(module).name for module in _MODULES]
    content: dict[str, bytes] = {
        "bin/busybox": programs.busybox.read_bytes(),
        "init": _INIT.format(modules=" ".join(names)).encode(),
    }
    for module in _MODULES:
        content[f"modules/{Path(module).name}"] = (programs.modules / module).read_bytes()
    folders = ("bin", "dev", "guest", "modules", "proc", "sys")
    entries = [_entry(name, stat.S_IFDIR | 0o755, b"") for name in folders]
    entries += [_entry(name, stat.S_IFREG | 0o755, data) for name, data in content.items()]
    # The console must be there before /dev is mounted.
    entries.append(_entry("dev/console", stat.S_IFCHR | 0o600, b"", device=(5, 1)))
    path.write_bytes(b"".join([*entries, _entry("TRAILER!!!", 0, b"")]))


def _entry(name: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> bytes:
    encoded = name.encode() + b"\0"
    # ino, mode, uid, gid, nlink, mtime, size, devmajor, devminor, rdevmajor, rdevminor, namesize,
    # check.
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
