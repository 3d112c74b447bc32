# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from koord.agent.host.devices.gpus import NOT_WATCHED
from koord.agent.metrics.collectors.gpu import GPUCollector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.kernels.cgroup_parse import Version
from tests.agent.fake_nvml import FakeGPU, FakeNVML
from tests.agent.machine_tree import MachineTree
from tests.agent.metrics.bench import Bench, pod_json, pod_of


@pytest.fixture(params=Version, ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> MachineTree:
    return MachineTree(tmp_path, request.param)


def make(tree: MachineTree, nvml: FakeNVML) -> Bench:
    settings = MetricsOptions()
    bench = Bench(tree, [GPUCollector(settings, nvml)], settings)
    pod = pod_of(tree, pod_json("train", 2))
    bench.set_pods(pod)
    directories = [c.directory for c in pod.containers]
    for pid, directory in ((10, directories[0]), (11, directories[1]), (12, f"{directories[1]}/x")):
        process(tree, pid, f"/../../{directory}")
    process(tree, 99, "/system.slice/x.service")
    return bench


def process(tree: MachineTree, pid: int, directory: str) -> None:
    v1 = f"9:name=systemd:/\n4:memory:{directory}\n1:cpu,cpuacct:{directory}\n0::/\n"
    text = v1 if tree.version == Version.V1 else f"0::{directory}\n"
    tree.write(f"proc/{pid}/cgroup", text)


def test_use_by_device_pod_and_container(tree: MachineTree) -> None:
    first = FakeGPU("GPU-a", 1, running={10: 100, 11: 200, 99: 1000}, samples=[(10, 30), (99, 5)])
    second = FakeGPU("GPU-b", 0, running={12: 7, 5: None}, samples=[(12, 50), (12, 90), (77, 9)])
    bench = make(tree, FakeNVML(first, second))
    bench.step()
    a, b = ("1", "GPU-a"), ("0", "GPU-b")
    assert bench.last(MetricKind.NODE_GPU_CORE_USAGE) == {a: 35.0, b: 50.0}
    # The original leaves the 200 bytes of process 11 out: it has no sample of late.
    assert bench.last(MetricKind.NODE_GPU_MEMORY_USAGE) == {a: 1300.0, b: 7.0}
    assert bench.last(MetricKind.NODE_GPU_MEMORY_TOTAL) == {a: 2.0**30, b: 2.0**30}
    assert bench.last(MetricKind.POD_GPU_CORE_USAGE) == {
        ("uid-train", *a): 30.0, ("uid-train", *b): 50.0,
    }  # fmt: skip
    assert bench.last(MetricKind.POD_GPU_MEMORY_USAGE) == {
        ("uid-train", *a): 300.0, ("uid-train", *b): 7.0,
    }  # fmt: skip
    assert bench.last(MetricKind.CONTAINER_GPU_MEMORY_USAGE) == {
        ("containerd://trainc0", *a): 100.0,
        ("containerd://trainc1", *a): 200.0,
        ("containerd://trainc1", *b): 7.0,
    }
    assert not bench.errors()


def test_inventory_and_where_a_gpu_sits(tree: MachineTree) -> None:
    real = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    tree.write(f"{real}/numa_node", "1\n")
    link = tree.root / "sys/bus/pci/devices/0000:3b:00.0"
    link.parent.mkdir(parents=True)
    link.symlink_to(tree.root / real)
    bench = make(tree, FakeNVML(FakeGPU("GPU-a", 0), FakeGPU("GPU-b", 1, bus_id="0:5:0.0")))
    bench.step()
    known, unknown = bench.advisor.facts.gpus.value
    assert (known.bus_id, known.pcie_root, known.node) == ("0000:3b:00.0", "pci0000:3a", 1)
    assert (unknown.pcie_root, unknown.node) == ("", 0)
    assert bench.advisor.facts.gpu_driver == "550.54.15"
    assert known.model == "NVIDIA A100-SXM4-80GB"


def health(bench: Bench) -> list[str]:
    return [gpu.unhealthy for gpu in bench.advisor.facts.gpus.value]


def test_a_critical_xid_makes_unhealthy_and_quiet_makes_well_again(tree: MachineTree) -> None:
    first, second = FakeGPU("GPU-a", 0), FakeGPU("GPU-b", 1, remapped=None)
    nvml = FakeNVML(first, second)
    bench = make(tree, nvml)
    nvml.events = [(first, 31), (first, 79), (second, 13)]
    bench.step()
    assert health(bench) == ["Xid79", ""]  # 13 and 31 are the applications' own
    bench.step(599.0)
    assert health(bench) == ["Xid79", ""]
    first.remapped = (0, 1, 1, 0)  # a repair waits for a reset
    bench.step(1.0)
    assert health(bench) == ["Xid79", ""]
    first.remapped = (0, 1, 0, 0)
    bench.step(1.0)
    assert health(bench) == ["", ""]
    nvml.events = [(second, 48)]
    bench.step(1.0)
    assert health(bench) == ["", "Xid48"]
    bench.step(600.0)
    assert health(bench) == ["", ""]


def test_a_gpu_that_cannot_be_listened_to_says_so(tree: MachineTree) -> None:
    bench = make(tree, FakeNVML(FakeGPU("GPU-a", 0), FakeGPU("GPU-b", 1, deaf=True)))
    bench.step()
    assert health(bench) == ["", NOT_WATCHED]


def test_a_driver_that_goes_is_tried_again_each_minute(tree: MachineTree) -> None:
    nvml = FakeNVML(FakeGPU("GPU-a", 0))
    bench = make(tree, nvml)
    bench.step()
    nvml.broken = {"nvmlDeviceGetComputeRunningProcesses": nvml.NVML_ERROR_GPU_IS_LOST}
    bench.step(1.0)
    assert "nvmlDeviceGetComputeRunningProcesses broken" in bench.errors()["gpu"]
    assert nvml.calls["nvmlShutdown"] == 1
    nvml.broken = {}
    for _ in range(59):
        bench.step(1.0)
    assert nvml.calls["nvmlInit"] == 1
    bench.step(1.0)
    assert nvml.calls["nvmlInit"] == 2
    assert not bench.errors()
    assert bench.last(MetricKind.NODE_GPU_MEMORY_TOTAL)


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetUUID"])
def test_no_driver_is_one_line_and_no_session_is_left(tree: MachineTree, broken: str) -> None:
    nvml = FakeNVML(FakeGPU("GPU-a", 0))
    nvml.broken = {broken: nvml.NVML_ERROR_GPU_IS_LOST}
    bench = make(tree, nvml)
    bench.step()
    assert bench.errors() == {
        "gpu": f"NVML: {broken}: got '{broken} broken', expected an answer of the driver"
    }
    assert nvml.calls["nvmlShutdown"] == (0 if broken == "nvmlInit" else 1)


def test_events_that_cannot_be_had_leave_the_rest(tree: MachineTree) -> None:
    nvml = FakeNVML(FakeGPU("GPU-a", 0))
    nvml.broken = {"nvmlEventSetCreate": nvml.NVML_ERROR_NOT_SUPPORTED}
    bench = make(tree, nvml)
    bench.step()
    assert health(bench) == [NOT_WATCHED]
    assert not bench.errors()
