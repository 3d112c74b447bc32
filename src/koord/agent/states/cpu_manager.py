# SPDX-License-Identifier: Apache-2.0
"""The CPUs that the kubelet binds, from the file in which it remembers them."""

from __future__ import annotations

from pathlib import Path

from msgspec import field

from koord.api import codec
from koord.api.wirestruct import WireStruct

NAME, STATIC = "cpu_manager_state", "static"


class CPUManagerState(WireStruct):
    """``cpu_manager_state``.

    Attributes:
        policy_name: ``none`` or ``static``.
        default_cpu_set: CPUs of all containers that have none of their own.
        entries: CPU lists by pod UID and container; left out while nobody has any.
    """

    policy_name: str = ""
    default_cpu_set: str = field(default="", name="defaultCpuSet")
    entries: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def is_static(self) -> bool:
        """Whether the kubelet writes the CPUs of containers at all."""
        return self.policy_name == STATIC

    def cpus_of(self, uid: str, container: str) -> str:
        """What the kubelet writes for a container under its static policy."""
        return self.entries.get(uid, {}).get(container, self.default_cpu_set)


def read_cpu_manager(kubelet_root: str) -> CPUManagerState:
    """The state of a node's kubelet; where there is no file, of one that binds nothing.

    Raises:
        KoordError: no JSON of that form.
        OSError: it cannot be read.
    """
    try:
        text = Path(kubelet_root, NAME).read_bytes()
    except FileNotFoundError:
        return CPUManagerState()
    if not text.strip():
        return CPUManagerState()
    return codec.decode_json(text, CPUManagerState, NAME)
