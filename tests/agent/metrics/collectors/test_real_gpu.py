# SPDX-License-Identifier: Apache-2.0
"""The collector and the Device of real NVIDIA GPUs, beside what nvidia-smi says of them.

``pytest -m gpu -s`` prints what koordlet would report. Nothing of a GPU is set. A child computes on
the first one for some seconds, by PyTorch of the interpreter that ``KOORD_GPU_PYTHON`` names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from koord.agent.host import machine
from koord.agent.host.roots import HostRoots
from koord.agent.metrics.collectors.gpu import GPUCollector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.agent.report.device_object import device_object
from koord.api import codec
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from tests.agent.metrics.bench import Bench, pod_json, pod_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi"),
]

_MIB = 1 << 20
_STEP_SECONDS, _STEPS = 1.0, 6
# One process alone that multiplies without a pause.
_BUSY_PERCENT = 80.0
_LOAD = """
import sys, time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
print("ready", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    for _ in range(50):
        b = a @ a
    torch.cuda.synchronize()
"""


class HostTree:
    """Stands for a tree of files: this machine's own."""

    def machine(self) -> machine.Machine:
        return machine.find(HostRoots())


def ask(*arguments: str) -> list[list[str]]:
    """Rows of nvidia-smi, bytes in MiB."""
    call = ["nvidia-smi", *arguments, "--format=csv,noheader,nounits"]
    told = subprocess.run(call, capture_output=True, text=True, check=True, timeout=60).stdout
    return [[cell.strip() for cell in line.split(",")] for line in told.splitlines() if line]


@contextmanager
def load() -> Iterator[subprocess.Popen[str]]:
    """A process that keeps the first GPU busy."""
    python = os.environ.get("KOORD_GPU_PYTHON", "python3")
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        [python, "-c", _LOAD], env=plain | {"CUDA_VISIBLE_DEVICES": "0"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        cast("Any", process.stdout).close()


@contextmanager
def group_of(hierarchy: Hierarchy, directory: str, process: int) -> Iterator[bool]:
    """Puts a process into a container's cgroup, as a kubelet would; whether it could."""
    root = Path(HostRoots().cgroup)
    folder = root / directory
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    placed = False
    try:
        if hierarchy.version is Version.V2:
            folder.mkdir(parents=True)
            (folder / "cgroup.procs").write_text(str(process))
            placed = True
    except OSError as error:
        print(f"no cgroup of its own: {error}")
    try:
        yield placed
    finally:
        if placed:  # It has to leave before its directory can go.
            (root / "cgroup.procs").write_text(str(process))
        for each in made:
            if each.is_dir():
                each.rmdir()


def bench_of() -> Bench:
    settings = MetricsOptions()
    return Bench(cast("Any", HostTree()), [GPUCollector(settings)], settings)


def test_the_inventory_is_what_the_driver_says() -> None:
    bench = bench_of()
    bench.step()
    assert not bench.errors()
    found = bench.advisor.facts.gpus.value
    asked = ask("--query-gpu=index,uuid,name,memory.total,pci.bus_id,driver_version")
    for gpu, (index, uuid, name, mib, bus_id, driver) in zip(found, asked, strict=True):
        assert (gpu.index, gpu.uuid, gpu.model) == (int(index), uuid, name)
        # nvidia-smi rounds.
        assert gpu.memory_bytes / _MIB == pytest.approx(int(mib), abs=1)
        assert bench.advisor.facts.gpu_driver == driver
        folder = Path("/sys/bus/pci/devices") / gpu.bus_id
        assert int(gpu.bus_id.split(":")[1], 16) == int(bus_id.split(":")[1], 16)
        assert (folder / "vendor").read_text() == "0x10de\n"
        assert f"/{gpu.pcie_root}/" in f"{folder.resolve()}"
        assert gpu.node == max(0, int((folder / "numa_node").read_text()))
        assert Path(f"/dev/nvidia{gpu.minor}").exists()
        assert not gpu.unhealthy
    assert bench.last(MetricKind.NODE_GPU_MEMORY_TOTAL) == {
        (str(gpu.minor), gpu.uuid): float(gpu.memory_bytes) for gpu in found
    }


def test_the_device_that_is_reported() -> None:
    bench = bench_of()
    bench.step()
    lines: list[str] = []
    node = Node(metadata=ObjectMeta(name="here", uid="u1"))
    device = device_object(node, bench.advisor.facts, datetime.now(UTC), lines.append)
    document = codec.to_document(device)
    print(document)
    gpus = [each for each in document["spec"]["devices"] if each["type"] == "gpu"]
    assert [each["id"] for each in gpus] == [row[0] for row in ask("--query-gpu=uuid")]
    assert all(each["health"] and each["topology"]["busID"] for each in gpus)
    assert document["metadata"]["labels"]["node.koordinator.sh/gpu-vendor"] == "nvidia"
    assert not lines


def test_what_a_pod_uses_is_what_the_driver_says() -> None:
    bench = bench_of()
    bench.step()
    first = bench.advisor.facts.gpus.value[0]
    device = (str(first.minor), first.uuid)
    pod = pod_of(cast("Any", HostTree()), pod_json("gpu", 1))
    container = pod.containers[0]
    hierarchy = bench.machine.hierarchy
    with load() as process, group_of(hierarchy, container.directory, process.pid) as placed:
        bench.set_pods(pod)
        for _ in range(_STEPS):
            time.sleep(_STEP_SECONDS)
            bench.step(_STEP_SECONDS)
            ((percent, used),) = ask("--query-gpu=utilization.gpu,memory.used", "--id=0")
            apps = [int(mib) for (mib,) in ask("--query-compute-apps=used_memory", "--id=0")]
            core = bench.last(MetricKind.NODE_GPU_CORE_USAGE)[device]
            memory = bench.last(MetricKind.NODE_GPU_MEMORY_USAGE)[device]
            print(
                f"koord {core:.0f} %, {memory / _MIB:.0f} MiB; nvidia-smi {percent} %, "
                f"processes {apps} MiB, whole card {used} MiB"
            )
            assert not bench.errors()
        assert core >= _BUSY_PERCENT
        assert core == pytest.approx(float(percent), abs=100 - _BUSY_PERCENT)
        assert memory / _MIB == pytest.approx(sum(apps), abs=2)
        if placed:
            of_pod = bench.last(MetricKind.POD_GPU_MEMORY_USAGE)
            assert of_pod[(pod.uid, *device)] == memory
            of_container = bench.last(MetricKind.CONTAINER_GPU_CORE_USAGE)
            assert of_container[(container.id, *device)] >= _BUSY_PERCENT
    time.sleep(2 * _STEP_SECONDS)
    bench.step(2 * _STEP_SECONDS)
    assert bench.last(MetricKind.NODE_GPU_MEMORY_USAGE)[device] == 0
