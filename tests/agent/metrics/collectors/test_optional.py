# SPDX-License-Identifier: Apache-2.0
"""Collectors behind gates: pressure, cold pages, resctrl, CPI, storage and other devices."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.agent_metrics import IDLE
from koord.agent.host.kernel import perf
from koord.agent.metrics.collectors import inventory
from koord.agent.metrics.collectors.cold_pages import SCAN, ColdPagesCollector
from koord.agent.metrics.collectors.cpi import CPICollector
from koord.agent.metrics.collectors.pressure import PressureCollector
from koord.agent.metrics.collectors.resctrl import ResctrlCollector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.base.errors import KoordError
from koord.kernels.cgroup import CATALOGUE, Hierarchy
from koord.kernels.cgroup_parse import Version
from tests.agent.machine_tree import GIB, KIB, MIB, Group, MachineTree
from tests.agent.metrics.bench import Bench, lay_out, pod_json, pod_of
from tests.descriptors import descriptors
from tests.models.agent_metrics import perf_count

UNIFIED = Path("/sys/fs/cgroup/unified")


@pytest.fixture(params=Version, ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> MachineTree:
    return MachineTree(tmp_path, request.param)


def make(tree: MachineTree, kind: type) -> Bench:
    return Bench(tree, [kind(MetricsOptions())])


def test_pressure_of_pods_and_containers(tree: MachineTree) -> None:
    bench = make(tree, PressureCollector)
    pod = pod_of(tree, pod_json("web"))
    lay_out(tree, pod, Group(pressure=(1.5, 0.25)))
    bench.set_pods(pod)
    bench.step()
    pods = bench.last(MetricKind.POD_PSI)
    assert len(pods) == 6
    assert pods["uid-web", "mem", "10", "some"] == 1.5
    assert pods["uid-web", "cpu", "10", "full"] == 0.25
    containers = bench.last(MetricKind.CONTAINER_PSI)
    assert containers["uid-web", "containerd://webc0", "io", "10", "some"] == 1.5
    assert bench.last(MetricKind.POD_PSI_CPU_FULL_SUPPORTED) == {("uid-web",): 1.0}


def test_no_full_line_is_zero_and_a_bad_prefix_no_sample(tree: MachineTree) -> None:
    bench = make(tree, PressureCollector)
    good, bad = pod_of(tree, pod_json("good")), pod_of(tree, pod_json("bad"))
    where = "" if tree.version == Version.V2 else "cpuacct/"
    for pod in (good, bad):
        lay_out(tree, pod, Group(pressure=(1.5, 0.25)))
    some = "some avg10=2.00 avg60=0.00 avg300=0.00 total=1\n"
    tree.write(f"sys/fs/cgroup/{where}{good.directory}/cpu.pressure", some)
    tree.write(f"sys/fs/cgroup/{where}{bad.directory}/io.pressure", "most avg10=1\n")
    bench.set_pods(good, bad)
    bench.step()
    assert bench.last(MetricKind.POD_PSI_CPU_FULL_SUPPORTED) == {("uid-good",): 0.0}
    assert bench.last(MetricKind.POD_PSI)["uid-good", "cpu", "10", "full"] == 0.0
    assert {key[0] for key in bench.last(MetricKind.POD_PSI)} == {"uid-good"}


def test_cold_pages_and_what_is_hot(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path)
    bench = make(tree, ColdPagesCollector)
    pod = pod_of(tree, pod_json("web"))
    lay_out(tree, pod, Group(anon=MIB, file=MIB))
    for directory in ("", pod.directory, pod.containers[0].directory):
        tree.write(f"sys/fs/cgroup/memory/{directory}/memory.idle_page_stats", IDLE)
    bench.set_pods(pod)
    bench.step()
    cold = 4 * 3 * 4096  # rows cfei, dfei, cfui, dfui; buckets from the sixth on
    assert bench.one(MetricKind.NODE_MEMORY_COLD_PAGE_SIZE) == cold
    assert bench.one(MetricKind.NODE_MEMORY_WITH_HOT_PAGE_USAGE) == 12 * GIB - cold
    assert bench.last(MetricKind.POD_MEMORY_COLD_PAGE_SIZE) == {("uid-web",): cold}
    hot = bench.last(MetricKind.CONTAINER_MEMORY_WITH_HOT_PAGE_USAGE)
    assert hot == {("containerd://webc0",): 2 * MIB - cold}


def test_the_scan_is_a_claim_on_files_that_the_executor_knows() -> None:
    assert [(claim.resource, claim.value) for claim in SCAN] == [
        ("scan_period_in_seconds", 5), ("use_hierarchy", 1),
    ]  # fmt: skip
    assert all(CATALOGUE[claim.resource].writable for claim in SCAN)


def counters(tree: MachineTree, group: str, occupancy: str, local: str, total: str) -> None:
    for file, text in (
        ("llc_occupancy", occupancy), ("mbm_local_bytes", local), ("mbm_total_bytes", total),
    ):  # fmt: skip
        tree.write(f"sys/fs/resctrl/{group}/mon_data/mon_L3_01/{file}", text)


def test_resctrl_occupancy_and_bandwidth(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path)
    bench = make(tree, ResctrlCollector)
    counters(tree, "BE", "4096\n", "1000\n", "3000\n")
    counters(tree, "LS", "Unavailable\n", "Error\n", "50\n")
    tree.write("sys/fs/resctrl/BE/mon_data/mon_PERF_PKG_00/core_energy", "1.5\n")
    bench.step()
    assert bench.last(MetricKind.RESCTRL_LLC) == {("BE", "1"): 4096.0}
    assert not bench.last(MetricKind.RESCTRL_MB)
    counters(tree, "BE", "4096\n", "21000\n", "33000\n")
    bench.step(10.0)
    found = bench.last(MetricKind.RESCTRL_MB)
    assert found == {
        ("BE", "1", "local"): 2000.0, ("BE", "1", "total"): 3000.0, ("LS", "1", "total"): 0.0,
    }  # fmt: skip


def test_resctrl_without_groups_is_one_line(tmp_path: Path) -> None:
    bench = make(MachineTree(tmp_path), ResctrlCollector)
    bench.step()
    assert "mon_data" in bench.errors()["resctrl"]


@given(st.lists(st.tuples(*[st.integers(0, 2**40)] * 3), min_size=1, max_size=4))
def test_counts_are_scaled_by_the_time_that_they_ran(rows: list[tuple[int, int, int]]) -> None:
    data = [perf.pack_reading(enabled, running, [count]) for count, enabled, running in rows]
    assert perf.scaled(data, 1, "group")[0] == pytest.approx(perf_count(rows))


def test_a_group_that_never_got_onto_the_hardware_is_an_error() -> None:
    with pytest.raises(KoordError, match="a counting group"):
        perf.scaled([b""], 2, "group")


@pytest.fixture
def busy_group() -> object:
    """A cgroup of v2 with this process in it, where one can be made and counted."""
    if not os.access(UNIFIED, os.W_OK) or not (UNIFIED / "cgroup.procs").exists():
        pytest.skip(f"{UNIFIED} is no cgroup2 tree that can be written")
    group = UNIFIED / f"koord-test-{os.getpid()}-{secrets.token_hex(4)}"
    back = UNIFIED / next(
        line.split("::", 1)[1].lstrip("/")
        for line in Path("/proc/self/cgroup").read_text().splitlines()
        if line.startswith("0::")
    )
    group.mkdir()
    (group / "cgroup.procs").write_text(str(os.getpid()))
    yield group.name
    (back / "cgroup.procs").write_text(str(os.getpid()))
    group.rmdir()


SOFTWARE = (perf.PerfEvent(1, 1), perf.PerfEvent(1, 0))  # task clock and CPU clock, in nanoseconds


def test_counting_a_real_cgroup(tmp_path: Path, busy_group: str) -> None:
    """Events of software stand in for those of hardware, which a virtual machine lacks."""
    tree = MachineTree(tmp_path, Version.V2)
    collector = CPICollector(MetricsOptions(), SOFTWARE)
    bench = Bench(tree, [collector])
    from koord.agent.host.machine import find
    from koord.agent.host.roots import HostRoots

    real = find(HostRoots())
    machine = replace(real, hierarchy=Hierarchy(UNIFIED))
    bench.advisor._machine = machine
    pod = pod_of(tree, pod_json("web"))
    container = replace(pod.containers[0], directory=busy_group)
    gone = replace(pod.containers[0], id="containerd://gone", directory="koord-no-such-group")
    bench.set_pods(replace(pod, containers=(container, gone)))
    before = descriptors()
    try:
        bench.step()
    except PermissionError:
        pytest.skip("perf_event_open is not permitted")
    if "not permitted" in bench.errors().get("cpi", ""):
        pytest.skip(bench.errors()["cpi"])
    assert descriptors() == before + 2 * len(machine.topology.online)
    assert sum(number * number for number in range(200_000)) > 0
    bench.step(10.0)
    found = bench.last(MetricKind.CONTAINER_CPI)
    assert set(found) == {
        ("uid-web", "containerd://webc0", "cycle"),
        ("uid-web", "containerd://webc0", "instruction"),
    }
    assert all(value > 0 for value in found.values())
    assert descriptors() == before
    bench.step(50.0)
    bench.advisor.stop()
    assert descriptors() == before


def test_containers_take_turns_where_descriptors_are_few() -> None:
    collector = CPICollector(MetricsOptions(), descriptors=8)
    assert [collector._turn(5, 2) for _ in range(3)] == [[0, 1], [2, 3], [4, 0]]
    assert collector._turn(2, 2) == [0, 1]


def test_facts_that_are_no_series(tree: MachineTree) -> None:
    kinds = [inventory.ProcessorCollector, inventory.NUMAInfoCollector, inventory.XPUCollector]
    bench = Bench(tree, [kind(MetricsOptions()) for kind in kinds])
    huge = "sys/devices/system/node/node1/hugepages/hugepages-2048kB"
    tree.write(f"{huge}/nr_hugepages", "8\n")
    tree.write(f"{huge}/free_hugepages", "3\n")
    tree.write("sys/fs/resctrl/info/L3/cbm_mask", "7ff\n")
    tree.write("var/run/koordlet/xpu-device-infos/npu", '[{"vendor": "huawei", "minor": 3}]')
    bench.step()
    found = bench.advisor.facts
    assert found.cpu.value is not None
    assert (found.cpu.value.vendor_id, found.cbm_mask.value) == ("GenuineIntel", "7ff")
    assert [node.meminfo["MemTotal"] for node in found.numa.value] == [8 * GIB, 8 * GIB]
    (pages,) = found.numa.value[1].huge_pages
    assert (pages.page_bytes, pages.total, pages.free) == (2048 * KIB, 8, 3)
    assert [(xpu.vendor, xpu.minor) for xpu in found.xpus.value] == [("huawei", 3)]
    assert not bench.errors()


def test_storage_is_read_anew_when_mounts_change(tree: MachineTree) -> None:
    bench = make(tree, inventory.StorageCollector)
    tree.write("sys/class/block/sda/dev", "8:0\n")
    bench.step()
    first = bench.advisor.facts.storage
    bench.step(1.0)
    again = bench.advisor.facts.storage
    assert again.value is first.value
    assert again.at_seconds == 1.0
    tree.write("proc/1/mountinfo", "22 1 8:0 / /data rw - ext4 /dev/sda rw\n")
    bench.step(1.0)
    storage = bench.advisor.facts.storage.value
    assert storage is not None
    device = storage.device_of_mount("/data/")
    assert device is not None
    assert device.path == "/dev/sda"
