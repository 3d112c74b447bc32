# SPDX-License-Identifier: Apache-2.0
"""Where the host's files are: on the host itself, or mounted into the agent's container."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST_MODE = "hostMode"
"""Value of the environment variable ``agent_mode`` for an agent that runs on the host itself."""


@dataclass(frozen=True)
class Roots:
    """Directories that every path of the host is built from; each is a flag of koordlet.

    Defaults are those of an agent on the host itself. Rule: spec agent-runtime, section 1.
    """

    cgroup: str = "/sys/fs/cgroup"
    sys: str = "/sys"
    sys_fs: str = "/sys/fs"
    proc: str = "/proc"
    var_run: str = "/var/run"
    run: str = "/run"
    kubelet: str = "/var/lib/kubelet"
    xpu_device_infos: str = "/var/run/koordlet/xpu-device-infos"
    state: str = "/var/lib/koordlet"  # koord's own: journal and checkpoints

    @property
    def resctrl(self) -> str:
        """Where resctrl is, or would be, mounted."""
        return f"{self.sys_fs}/resctrl"

    def beneath(self, directory: str) -> Roots:
        """The same roots in a tree of files that stands in for a machine, as tests use."""
        moved = {name: f"{directory}{path}" for name, path in vars(self).items()}
        return replace(self, **moved)


IN_CONTAINER = Roots(
    cgroup="/host-cgroup",
    sys="/host-sys",
    sys_fs="/host-sys-fs",
    var_run="/host-var-run",
    run="/host-run",
)
"""As koordlet's DaemonSet mounts them."""


def default_roots(environment: Mapping[str, str] | None = None) -> Roots:
    """The roots of this process's mode; ``agent_mode=hostMode`` is the host itself."""
    mode = (os.environ if environment is None else environment).get("agent_mode", "")
    return Roots() if mode == HOST_MODE else IN_CONTAINER
