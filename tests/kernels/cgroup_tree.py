# SPDX-License-Identifier: Apache-2.0
"""Trees of plain files laid out as a cgroup file system."""

from __future__ import annotations

from pathlib import Path

from koord.kernels.cgroup import CATALOGUE, Hierarchy
from koord.kernels.cgroup_parse import Version

PODS = "kubepods.slice"


def put(root: Path, version: Version, directory: str) -> None:
    """Makes a directory in every sub-hierarchy."""
    for subsystem in subsystems(version):
        (root / subsystem / directory).mkdir(parents=True, exist_ok=True)


def subsystems(version: Version) -> list[str]:
    if version is Version.V2:
        return [""]
    return ["cpu", "cpuset", "cpuacct", "memory", "blkio", "net_cls"]


def path(root: Path, version: Version, resource: str, directory: str) -> Path:
    row = CATALOGUE[resource]
    file = row.v1 if version is Version.V1 else row.v2
    assert file is not None
    return root / file.directory / directory / file.name


def hierarchy(root: Path, version: Version, files: dict[tuple[str, str], str]) -> Hierarchy:
    """A hierarchy whose files hold these texts, by (directory, resource)."""
    put(root, version, PODS)
    for (directory, resource), text in files.items():
        target = path(root, version, resource, directory)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return Hierarchy(root, version)
