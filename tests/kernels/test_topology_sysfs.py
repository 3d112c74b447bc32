# SPDX-License-Identifier: Apache-2.0
"""Machines read from a directory that contains ``sys/``."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.topology import CPU, Topology
from tests.kernels.sysfs_builder import Style, Thread, write_sysfs

# Two sockets of two nodes of two cores of two threads, an L3 a core; ids of cores repeat between
# sockets, and siblings are eight apart.
MACHINE = [
    Thread(cpu, core=cpu % 4, socket=cpu // 4 % 2, node=cpu // 2 % 4, l3=cpu % 8)
    for cpu in range(16)
]


def exactly(message: str) -> str:
    return f"^{re.escape(message)}$"


def named(topology: Topology, field: str) -> list[object]:
    return [getattr(cpu, field) for cpu in topology.cpus]


DUMPS = [
    ("x86_64-epyc_7451", (96, 48, 2, 8, 16, 2)),
    ("x86_64-64cpu", (64, 32, 4, 3, 4, 2)),
    ("x86_64-dell_e4310", (4, 2, 1, 1, 1, 2)),
]


@pytest.mark.parametrize(("name", "counts"), DUMPS)
def test_real_machines(sysfs_dump, name: str, counts: tuple[int, ...]) -> None:
    topology = Topology.from_sysfs(sysfs_dump(name))
    assert tuple(topology.summary()) == counts
    assert len({cpu.core for cpu in topology.cpus}) == counts[1]


def test_the_epyc_keeps_the_kernels_cache_ids(sysfs_dump) -> None:
    cpus = Topology.from_sysfs(sysfs_dump("x86_64-epyc_7451")).cpus
    assert cpus[40] == CPU(40, core=40, socket=1, node=6, l3=13, online=True)
    assert cpus[88] == CPU(88, core=40, socket=1, node=6, l3=13, online=True)


def test_the_xeon_has_nodes_0_2_and_3_only(sysfs_dump) -> None:
    topology = Topology.from_sysfs(sysfs_dump("x86_64-64cpu"))
    assert {cpu.node for cpu in topology.cpus} == {0, 2, 3}
    assert topology.pick(4, bind="FullPCPUs", strategy="MostAllocated").cpu_list == "1,17,33,49"


@pytest.mark.parametrize(
    "style",
    [
        Style(),
        Style(masks=False),
        Style(lists=False),
        Style(old_names=True),
        Style(old_names=True, lists=False),
        Style(siblings=False),
        Style(online_file=False),
        Style(present_file=False),
    ],
)
def test_every_form_of_the_files_tells_the_same(tmp_path: Path, style: Style) -> None:
    topology = Topology.from_sysfs(write_sysfs(tmp_path, MACHINE, style))
    assert tuple(topology.summary()) == (16, 8, 2, 4, 8, 2)
    assert named(topology, "core") == [0, 1, 2, 3, 4, 5, 6, 7] * 2
    assert named(topology, "node") == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert named(topology, "l3") == list(range(8)) * 2


def test_caches_without_ids_are_numbered_by_their_lowest_cpu(tmp_path: Path) -> None:
    machine = [replace(thread, l3=100 - thread.l3) for thread in MACHINE if thread.l3 is not None]
    topology = Topology.from_sysfs(write_sysfs(tmp_path, machine, Style(l3_ids=False)))
    assert named(topology, "l3") == list(range(8)) * 2


def test_offline_cpus_are_listed_and_never_picked(tmp_path: Path) -> None:
    machine = [replace(thread, online=thread.cpu not in (0, 9)) for thread in MACHINE]
    topology = Topology.from_sysfs(write_sysfs(tmp_path, machine))
    assert str(topology.online) == "1-8,10-15"
    assert topology.cpus[0] == CPU(0, None, None, None, None, False)
    assert topology.summary().cpus == 14
    assert topology.pick(14).cpu_list == "1-8,10-15"


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_per_core(tmp_path: Path, threads: int) -> None:
    machine = [Thread(cpu, core=cpu // threads) for cpu in range(8 * threads)]
    summary = Topology.from_sysfs(write_sysfs(tmp_path, machine)).summary()
    assert (summary.cores, summary.threads_per_core) == (8, threads)


def test_unequal_cores_count_the_most_threads(tmp_path: Path) -> None:
    machine = [Thread(0), Thread(1), Thread(2, core=1), Thread(3, core=2)]
    summary = Topology.from_sysfs(write_sysfs(tmp_path, machine)).summary()
    assert (summary.cores, summary.threads_per_core) == (3, 2)


def test_what_the_kernel_does_not_tell_is_none(tmp_path: Path) -> None:
    machine = [Thread(cpu, core=None, socket=None, node=None, l3=None) for cpu in range(4)]
    topology = Topology.from_sysfs(write_sysfs(tmp_path, machine))
    assert topology.cpus[3] == CPU(3, None, None, None, None, True)
    assert tuple(topology.summary()) == (4, None, None, None, None, None)
    # CPUs of unknown cores are cores of their own.
    assert topology.pick(3, bind="FullPCPUs").cpu_list == "0-2"


def test_without_node_directory_the_links_of_the_cpus_serve(tmp_path: Path) -> None:
    root = write_sysfs(tmp_path, MACHINE, Style(node_directory=False))
    assert Topology.from_sysfs(root).summary().nodes is None
    for thread in MACHINE:
        (root / f"sys/devices/system/cpu/cpu{thread.cpu}/node{thread.node}").mkdir()
    assert Topology.from_sysfs(root).summary().nodes == 4


def test_memory_only_nodes_do_not_count(tmp_path: Path) -> None:
    root = write_sysfs(tmp_path, MACHINE)
    (root / "sys/devices/system/node/node7").mkdir()
    (root / "sys/devices/system/node/node7/cpulist").write_text("\n")
    assert Topology.from_sysfs(root).summary().nodes == 4


def test_the_largest_machine() -> None:
    cpus = np.arange(8192)
    topology = Topology.from_cpus(cpus, core=cpus // 2, socket=cpus // 1024, node=cpus // 512)
    assert tuple(topology.summary()) == (8192, 4096, 8, 16, None, 2)
    assert topology.pick(600, bind="FullPCPUs").cpu_list == "0-599"


BAD_FILES = [
    ("cpu/cpu3/topology/core_id", "x", "an integer"),
    ("cpu/cpu3/topology/physical_package_id", "", "an integer"),
    ("cpu/cpu3/topology/core_cpus_list", "3-", "ids and ranges such as 0-3,8"),
    ("cpu/cpu3/cache/index3/level", "three", "an integer"),
    ("cpu/cpu3/cache/index3/shared_cpu_list", "0-99999", "ids of at most 8191"),
    ("cpu/online", "0-3;5", "ids and ranges such as 0-3,8"),
    ("node/node1/cpulist", "1 2", "ids and ranges such as 0-3,8"),
]


@pytest.mark.parametrize(("path", "text", "expected"), BAD_FILES)
def test_a_garbled_file_is_named(tmp_path: Path, path: str, text: str, expected: str) -> None:
    file = write_sysfs(tmp_path, MACHINE) / "sys/devices/system" / path
    file.write_text(text)
    with pytest.raises(ValueError, match=exactly(f"{file}: got '{text}', expected {expected}")):
        Topology.from_sysfs(tmp_path)


def test_a_garbled_mask_is_named(tmp_path: Path) -> None:
    write_sysfs(tmp_path, MACHINE, Style(lists=False))
    file = tmp_path / "sys/devices/system/node/node0/cpumap"
    file.write_text("zz")
    with pytest.raises(ValueError, match=f"^{file}: got 'zz', expected 32-bit hex words"):
        Topology.from_sysfs(tmp_path)


def test_an_online_flag_is_0_or_1(tmp_path: Path) -> None:
    write_sysfs(tmp_path, MACHINE, Style(online_file=False))
    file = tmp_path / "sys/devices/system/cpu/cpu5/online"
    file.write_text("2")
    with pytest.raises(ValueError, match=f"^{file}: got '2', expected 0 or 1$"):
        Topology.from_sysfs(tmp_path)


def test_a_cpu_on_two_nodes_is_refused(tmp_path: Path) -> None:
    write_sysfs(tmp_path, MACHINE)
    (tmp_path / "sys/devices/system/node/node3/cpulist").write_text("0,6-7,14-15")
    with pytest.raises(ValueError, match="node3: got 'cpu0', expected each cpu on one node"):
        Topology.from_sysfs(tmp_path)


def test_an_unreadable_root_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Topology.from_sysfs(tmp_path / "nowhere")
    assert caught.value.filename == str(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="expected a directory that contains sys/devices/system"):
        Topology.from_sysfs(tmp_path)


def test_an_unreadable_file_is_an_os_error(tmp_path: Path) -> None:
    write_sysfs(tmp_path, MACHINE)
    file = tmp_path / "sys/devices/system/cpu/cpu2/topology/core_id"
    file.unlink()
    file.mkdir()  # root reads any file, but nobody reads a directory
    with pytest.raises(OSError, match="Is a directory") as caught:
        Topology.from_sysfs(tmp_path)
    assert caught.value.filename == str(file)


COLUMNS = [
    ({"cpu": [0, 0]}, "cpu: got '0', expected every id once"),
    ({"cpu": [0, 8192]}, "cpu: got '8192', expected an id from 0 to 8191"),
    ({"cpu": [0], "node": [-2]}, "node of cpu 0: got '-2', expected an id of 0 or more"),
    ({"cpu": [0], "online": [False]}, "online cpus: got 'none', expected one at least"),
    ({"cpu": []}, "online cpus: got 'none', expected one at least"),
    ({"cpu": [0, 1], "core": [0]}, "core: got 1 values, expected 2, one a cpu"),
    ({"cpu": [0.5]}, "cpu: got float64 of 1 dimensions, expected a column of integers"),
    ({"cpu": [1 << 40]}, "cpu: got a number beyond 32 bits, expected ids of at most 2147483647"),
    ({"cpu": [0, 1], "core": [0, 0], "node": [0, 1]},
     "node of cpu 1: got '1', expected 0, the node of cpu 0 on the same core"),
    ({"cpu": list(range(65)), "core": [0] * 65},
     "core of cpu 0: got '65 cpus', expected at most 64 cpus on a core"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "message"), COLUMNS)
def test_bad_columns_are_errors_of_one_line(columns, message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        Topology.from_cpus(**columns)


FILES = ["cpu/online", "cpu/present", "cpu/cpu0/topology/core_id", "node/node0/cpulist",
         "cpu/cpu1/topology/core_cpus_list", "cpu/cpu2/cache/index3/shared_cpu_list",
         "cpu/cpu1/topology/physical_package_id", "cpu/cpu0/cache/index3/id"]  # fmt: skip


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sysfs(tmp_path_factory.mktemp("fuzzed"), MACHINE[:4])


@given(
    path=st.sampled_from(FILES), text=st.binary(max_size=12) | st.from_regex(rb"[-0-9,\n ]{0,9}")
)
def test_random_bytes_are_read_or_refused_in_one_line(fuzzed: Path, path: str, text: bytes) -> None:
    file = fuzzed / "sys/devices/system" / path
    before = file.read_bytes()
    file.write_bytes(text)
    said = f"{fuzzed}: fine"
    try:
        Topology.from_sysfs(fuzzed)
    except (ValueError, OSError) as error:
        said = str(error)
    finally:
        file.write_bytes(before)
    assert os.fspath(fuzzed) in said
    assert "\n" not in said
