# SPDX-License-Identifier: Apache-2.0
"""Nothing is written outside the roots, whatever names and links are put in the way."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.executor.claim import Claim
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.target import check_directory
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.agent.executor.writers.rooted_files import RootedFiles
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.kernels.cgroup import Base, Hierarchy
from koord.kernels.cgroup_parse import Version

POD = "kubepods/pod1"
SECRET = "1024\n"


class Place:
    """A tree, and beside it what must not be touched."""

    def __init__(self, root: Path) -> None:
        self.root = root / "cgroup"
        self.outside = root / "outside"
        for directory in (self.root / "cpu" / POD, self.outside):
            directory.mkdir(parents=True)
            (directory / "cpu.shares").write_text(SECRET)
        self.clock = VirtualClock()
        files = NativeCgroupFiles(Hierarchy(self.root, Version.V1))
        kinds = [CgroupFileWriter({Base.CGROUP: files})]
        journal = Journal(root / "state", "boot")
        self.executor = HostExecutor(kinds, journal, self.clock, ExecutorOptions(Version.V1))

    def try_to_write(self, directory: str) -> None:
        self.executor.state("o", "s", [Claim("cpu.shares", directory, 77, "r")])
        self.executor.settle()

    def untouched(self) -> bool:
        return (self.outside / "cpu.shares").read_text() == SECRET


@pytest.mark.parametrize(
    "directory",
    ["..", "../..", "../outside", "/outside", "kubepods/../../../outside", f"{POD}/../../../..",
     "kubepods/./pod1", "kubepods//pod1", "kubepods/pod1/", "a\0b", ".", "/", "\0"],
)  # fmt: skip
def test_a_name_that_leads_out_is_refused(tmp_path: Path, directory: str) -> None:
    place = Place(tmp_path)
    place.try_to_write(directory)
    assert place.untouched()
    assert place.executor.refused()
    assert place.executor.failures() == []


@given(st.text(alphabet="a./\0\né", max_size=12))
def test_a_directory_that_passes_stays_beneath(directory: str) -> None:
    try:
        check_directory(directory)
    except KoordError:
        return
    assert os.path.normpath(os.path.join("/root", directory)).startswith("/root")  # noqa: PTH118
    assert "\0" not in directory


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.root / "cpu/kubepods/link").symlink_to(place.outside)
    (place.root / "cpu" / POD / "cpu.shares").unlink()
    (place.root / "cpu" / POD / "cpu.shares").symlink_to(place.outside / "cpu.shares")
    for directory in ("kubepods/link", POD):
        place.try_to_write(directory)
        assert place.untouched()
        assert place.executor.failures()


def test_a_directory_swapped_for_a_link_in_a_race_is_not_followed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    pod, aside = place.root / "cpu" / POD, place.root / "cpu/kubepods/aside"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            pod.rename(aside)
            pod.symlink_to(place.outside)
            pod.unlink()
            aside.rename(pod)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for value in range(300):
            claims = [Claim("cpu.shares", POD, 100 + value % 7, "r")]
            place.executor.state("o", "s", claims)
            place.clock.advance(61)
            place.executor.settle()
    finally:
        stop.set()
        thread.join()
    assert place.untouched()


def test_beneath_refuses_links_and_ways_out(tmp_path: Path) -> None:
    (tmp_path / "root/group").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("secret")
    tree = RootedFiles(tmp_path / "root")
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    (tmp_path / "root/group/file").symlink_to(tmp_path / "outside/file")
    for path in ("link/file", "group/file"):
        for write in (tree.write, tree.read):
            with pytest.raises(OSError, match=r"symbolic|Not a directory"):
                write(*((path, "x") if write == tree.write else (path,)))
    for path in ("../outside/file", "/outside", "a//b", "a\0", "group/../../outside/file"):
        with pytest.raises(ValueError, match="relative path"):
            tree.read(path)
        with pytest.raises(ValueError, match="relative path"):
            tree.make_directory(path)
    tree.replace("group/file", "mine")  # takes the link's place
    assert (tmp_path / "outside/file").read_text() == "secret"
    assert tree.read("group/file") == "mine"
    assert tree.directories() == ["group"]
    assert not tree.exists("link/file")


def test_a_pipe_in_a_files_place_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert RootedFiles(tmp_path).read("pipe") == ""


def test_a_link_in_the_journals_place_is_not_written_through(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "state").mkdir()
    target = tmp_path / "outside/cpu.shares"
    (tmp_path / "state/executor.journal.new").symlink_to(target)
    place.try_to_write(POD)
    assert place.untouched()
    assert (tmp_path / "state/executor.journal").is_file()
    assert (tmp_path / "state/executor.journal").stat().st_mode & 0o777 == 0o600
