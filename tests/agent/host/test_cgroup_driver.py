# SPDX-License-Identifier: Apache-2.0
"""The kubelet's cgroup driver: from directories, else from the process that listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.agent.host.cgroup_driver import ask_kubelet, detect
from koord.base.errors import KoordError
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import Driver

PORT = 10250
HEADER = "  sl  local_address rem_address   st tx rx tr tm retrnsmt uid timeout inode\n"


class Proc:
    """A /proc with one process that listens on the kubelet's port."""

    def __init__(self, root: Path, *arguments: str, table: str = "tcp6", state: str = "0A") -> None:
        self.root = root
        (root / "net").mkdir(parents=True)
        row = f"0: 00000000:{PORT:04X} 00000000:0000 {state} 0:0 0:0 0 0 0 4711 1\n"
        (root / "net" / table).write_text(HEADER + row)
        for pid, inode in ((7, 1), (42, 4711)):
            (root / str(pid) / "fd").mkdir(parents=True)
            (root / str(pid) / "fd/3").symlink_to(f"socket:[{inode}]")
        (root / "42/cmdline").write_text("\0".join(["/usr/bin/kubelet", *arguments, ""]))

    def config(self, path: str, text: str) -> None:
        target = self.root / "42/root" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def ask(self) -> Driver:
        return ask_kubelet(str(self.root), PORT)


@pytest.mark.parametrize(
    ("arguments", "driver"),
    [
        (("--cgroup-driver=systemd",), Driver.SYSTEMD),
        (("--cgroup-driver", "cgroupfs"), Driver.CGROUPFS),
        (("--cgroup-driver=cgroupfs", "--cgroup-driver=systemd"), Driver.SYSTEMD),
        ((), Driver.CGROUPFS),  # the kubelet's default
    ],
)
@pytest.mark.parametrize("table", ["tcp", "tcp6"])
def test_flag(tmp_path: Path, arguments: tuple[str, ...], driver: Driver, table: str) -> None:
    assert Proc(tmp_path, *arguments, table=table).ask() is driver


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("kind: KubeletConfiguration\ncgroupDriver: systemd\n", Driver.SYSTEMD),
        ('{"cgroupDriver":"cgroupfs"}\n'.replace("{", "{\n"), Driver.CGROUPFS),
        ("kind: KubeletConfiguration\n", Driver.CGROUPFS),
    ],
)
def test_configuration_in_the_kubelets_own_root(tmp_path: Path, text: str, driver: Driver) -> None:
    proc = Proc(tmp_path, "--config=/etc/kubelet.yaml")
    proc.config("/etc/kubelet.yaml", text)
    assert proc.ask() is driver


@pytest.mark.parametrize("text", ["cgroupDriver: docker\n", "cgroupDriver: \u00e9t\u00e9\n"])
def test_an_unknown_driver_is_one_line(tmp_path: Path, text: str) -> None:
    proc = Proc(tmp_path, "--config=/etc/kubelet.yaml")
    proc.config("/etc/kubelet.yaml", text)
    with pytest.raises(KoordError, match="cgroupDriver") as caught:
        proc.ask()
    assert "\n" not in str(caught.value)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(KoordError, match="10250, expected one that the kubelet listens on"):
        Proc(tmp_path, state="01").ask()  # a connection, not a listener
    with pytest.raises(KoordError, match="port"):
        ask_kubelet(str(tmp_path / "none"), PORT)


def test_a_missing_configuration_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(KoordError, match=r"kubelet\.yaml") as caught:
        Proc(tmp_path, "--config=/etc/kubelet.yaml").ask()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", Version)
def test_directories_come_first(tmp_path: Path, version: Version) -> None:
    top = tmp_path / ("cpu" if version == Version.V1 else "")
    top.mkdir(exist_ok=True)
    hierarchy = Hierarchy(tmp_path, version)

    def unknown() -> Driver:
        raise KoordError("kubelet", "port", PORT, "an answer")

    assert detect(hierarchy) is Driver.SYSTEMD
    assert detect(hierarchy, unknown) is Driver.SYSTEMD
    assert detect(hierarchy, lambda: Driver.CGROUPFS) is Driver.CGROUPFS
    (top / "kubepods").mkdir()
    assert detect(hierarchy, lambda: Driver.SYSTEMD) is Driver.CGROUPFS
    (top / "kubepods.slice").mkdir()
    assert detect(hierarchy, lambda: Driver.CGROUPFS) is Driver.SYSTEMD
