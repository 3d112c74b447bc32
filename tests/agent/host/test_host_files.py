# SPDX-License-Identifier: Apache-2.0
"""The host's files by the host's paths, from a container in which it lies elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.host.host_files import HostFiles
from koord.agent.host.roots import HOST_MODE, HostRoots

LIBRARY = "/usr/local/vgpu/libvgpu.so"


def files(folder: Path, namespace: str = "theirs") -> HostFiles:
    """The host's root beneath the procfs of a container, as that of its first process."""
    (folder / "proc/1/ns").mkdir(parents=True)
    place = folder / "proc/1/ns/mnt"
    if namespace == "own":
        place.symlink_to("/proc/self/ns/mnt")
    else:
        place.touch()
    root = folder / "root"
    (root / "usr/local/vgpu").mkdir(parents=True)
    (root / "usr/local/vgpu/libvgpu.so").touch()
    (folder / "proc/1/root").symlink_to(root)
    return HostFiles(replace(HostRoots(), proc=str(folder / "proc")), {})


def test_in_a_container_the_root_of_the_hosts_first_process_counts(tmp_path: Path) -> None:
    host = files(tmp_path)
    assert host.has(LIBRARY)
    assert not host.has("/usr/local/vgpu/other.so")
    # What is in the container alone is none of the host's.
    assert not host.has(str(tmp_path))
    made = host.place("/usr/local/vgpu/locks/1")
    assert made == tmp_path / "proc/1/root/usr/local/vgpu/locks/1"


def test_on_the_host_a_path_is_what_it_is(tmp_path: Path) -> None:
    host = HostFiles(HostRoots(), {"agent_mode": HOST_MODE})
    assert host.has(str(tmp_path))
    assert host.place(f"{tmp_path}/a") == tmp_path / "a"


@pytest.mark.parametrize("namespace", ["own", "none"])
def test_the_first_process_of_ones_own_container_is_not_the_hosts(
    tmp_path: Path, namespace: str
) -> None:
    host = files(tmp_path, namespace)
    if namespace == "none":
        (tmp_path / "proc/1/ns/mnt").unlink()
    assert not host.has(LIBRARY)
    with pytest.raises(OSError, match=r"No such file|no root of the host"):
        host.place(LIBRARY)


def test_links_of_the_host_stay_in_its_root(tmp_path: Path) -> None:
    host, root = files(tmp_path), tmp_path / "root"
    (root / "usr/local/vgpu").rename(root / "data")
    (root / "usr/local/vgpu").symlink_to("/data")
    (root / "up").symlink_to("../../../../../data/libvgpu.so")
    assert host.has(LIBRARY)
    assert host.has("/up")
    assert host.place(f"{LIBRARY}.lock") == tmp_path / "proc/1/root/data/libvgpu.so.lock"
    # What is made is not followed: who makes it refuses a link.
    assert host.place("/up") == tmp_path / "proc/1/root/up"


def test_a_circle_of_links_is_not_there(tmp_path: Path) -> None:
    host, root = files(tmp_path), tmp_path / "root"
    (root / "a").symlink_to("/b")
    (root / "b").symlink_to("a")
    assert not host.has("/a/x")
    with pytest.raises(OSError, match="symbolic links"):
        host.place("/a/x")
