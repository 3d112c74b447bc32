# SPDX-License-Identifier: Apache-2.0
"""Every reader of the host's files against what may stand there: one line, never another error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koord.agent.host import files
from koord.agent.host.cgroup_driver import ask_kubelet
from koord.agent.host.devices import block, rdma, xpu
from koord.agent.host.kernel import resctrl
from koord.agent.host.procfs import cpuinfo, meminfo, pids, proc_stat
from koord.agent.host.roots import HostRoots
from koord.base.errors import KoordError
from koord.base.faults import FaultPlan, FaultRule, inject
from koord.kernels.cgroup_parse import Version

Reader = Callable[[str], object]
READERS: dict[str, tuple[str, Reader]] = {
    "stat": ("proc/stat", lambda root: proc_stat.read_cpu_ticks(f"{root}/proc")),
    "meminfo": ("proc/meminfo", lambda root: meminfo.read_meminfo(f"{root}/proc")),
    "numa": (
        "sys/devices/system/node/node0/meminfo",
        lambda root: meminfo.read_numa_meminfo(f"{root}/sys", 0),
    ),
    "cpuinfo": ("proc/cpuinfo", lambda root: cpuinfo.read_cpu_info(HostRoots().beneath(root))),
    "cbm mask": (
        "sys/fs/resctrl/info/L3/cbm_mask",
        lambda root: cpuinfo.read_cbm_mask(f"{root}/sys/fs/resctrl"),
    ),
    "mounts": ("proc/1/mountinfo", lambda root: block.read_mounts(f"{root}/proc")),
    "cgroup": ("proc/7/cgroup", lambda root: pids.cgroup_of(f"{root}/proc", 7, Version.V1)),
    "schedstat": ("proc/7/schedstat", lambda root: pids.scheduler_times(f"{root}/proc", 7)),
    "xpus": ("xpus/a.json", lambda root: xpu.read_xpus(f"{root}/xpus")),
    "schemata": (
        "sys/fs/resctrl/schemata",
        lambda root: resctrl.read_schemata(f"{root}/sys/fs/resctrl"),
    ),
    "resctrl use": (
        "sys/fs/resctrl/BE/mon_data/mon_L3_00/llc_occupancy",
        lambda root: resctrl.read_use(f"{root}/sys/fs/resctrl", "BE"),
    ),
    "listeners": ("proc/net/tcp", lambda root: ask_kubelet(f"{root}/proc", 10250)),
}
MUST_BE_THERE = READERS.keys() - {"cbm mask", "xpus"}


def attempt(read: Reader, root: str) -> str:
    """What a reader complains of; empty where it is content. Another error fails the test."""
    told = ""
    try:
        read(root)
    except KoordError as error:
        told = str(error)
    assert "\n" not in told
    return told


@pytest.fixture(scope="module", params=READERS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str, Reader]:
    root = tmp_path_factory.mktemp("machine")
    path, read = READERS[request.param]
    target = root / path
    target.parent.mkdir(parents=True)
    return target, str(root), read


@given(text=st.binary(max_size=200))
@example(text=b"")
@example(text=b"\0" * 4096)
@example(text=b"cpu  1 2\n")
@example(text=b"cpu  -1 2 3 4 5 6 7 8\n")
@example(text=b"cpu  \xd9\xa1 2 3 4 5 6 7 8\n")
@example(text=b"MemTotal: 99999999999999999999999 kB\n")
@example(text=b"MemTotal: " + b"9" * 5000 + b" kB\n")
@example(text=b"MemTotal:\nMemFree\n")
@example(text=b"9" * 5000)
@example(text=b"9" * 5000 + b" 1 1\n")
@example(text=b"cpu  1 1 1 " + b"9" * 5000 + b" 5 6 7 8\n")
@example(text=b"cpu" + b"9" * 30 + b" 1 2 3 4 5 6 7 8\ncpu  1 2 3 4 5 6 7 8\n")
@example(text=b"L3:0=zz\n")
@example(text=b"[{}]")
@example(text=b"[" * 5000)
@example(text=b'[{"minor":[]}]')
@example(text=b"1 2\n")
@example(text=b"4:memory\n:::::\n")
def test_whatever_stands_there(place: tuple[Path, str, Reader], text: bytes) -> None:
    target, root, read = place
    target.write_bytes(text)
    attempt(read, root)


def test_gone_a_directory_or_a_pipe(place: tuple[Path, str, Reader]) -> None:
    target, root, read = place
    target.unlink(missing_ok=True)
    name = next(name for name, (path, _) in READERS.items() if str(target).endswith(path))
    assert bool(attempt(read, root)) == (name in MUST_BE_THERE - {"resctrl use"})
    target.mkdir()
    attempt(read, root)
    target.rmdir()
    os.mkfifo(target)
    attempt(read, root)  # it would wait for a writer for ever
    target.unlink()


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"cgroup", "listeners"}))
def test_a_read_that_fails(name: str, tmp_path: Path) -> None:
    path, read = READERS[name]
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("1\n")
    error = KoordError(path, "", "EIO", "a file")
    with inject(FaultPlan(1, {"host.read": FaultRule(1.0, error)})):
        assert attempt(read, str(tmp_path)) == str(error)


def test_a_file_without_end(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * 100)
    assert len(files.read_bytes(str(tmp_path / "long"), 100)) == 100
    with pytest.raises(KoordError, match="a shorter file"):
        files.read_bytes(str(tmp_path / "long"), 99)


def card(root: Path, bus_id: str, kind: str = "0x020000", rdma_name: str = "") -> Path:
    """A PCI function behind a root complex, as sysfs links it."""
    real = root / f"sys/devices/pci0000:3a/{bus_id}"
    real.mkdir(parents=True)
    (real / "class").write_text(f"{kind}\n")
    (real / "numa_node").write_text("1\n")
    if rdma_name:
        port = real / "infiniband" / rdma_name / "ports/1"
        port.mkdir(parents=True)
        (port / "state").write_text("4: ACTIVE\n")
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / bus_id).symlink_to(real)
    return real


def test_rdma_functions(tmp_path: Path) -> None:
    second = card(tmp_path, "0000:3b:00.1", rdma_name="mlx5_1")
    first = card(tmp_path, "0000:3b:00.0", rdma_name="mlx5_0")
    virtual = card(tmp_path, "0000:3b:00.2", rdma_name="mlx5_2")
    (virtual / "physfn").symlink_to(first)
    (first / "virtfn0").symlink_to(virtual)
    card(tmp_path, "0000:3c:00.0")  # a network function without RDMA
    card(tmp_path, "0000:3d:00.0", kind="0x030000", rdma_name="odd")  # a display
    card(tmp_path, "0000:3e:00.0", kind="nonsense", rdma_name="mlx5_9")
    (second / "numa_node").write_text("-1\n")
    found = rdma.read_rdma(f"{tmp_path}/sys")
    assert [(d.minor, d.name, d.bus_id, d.node) for d in found] == [
        (0, "mlx5_0", "0000:3b:00.0", 1),
        (1, "mlx5_1", "0000:3b:00.1", 0),
    ]
    assert found[0].pcie_root == "pci0000:3a"
    assert found[0].virtual == ("0000:3b:00.2",)
    assert rdma.read_rdma(f"{tmp_path}/none") == []


def test_rdma_minors_are_the_numbers_in_the_names(tmp_path: Path) -> None:
    names = ["mlx5_3", "mlx5_0", "mlx4_3", "rocep59s0f0", "mlx5_12345678901"]
    for place, name in enumerate(names):
        card(tmp_path, f"0000:3b:00.{place}", rdma_name=name)
    found = rdma.read_rdma(f"{tmp_path}/sys")
    assert [(d.name, d.minor) for d in found] == [
        ("mlx5_3", 3), ("mlx5_0", 0), ("mlx4_3", 1), ("rocep59s0f0", 2), ("mlx5_12345678901", 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("states", "healthy"),
    [(["4: ACTIVE"], True), (["5: ACTIVE_DEFER"], True), (["4: ACTIVE", "1: DOWN"], False),
     (["2: INIT"], False), ([None], False), ([], False)],
)  # fmt: skip
def test_rdma_cards_are_as_healthy_as_their_ports(
    tmp_path: Path, states: list[str | None], healthy: bool
) -> None:
    ports = card(tmp_path, "0000:3b:00.0", rdma_name="mlx5_0") / "infiniband/mlx5_0/ports"
    shutil.rmtree(ports)
    for number, state in enumerate(states, 1):
        (ports / str(number)).mkdir(parents=True)
        if state is not None:
            (ports / str(number) / "state").write_text(f"{state}\n")
    (found,) = rdma.read_rdma(f"{tmp_path}/sys")
    assert found.healthy is healthy


class Disks:
    """Block devices as sysfs shows them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounts: list[str] = []

    def add(self, name: str, number: str, within: str = "", on: tuple[str, ...] = ()) -> Path:
        real = self.root / "sys/devices/pci0/block" / within / name
        real.mkdir(parents=True)
        (real / "dev").write_text(f"{number}\n")
        if within:
            (real / "partition").write_text("1\n")
        for below in on:
            (real / "slaves" / below).mkdir(parents=True)
        links = self.root / "sys/class/block"
        links.mkdir(parents=True, exist_ok=True)
        (links / name).symlink_to(real)
        return real

    def volume(self, name: str, number: str, mapped: str, on: tuple[str, ...]) -> None:
        real = self.add(name, number, on=on)
        (real / "dm").mkdir()
        (real / "dm/name").write_text(f"{mapped}\n")
        (real / "dm/uuid").write_text("LVM-abc\n")

    def mount(self, number: str, where: str) -> None:
        self.mounts.append(f"20 1 {number} / {where} rw - ext4 /dev/x rw\n")

    def read(self) -> block.BlockStorage:
        (self.root / "proc/1").mkdir(parents=True, exist_ok=True)
        (self.root / "proc/1/mountinfo").write_text("".join(self.mounts))
        return block.read_storage(f"{self.root}/sys", f"{self.root}/proc")


def test_disks_partitions_and_volume_groups(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    disks.add("sda", "8:0")
    disks.add("sda1", "8:1", within="sda")
    disks.add("sdb", "8:16")
    disks.add("cciss!c0d0", "104:0")
    disks.volume("dm-0", "253:0", "my--group-da--ta", ("sda1",))
    disks.volume("dm-1", "253:1", "wide-data", ("sda1", "sdb"))
    (disks.add("odd", "1:1") / "dev").write_text("odd\n")
    disks.mount("8:1", "/")
    disks.mount("253:0", "/data\\040set")
    found = disks.read()
    assert found.devices.keys() == {"sda", "sda1", "sdb", "cciss!c0d0", "dm-0", "dm-1"}
    assert found.devices["cciss!c0d0"].path == "/dev/cciss/c0d0"
    assert found.devices["dm-0"].path == "/dev/mapper/my--group-da--ta"
    root = found.device_of_mount("/")
    data = found.device_of_mount("/data set/")
    assert root is found.devices["sda1"]
    assert data is found.devices["dm-0"]
    assert data.volume_group == "my-group"
    assert found.disk_of(data) is found.devices["sda"]
    assert found.disk_of_group("my-group") is found.devices["sda"]
    # More than one physical volume: nobody can say which disk.
    assert found.disk_of(found.devices["dm-1"]) is None
    assert found.disk_of_group("wide") is None
    assert found.disk_of_group("") is None
    assert found.device_of_mount("/data") is None


def test_devices_that_lie_on_each_other_end(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    disks.add("dm-0", "253:0", on=("dm-1",))
    disks.add("dm-1", "253:1", on=("dm-0",))
    found = disks.read()
    assert found.disk_of(found.devices["dm-0"]) is None
