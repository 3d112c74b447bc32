# SPDX-License-Identifier: Apache-2.0
"""What the node agent's collectors cost: ``python -m benchmarks.agent_metrics [--real]``.

Rounds of all collectors at their default intervals over a synthetic machine, or with ``--real``
over real v1 cgroups that are made for it and removed (root needed). Time is virtual, so a minute
takes a second; CPU seconds are real, the kernel's included. GPUs and hardware counters that the
machine lacks are stood in for and named under ``stood_in_for``; what it lacks otherwise is under
``absent``. Prints one JSON document: CPU seconds a minute, resident memory above a bare interpreter
and above one with NumPy, bytes of rings, how a plain Python loop over the same files compares, and
CPU milliseconds of reading and parsing 500 containers in one pass.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.resident import resident_bytes
from koord.agent.host.kernel.perf import pack_reading, scaled
from koord.agent.host.machine import Machine
from koord.agent.host.process_limits import raise_descriptors
from koord.agent.metrics.collectors.cpi import CPICollector
from koord.agent.metrics.collectors.gpu import GPUCollector
from koord.agent.metrics.options import MetricsOptions
from koord.agent.metrics.registry import BUILT_IN, built_in
from koord.kernels.cgroup import Reader
from tests.agent import subtree
from tests.agent.fake_nvml import FakeGPU, FakeNVML
from tests.agent.machine_tree import Group, MachineTree
from tests.agent.metrics.bench import Bench, lay_out, pod_json, pod_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.host.kernel.perf import PerfEvent
    from koord.agent.metrics.collector import Collector
    from koord.kernels.cgroup import Hierarchy

RESOURCES = ["cpuacct.usage", "memory.stat", "cpu.stat"]
FILES = ("cpuacct/{}/cpuacct.usage", "memory/{}/memory.stat", "cpu/{}/cpu.stat")
MINUTE = 60


def settings() -> MetricsOptions:
    return MetricsOptions(page_cache=True, resctrl_enabled=True)


class FakeCounters:
    """Hardware counters as the kernel would give them, without the kernel."""

    def __init__(self, directory: str, cpus: Sequence[int], events: Sequence[PerfEvent]) -> None:
        self._directory, self._events = directory, len(events)
        self._readings = [pack_reading(10, 10, [1000] * self._events) for _ in cpus]

    def read(self) -> list[float]:
        return scaled(self._readings, self._events, self._directory)

    def close(self) -> None: ...


def stand_ins() -> dict[str, Collector]:
    """Collectors over devices that are not there: eight GPUs with a process each, counters."""
    running = {os.getpid(): 1 << 30}
    gpus = [FakeGPU(f"GPU-{n}", n, running=dict(running)) for n in range(8)]
    counters: Any = FakeCounters
    return {
        "gpu": GPUCollector(settings(), FakeNVML(*gpus)),
        "cpi": CPICollector(settings(), descriptors=1 << 20, opened=counters),
    }


class Chosen(NamedTuple):
    """What is measured: collectors, the names of those stood in for, and what is missing why."""

    collectors: list[Collector]
    stood_in_for: list[str]
    absent: dict[str, str]


def chosen(machine: Machine) -> Chosen:
    """Every collector, real where the machine can serve it."""
    fakes, found = stand_ins(), Chosen([], [], {})
    for name in BUILT_IN:
        one = built_in(name, settings())
        missing = [machine.features.missing.get(feature, "") for feature in sorted(one.needs)]
        reason = next(filter(None, missing), "")
        if reason and name in fakes:
            found.stood_in_for.append(name)
            one = fakes[name]
        elif reason:
            found.absent[name] = reason
            continue
        found.collectors.append(one)
    return found


def bench(tree: MachineTree, which: Chosen, pods: int, containers: int) -> Bench:
    """Pods with their cgroups laid out, a third of them best-effort."""
    documents = [
        pod_json(f"p{n}", containers, *(("BE", "BestEffort", 500) if n % 3 == 0 else ("LS",)))
        for n in range(pods)
    ]
    states = tuple(pod_of(tree, one) for one in documents)
    return Bench(tree, which.collectors, settings(), states)


def synthetic(root: Path, pods: int, containers: int) -> tuple[Bench, Chosen]:
    tree = MachineTree(root)
    group = Group(10**9, 1 << 20, 0, 1 << 20, 10, 1, pages={0: 9, 1: 9}, pressure=(0.5, 0.1))
    extras(tree, group)
    which = chosen(tree.machine())
    made = bench(tree, which, pods, containers)
    for pod in made.pods:
        lay_out(tree, pod, group)
        for directory in (pod.directory, *(c.directory for c in pod.containers)):
            tree.write(f"sys/fs/cgroup/memory/{directory}/memory.idle_page_stats", IDLE)
    return made, which


def extras(tree: MachineTree, group: Group) -> str:
    """A kernel with idle page tracking, pressure, cache monitoring and an RDMA function.

    Returns:
        What a cgroup's ``memory.idle_page_stats`` says.
    """
    tree.group("", group)
    tree.write("sys/fs/cgroup/memory/memory.idle_page_stats", IDLE)
    for name in ("scan_period_in_seconds", "use_hierarchy"):
        tree.write(f"sys/kernel/mm/kidled/{name}", "5\n")
    flags = "cat_l3 mba cqm_mbm_total cqm_mbm_local cqm_llc cqm_occup_llc"
    tree.write("proc/cpuinfo", f"vendor_id\t: GenuineIntel\nmodel name\t: X\nflags\t: {flags}\n")
    for name in ("LSR", "LS", "BE"):
        for file in ("llc_occupancy", "mbm_local_bytes", "mbm_total_bytes"):
            tree.write(f"sys/fs/resctrl/{name}/mon_data/mon_L3_00/{file}", "4096\n")
    card = "sys/bus/pci/devices/0000:3b:00.0"
    tree.write(f"{card}/class", "0x020000\n")
    for where in (f"{card}/infiniband", "sys/class/infiniband"):
        tree.write(f"{where}/mlx5_0/node_type", "1: CA\n")
    return IDLE


def real(pods: int, containers: int, held: ExitStack) -> tuple[Bench, Chosen]:
    if reason := subtree.why_not():
        sys.exit(reason)
    name = held.enter_context(subtree.subtree())
    tree = RealTree(name)
    which = chosen(tree.machine())
    made = bench(tree, which, pods, containers)
    for pod in made.pods:
        for directory in (pod.directory, *(c.directory for c in pod.containers)):
            subtree.make(directory)
    subtree.make(made.machine.layout.best_effort)
    return made, which


class RealTree(MachineTree):
    """This machine, with pods below one directory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def machine(self) -> Machine:
        from koord.agent.host import machine
        from koord.agent.host.roots import HostRoots

        found = machine.find(HostRoots())
        layout = subtree.SubtreeLayout(found.layout.driver, self.name)
        return replace(found, layout=layout)


def plain_loop(root: str, directories: list[str]) -> list[list[int]]:
    """What a careful Python program does: open, read, close and parse each file."""
    rows = []
    for directory in directories:
        texts = []
        for file in FILES:
            descriptor = os.open(f"{root}/{file.format(directory)}", os.O_RDONLY)
            texts.append(os.read(descriptor, 16384).decode())
            os.close(descriptor)
        memory = dict(line.split() for line in texts[1].splitlines())
        cpu = dict(line.split() for line in texts[2].splitlines())
        names = ("total_inactive_anon", "total_active_anon", "total_unevictable")
        used = sum(int(memory[name]) for name in names)
        rows.append([int(texts[0]), used, int(cpu["nr_periods"]), int(cpu["nr_throttled"])])
    return rows


def minute(made: Bench) -> float:
    """CPU seconds of one minute of rounds."""
    started = time.process_time()
    for _ in range(MINUTE):
        made.step(1.0)
    return time.process_time() - started


def one_pass_ms(hierarchy: Hierarchy, directories: Sequence[str]) -> float:
    """CPU milliseconds to read and parse the files of 500 cgroups in one call, the best of 20."""
    rows = [directory for _, directory in zip(range(500), cycle(directories), strict=False)]
    reader = Reader(hierarchy, kept_max=len(rows) * len(RESOURCES))
    reader.read(rows, RESOURCES)
    best = float("inf")
    for _ in range(20):
        started = time.process_time()
        reader.read(rows, RESOURCES)
        best = min(best, time.process_time() - started)
    reader.close_kept()
    return best * 1000


def measure(made: Bench, root: str) -> dict[str, object]:
    for _ in range(10):
        made.step(1.0)
    minutes = [minute(made) for _ in range(3)]
    hierarchy, directories = made.machine.hierarchy, made.groups.directories
    plain = []
    for _ in range(20):
        started = time.process_time()
        plain_loop(root, directories)
        plain.append(time.process_time() - started)
    ours = min(minutes) / MINUTE
    return {
        "collectors": [one.name for one in made.collectors],
        "directories": len(directories),
        "cpu_seconds_a_minute": round(min(minutes), 4),
        "percent_of_a_core": round(ours * 100, 3),
        "plain_loop_percent_of_a_core": round(min(plain) * 100, 3),
        "plain_loop_files": len(directories) * len(FILES),
        "plain_loop_over_all_collectors": round(min(plain) / ours, 2),
        "one_pass_500_cgroups_3_files_ms": round(one_pass_ms(hierarchy, directories), 3),
        "series": made.cache.series,
        "ring_bytes": made.cache.bytes,
        "descriptors": made.groups.kept,
        "errors": made.errors(),
    }


def resident(code: str) -> int:
    """Resident bytes of an interpreter that ran some code."""
    tell = "from benchmarks.resident import resident_bytes; print(resident_bytes())"
    command = [sys.executable, "-c", f"{code}\n{tell}"]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--containers", type=int, default=2, help="of each pod")
    parser.add_argument("--real", action="store_true", help="real v1 cgroups; needs root")
    options = parser.parse_args()
    raise_descriptors()
    with ExitStack() as held:
        if options.real:
            made, which = real(options.pods, options.containers, held)
            root = "/sys/fs/cgroup"
        else:
            directory = Path(held.enter_context(tempfile.TemporaryDirectory()))
            made, which = synthetic(directory, options.pods, options.containers)
            root = f"{directory}/sys/fs/cgroup"
        report = measure(made, root)
        report |= {"stood_in_for": which.stood_in_for, "absent": which.absent}
        used = resident_bytes()
        report["resident_mib_above_bare"] = round((used - resident("")) / 2**20, 1)
        report["resident_mib_above_numpy"] = round((used - resident("import numpy")) / 2**20, 1)
        made.advisor.stop()
    print(json.dumps(report, indent=2))


_IDLE_ROWS = "csei dsei cfei dfei csui dsui cfui dfui csea dsea cfea dfea csua dsua cfua dfua slab"
IDLE = "\n".join(
    ["# version: 1.0", "# page_scans: 1", "# slab_scans: 1", "# scan_period_in_seconds: 5",
     "# use_hierarchy: 1", "# buckets: 1,2,5,15,30,60,120,240"]
    + [f"# {line}" for line in range(8)]
    + [f"  {name} {' '.join(['4096'] * 8)}" for name in _IDLE_ROWS.split()]
)  # fmt: skip

if __name__ == "__main__":
    main()
