# SPDX-License-Identifier: Apache-2.0
"""A node in the guest: cgroup v2, all of the machine its own."""

from __future__ import annotations

import contextlib

from tests.node.machine import CGROUP, RealNode

_CONTROLLERS = "+cpu +cpuset +memory +io +pids"


class GuestNode(RealNode):
    """Files of cgroup v2 under the names that they have in v1, with v2's values."""

    request_seconds = 60
    # Its import takes minutes under emulation, and the kernel does not care who chose.
    schedules = False

    def mount(self) -> None:
        """All is mounted."""

    def _make_kubepods(self) -> None:
        (CGROUP / "cgroup.subtree_control").write_text(_CONTROLLERS)
        super()._make_kubepods()

    def make_directory(self, directory: str, **values: str) -> None:
        """See the class above."""
        (CGROUP / directory).mkdir(exist_ok=True)
        (CGROUP / directory / "cgroup.subtree_control").write_text(_CONTROLLERS)
        for name, value in values.items():
            controller, _, file = name.partition("_")
            self.write(f"{controller}.{file}", directory, value)

    def remove_directory(self, directory: str) -> None:
        """See the class above."""
        with contextlib.suppress(FileNotFoundError):
            (CGROUP / directory).rmdir()

    def read(self, file: str, directory: str) -> str:
        """What a file says, in v2's terms."""
        return (CGROUP / directory / NAMES.get(file, file)).read_text(encoding="ascii").strip()

    def write(self, file: str, directory: str, value: str) -> None:
        """Writes a file; the value in v1's terms."""
        if file == "cpu.shares":
            value = str(weight(int(value)))
        elif file == "cpu.cfs_quota_us":
            value = "max" if value == "-1" else value
        (CGROUP / directory / NAMES.get(file, file)).write_text(value)


NAMES = {
    "cpu.shares": "cpu.weight", "cpu.cfs_quota_us": "cpu.max",
    "memory.limit_in_bytes": "memory.max",
}  # fmt: skip


def weight(shares: int) -> int:
    """What the kubelet makes of shares: 2 to 262,144 become 1 to 10,000."""
    return 1 + (shares - 2) * 9999 // 262142
