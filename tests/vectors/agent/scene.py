# SPDX-License-Identifier: Apache-2.0
"""A node of a vector as koord's strategies see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from koord.agent.baseline import Baseline
from koord.agent.executor.target import QUOTA, Target
from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.states.pod_state import PodState, pod_state
from koord.agent.strategies.strategy import Tick
from koord.api.kinds.node import Node
from koord.api.kinds.nodeslo import NodeSLO, NodeSLOSpec
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.objects import decode_as
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import Driver
from koord.kernels.cpuset import CPUSet
from koord.kernels.topology import Topology
from tests.agent.strategies.fakes import FakeExecutor, FakeReader, machine
from tests.agent.strategies.nodes import NOW_MS, NOW_SECONDS, reported, tick

KINDS = {
    "node_cpu": MetricKind.NODE_CPU_USAGE,
    "node_memory": MetricKind.NODE_MEMORY_USAGE,
    "be_cpu": MetricKind.NODE_BE,
    "pod_cpu": MetricKind.POD_CPU_USAGE,
    "pod_memory": MetricKind.POD_MEMORY_USAGE,
    "container_cpu": MetricKind.CONTAINER_CPU_USAGE,
    "container_throttled": MetricKind.CONTAINER_CPU_THROTTLED,
    "host_cpu": MetricKind.HOST_APPLICATION_CPU_USAGE,
    "host_memory": MetricKind.HOST_APPLICATION_MEMORY_USAGE,
}
_LAYOUT = CgroupLayout(Driver.SYSTEMD)


class Scene:
    """Everything of one case, with files in memory."""

    def __init__(self, case: dict[str, Any], root: Path) -> None:
        self.case = case
        self.executor = FakeExecutor(self._given_back)
        self.version = Version.V2 if case["version"] == 2 else Version.V1
        for path, text in case["files"].items():
            self.executor.files[self._target(path)] = text
            if path.endswith("cpuset.cpus"):
                # Suppression looks for cgroups that no pod tells of.
                (root / "cgroup" / path).parent.mkdir(parents=True, exist_ok=True)
        columns = np.array(case.get("cpus") or [[0, 0, 0, 0]], np.int32).T
        topology = Topology.from_cpus(
            columns[0], core=columns[1], socket=columns[2], node=columns[3]
        )
        self.machine = machine(root, version=self.version, topology=topology)
        self.pods = tuple(state(each) for each in case["pods"])
        self.node, self.slo, self.topology = node_of(case), slo_of(case), reported_of(case)

    def tick(self, samples: list[dict[str, Any]], passed_seconds: float = 0.0) -> Tick:
        """A round after some time, with what was measured then."""
        at = NOW_MS + int(1000 * passed_seconds)
        reader = FakeReader()
        for each in samples:
            labels = [each["label"]] if each["label"] else []
            if each["kind"] == "be_cpu":
                labels = ["cpu", *labels]
            reader.add(KINDS[each["kind"]], at - each["age_ms"], each["value"], *labels)
        return tick(
            self.machine, reader, pods=self.pods, of=self.node, slo=self.slo,
            topology=self.topology, now_seconds=NOW_SECONDS + passed_seconds, now_ms=at,
        )  # fmt: skip

    def files(self) -> dict[str, str]:
        """What each file of the case says now."""
        targets = {path: self._target(path) for path in self.case["files"]}
        said = self.executor.files
        return {path: _plain(at[0], said[at]) for path, at in targets.items()}

    def _given_back(self, target: Target, found: str) -> str:
        """As the agent's own executor has it."""
        value = int(found) if target.resource == QUOTA else found
        return str(Baseline(self.machine, lambda: self.pods)(target, value))

    def _target(self, path: str) -> tuple[str, str]:
        """Resource and directory of a file, whose path begins with a subsystem on cgroup v1."""
        rest = path if self.version is Version.V2 else path.partition("/")[2]
        folder, _, name = rest.rpartition("/")
        return name, folder


def _plain(name: str, text: str) -> str:
    """Lists of CPUs have many spellings."""
    return str(CPUSet.parse(text)) if name == "cpuset.cpus" and text else text


def state(document: dict[str, Any]) -> PodState:
    """A pod as the agent sees it."""
    return pod_state(decode_as(document, Pod), _LAYOUT)


def cpu_set(text: str) -> set[int]:
    """CPUs of a list, as the wire has it."""
    return set(CPUSet.parse_wire(text))


def node_of(case: dict[str, Any]) -> Node | None:
    """The Node of a case."""
    return decode_as(case["node"], Node) if case.get("node") else None


def slo_of(case: dict[str, Any]) -> NodeSLOSpec:
    """Its NodeSLO."""
    meta = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO"}
    return decode_as({**meta, "metadata": {"name": "node-0"}, "spec": case["slo"]}, NodeSLO).spec


def reported_of(case: dict[str, Any]) -> NodeResourceTopology | None:
    """Its NodeResourceTopology."""
    annotations = case.get("topology")
    return None if annotations is None else reported(**annotations)
