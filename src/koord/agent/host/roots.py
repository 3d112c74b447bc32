# SPDX-License-Identifier: Apache-2.0
"""Where the host's files are: on the host itself, or mounted into the agent's container."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST_MODE = "hostMode"
"""Value of the environment variable ``agent_mode`` for an agent that runs on the host itself."""


@dataclass(frozen=True)
class HostRoots:
    """Directories that every path of the host is built from; each is a flag of koordlet.

    Defaults are those of an agent on the host itself.
    Rule: docs/reference/hooks.md#modes-and-roots.
    """

    cgroup: str = "/sys/fs/cgroup"
    sys: str = "/sys"
    sys_fs: str = "/sys/fs"
    proc: str = "/proc"
    var_run: str = "/var/run"  # these two for collectors of others
    run: str = "/run"
    kubelet: str = "/var/lib/kubelet"
    xpu_device_infos: str = "/var/run/koordlet/xpu-device-infos"
    state: str = "/var/lib/koordlet"  # koord's own: journal and checkpoints
    hook_socket: str = "/var/run/koordlet/koordlet.sock"  # that a runtime proxy calls
    hook_config: str = "/etc/runtime/hookserver.d"  # where the proxy reads who serves

    @property
    def resctrl(self) -> str:
        """Where resctrl is, or would be, mounted."""
        return f"{self.sys_fs}/resctrl"

    def beneath(self, directory: str) -> HostRoots:
        """The same roots in a tree of files that stands in for a machine, as tests use."""
        moved = {name: f"{directory}{path}" for name, path in vars(self).items()}
        return replace(self, **moved)


IN_CONTAINER = HostRoots(
    cgroup="/host-cgroup",
    sys="/host-sys",
    sys_fs="/host-sys-fs",
    var_run="/host-var-run",
    run="/host-run",
    hook_socket="/host-var-run-koordlet/koordlet.sock",
    hook_config="/host-etc-hookserver",
)
"""As koordlet's DaemonSet mounts them."""


_MODE = "agent_mode"
# One of these is in every cgroup tree: of v2, of v1, or what a kubelet made in it.
_IN_CGROUP = ("cgroup.controllers", "cpu", "memory", "kubepods.slice", "kubepods")
# What is looked for within each directory that there is no doing without, and its flag.
_NEEDED = {
    "cgroup": (_IN_CGROUP, "--cgroup-root-dir"),
    "sys": (("devices/system/cpu",), "--sys-root-dir"),
    "proc": (("stat",), "--proc-root-dir"),
}


def default_roots(environment: Mapping[str, str] | None = None) -> HostRoots:
    """The roots of this process's mode; ``agent_mode=hostMode`` is the host itself."""
    return HostRoots() if on_host(environment) else IN_CONTAINER


def on_host(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this process's mode, or that of an environment, is the host itself."""
    return _mode(environment) == HOST_MODE


def require(roots: HostRoots, environment: Mapping[str, str] | None = None) -> str:
    """Looks whether the host's directories are where they should be.

    Args:
        roots: where they should be.
        environment: with the mode; None for this process's.

    Returns:
        The mode, in words.

    Raises:
        KoordError: one is not; the text says which mode this is and how to change it.
    """
    mode, ours = _mode(environment), on_host(environment)
    for name, (inside, flag) in _NEEDED.items():
        place = Path(getattr(roots, name))
        if any((place / each).exists() for each in inside):
            continue
        there = "has nothing of it" if place.is_dir() else "is not there"
        if ours:
            expected = f"the host's own {place}, which {there}: in a container unset {_MODE}, and "
            expected += f"mount the host's directories as {IN_CONTAINER.cgroup} and so on"
        else:
            expected = f"a container with the host's {name} mounted as {place}, which {there}: "
            expected += f"on the host itself set {_MODE}={HOST_MODE}"
        raise KoordError(f"environment {_MODE}", "", mode, f"{expected}; elsewhere pass {flag}")
    return "on the host itself" if ours else "in a container, the host's directories mounted"


def _mode(environment: Mapping[str, str] | None) -> str:
    return (os.environ if environment is None else environment).get(_MODE, "")
