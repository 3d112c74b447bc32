# SPDX-License-Identifier: Apache-2.0
"""A node whose files another agent wrote, and koord's owners on it: files in, files out.

``tests/data/takeover/*.json`` are such nodes. ``found`` is what files say when koord starts,
``clean`` what kubelet, runtime and kernel alone would have them say; paths are relative to the root
of the cgroups, texts are the kernel's. A node with ``found`` alone is taken over and never judged
by ``clean``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from koord.agent.baseline import Baseline
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter
from koord.agent.feature_gates import feature_gates
from koord.agent.hooks.options import HookOptions
from koord.agent.hooks.reconciliation.reconciler import Reconciler
from koord.agent.hooks.registry import load
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.states.pod_state import pod_state
from koord.agent.strategies.cpuburst.strategy import CPUBurst
from koord.agent.strategies.cpusuppress.strategy import CPUSuppress
from koord.agent.strategies.memoryqos.strategy import MemoryQoS
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators, Strategy
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.api.objects import decode_as
from koord.base.clock import VirtualClock
from koord.kernels.cgroup import Base, Write, Written
from koord.kernels.cgroup_parse import Version
from tests.agent.executor.test_startup import V2Files
from tests.agent.strategies.fakes import FakeEvictor, FakeReader, machine
from tests.agent.strategies.nodes import LAYOUT, NOW_MS, NOW_SECONDS, node, reported, tick

NODES = sorted(Path(__file__, "../../data/takeover").resolve().glob("*.json"))
ON = "CgroupReconcile=true,CPUNormalization=true"
POOLS = '[{"socket":0,"node":0,"cpuset":"0-7"}]'
_MARKS = {"wmarkRatio": 95, "wmarkScalePermill": 20}
_SERVED = {"minLimitPercent": 50, "lowLimitPercent": 50, "throttlingPercent": 80}
_UNSERVED = {"minLimitPercent": 0, "lowLimitPercent": 0, "throttlingPercent": 0}
SLO: dict[str, Any] = {
    "resourceUsedThresholdWithBE": {"enable": False},
    "cpuBurstStrategy": {
        "policy": "none", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300,
        "cfsQuotaBurstPeriodSeconds": -1, "sharePoolThresholdPercent": 50,
    },
    "resourceQOSStrategy": {
        "lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 2},
                    "memoryQOS": {"enable": True, "wmarkMinAdj": -25, **_MARKS, **_SERVED}},
        "beClass": {"cpuQOS": {"enable": True, "groupIdentity": -1},
                    "memoryQOS": {"enable": True, "wmarkMinAdj": 50, **_MARKS, **_UNSERVED}},
    },
}  # fmt: skip


_LIMITS = ("memory.high", "memory.max", "memory.limit_in_bytes")
_NO_LIMIT = {"-1": "9223372036854771712", "9223372036854775807": "max"}


class KernelFiles(V2Files):
    """Plain files that say no limit as the kernel does."""

    def write_leveled(
        self, levels: Sequence[Sequence[Write]], now_seconds: float
    ) -> list[list[Written]]:
        """See `NativeFiles`."""
        answers = super().write_leveled(levels, now_seconds)
        for place in Path(self._hierarchy.path).rglob("memory.*"):
            if place.name not in _LIMITS:
                continue
            text = place.read_text().strip()
            if text in _NO_LIMIT:
                place.write_text(f"{_NO_LIMIT[text]}\n")
        return answers


class Node:
    """One node's files, and the owners that both agents have.

    Args:
        root: an empty directory.
        document: see the module.
        files: ``found`` or ``clean``, what the files say to begin with.
    """

    def __init__(self, root: Path, document: dict[str, Any], files: str = "found") -> None:
        self.root, self.document = root, document
        self.version = Version.V1 if document["version"] == "v1" else Version.V2
        self.machine = machine(root, version=self.version)
        for path, text in {**document["found"], **document[files]}.items():
            place = root / "cgroup" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{text}\n")
        self.pods = tuple(pod_state(decode_as(each, Pod), LAYOUT) for each in document["pods"])
        self.slo = json.loads(json.dumps(SLO))
        self.clock, self.reader = VirtualClock(), FakeReader()
        self.throttled = 0.0
        self.start()

    def start(self) -> None:
        """A new process."""
        tree = self.machine.hierarchy
        journal = Journal(self.root / "state", "boot")
        self.executor = HostExecutor(
            [CgroupFileWriter({Base.CGROUP: KernelFiles(tree)})], journal, self.clock,
            ExecutorOptions(self.version), baseline=Baseline(self.machine, lambda: self.pods),
        )  # fmt: skip
        gates = feature_gates(ON)
        options = StrategyOptions(gates=gates)
        self.strategies: list[Strategy] = [
            CPUSuppress(options),
            CPUBurst(options),
            MemoryQoS(options),
        ]
        hooks = load(HookOptions(gate=gates.enabled, has=lambda feature: True), [])
        self.reconciler = Reconciler(hooks, self.executor, self.machine, lambda pod: "")
        self.hands = Actuators(self.executor, FakeEvictor())

    def rounds(self, count: int = 1) -> None:
        """Rounds of a second: strategies, hooks, and what both want is written."""
        for _ in range(count):
            self.clock.advance(1)
            seconds = self.clock.monotonic_seconds()
            at = NOW_MS + int(1000 * seconds)
            self.reader.add(MetricKind.NODE_CPU_USAGE, at, 1.0)
            for name in [each.id for pod in self.pods for each in pod.containers if each.id]:
                self.reader.add(MetricKind.CONTAINER_CPU_THROTTLED, at, self.throttled, name)
            view = tick(
                self.machine, self.reader, pods=self.pods,
                of=node({"cpu": "8", "memory": "16Gi"}),
                slo=decode_as({"kind": "NodeSLO", "spec": self.slo}, NodeSLO).spec,
                topology=reported(**{"node.koordinator.sh/cpu-shared-pools": POOLS}),
                now_seconds=NOW_SECONDS + seconds, now_ms=at,
            )  # fmt: skip
            for strategy in self.strategies:
                strategy.run(view, self.hands)
            self.reconciler.changed(view.snapshot)

    def stop(self) -> None:
        """What SIGTERM does with ``--restore-on-exit``."""
        for strategy in self.strategies:
            strategy.stop(self.hands)
        self.reconciler.stop()

    def write(self, path: str, text: str) -> None:
        """Changes one file, as somebody else does."""
        (self.root / "cgroup" / path).write_text(f"{text}\n")

    def says(self, path: str) -> str:
        """One file."""
        return (self.root / "cgroup" / path).read_text().strip()

    def unlike(self, files: str) -> dict[str, tuple[str, str]]:
        """Files that do not say what ``clean`` or ``found`` has: what they say, and should."""
        wanted = self.document[files]
        said = {path: self.says(path) for path in wanted}
        return {path: (text, wanted[path]) for path, text in said.items() if text != wanted[path]}
