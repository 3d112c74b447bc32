# SPDX-License-Identifier: Apache-2.0
"""The machine that this agent looks after, found once at start."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from koord.agent.host import cgroup_driver as drivers
from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.host.kernel.feature_probes import probe_features
from koord.agent.host.procfs import meminfo
from koord.base.errors import KoordError
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from koord.kernels.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.host.kernel.features import Features
    from koord.agent.host.roots import HostRoots
    from koord.kernels.cgroup_path import Driver

_TICKS_USUAL = 100


@dataclass(frozen=True)
class Machine:
    """What stays as long as the agent runs.

    Attributes:
        roots: where its files are.
        hierarchy: the cgroup tree; knows whether it is v1 or v2.
        layout: directories of pods and containers under the kubelet's driver.
        topology: CPUs, cores, NUMA nodes, sockets.
        features: which kernel files are there, found once, each with why not.
        memory_bytes: MemTotal.
        page_bytes: size of a page.
        tick_seconds: length of a clock tick in /proc/stat.
    """

    roots: HostRoots
    hierarchy: Hierarchy
    layout: CgroupLayout
    topology: Topology
    features: Features
    memory_bytes: int
    page_bytes: int
    tick_seconds: float

    @property
    def groups_root(self) -> Path:
        """Where directories of pods can be listed: on v1 those of the cpu hierarchy."""
        root = Path(self.roots.cgroup)
        return root if self.hierarchy.version is Version.V2 else root / "cpu"


def find(
    roots: HostRoots,
    driver: Driver | None = None,
    probe: Callable[[], Driver] | None = None,
    ticks_per_second: int | None = None,
    version: Version | None = None,
) -> Machine:
    """Looks the machine over, once at start.

    Args:
        roots: where its files are.
        driver: the kubelet's cgroup driver where it is known.
        probe: asks the kubelet where no directory tells, see :mod:`koord.agent.host.cgroup_driver`.
        ticks_per_second: of /proc/stat; by default what the C library says.
        version: of cgroups; by default what the file system is.

    Raises:
        KoordError: no cgroups, no memory figures, or a topology that makes no sense.
    """
    memory = meminfo.read_meminfo(roots.proc)
    hierarchy, layout = _cgroups(roots, driver, probe, version)
    return Machine(
        roots=roots,
        hierarchy=hierarchy,
        layout=layout,
        topology=_topology(roots.sys),
        features=probe_features(roots, hierarchy),
        memory_bytes=meminfo.require(memory, "MemTotal", f"{roots.proc}/meminfo"),
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        tick_seconds=1 / (ticks_per_second or _ticks_per_second()),
    )


def _cgroups(
    roots: HostRoots,
    driver: Driver | None,
    probe: Callable[[], Driver] | None,
    version: Version | None,
) -> tuple[Hierarchy, CgroupLayout]:
    try:
        found = Hierarchy(roots.cgroup, version)
        layout = CgroupLayout(driver or drivers.detect(found, probe))
        # Support checks look into the kubepods directory, whose name the driver decides.
        return Hierarchy(roots.cgroup, found.version, layout.kubepods), layout
    except (OSError, ValueError) as error:
        raise KoordError.wrap(roots.cgroup, "", error) from None


def _topology(sys: str) -> Topology:
    try:
        if Path(sys).name == "sys":
            return Topology.from_sysfs(Path(sys).parent)
        # The library looks for a directory of that name; a mount may be called otherwise.
        with tempfile.TemporaryDirectory(prefix="koord-") as directory:
            (Path(directory) / "sys").symlink_to(sys)
            return Topology.from_sysfs(directory)
    except (OSError, ValueError) as error:
        raise KoordError.wrap(sys, "", error) from None


def _ticks_per_second() -> int:
    try:
        return os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return _TICKS_USUAL
