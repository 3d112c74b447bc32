# SPDX-License-Identifier: Apache-2.0
"""A machine tree with pods, an advisor over it, and time moved by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from koord.agent.metrics.cgroup_tables import CgroupTables
from koord.agent.metrics.collection_loop import CollectionLoop
from koord.agent.metrics.collector import Collector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.agent.metrics.reader import Window
from koord.agent.metrics.samples import Labels
from koord.agent.metrics.storage.metric_cache import MetricCache
from koord.agent.states.pod_state import PodState, pod_state
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.api.codec import convert
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from tests.agent.machine_tree import Group, MachineTree

START = 1_700_000_000.0


def pod_json(
    name: str, containers: int = 1, qos: str = "", kube: str = "Burstable", batch_milli: int = 0
) -> dict[str, object]:
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    requests = {"kubernetes.io/batch-cpu": str(batch_milli)} if batch_milli else {}
    names = [f"c{index}" for index in range(containers)]
    statuses = [
        {"name": c, "containerID": f"containerd://{name}{c}", "state": {"running": {}}}
        for c in names
    ]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels},
        "spec": {"containers": [{"name": c, "resources": {"requests": requests}} for c in names]},
        "status": {"phase": "Running", "qosClass": kube, "containerStatuses": statuses},
    }


def pod_of(tree: MachineTree, document: dict[str, object]) -> PodState:
    return pod_state(convert(document, Pod, "pod"), tree.machine().layout)


@dataclass
class Bench:
    """Everything that a collector needs, and short ways to ask what came of it."""

    tree: MachineTree
    collectors: list[Collector]
    settings: MetricsOptions = field(default_factory=MetricsOptions)
    pods: tuple[PodState, ...] = ()
    kept_max: int = 4096

    def __post_init__(self) -> None:
        self.clock = VirtualClock(START)
        self.machine = self.tree.machine()
        self.cache = MetricCache(self.settings)
        self.snapshot = Snapshot(
            pods=Timestamped(self.pods, 0.0), slo=Timestamped(NodeSLOSpec(), 0.0)
        )
        self.groups = CgroupTables(self.machine.hierarchy, self.clock, self.kept_max)
        self.advisor = CollectionLoop(
            self.machine, lambda: self.snapshot, self.cache, self.collectors, self.clock,
            self.groups, aside=None,
        )  # fmt: skip

    def set_pods(self, *pods: PodState) -> None:
        now = self.clock.monotonic_seconds()
        self.snapshot = replace(self.snapshot, pods=Timestamped(tuple(pods), now))

    def step(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.advisor.step()

    @property
    def now_ms(self) -> int:
        return round(self.clock.wall_seconds() * 1000)

    def last(self, kind: MetricKind) -> dict[Labels, float]:
        """Values of this very moment."""
        rows = self.cache.read(kind, Window(self.now_ms, self.now_ms))
        return dict(zip(rows.labels, rows.last.tolist(), strict=True))

    def one(self, kind: MetricKind) -> float | None:
        return self.last(kind).get(())

    def errors(self) -> dict[str, str]:
        return {n: s.error for n, s in self.advisor.collector_states.items() if s.error}


def lay_out(tree: MachineTree, pod: PodState, group: Group | None = None) -> None:
    """Cgroups of a pod and its containers, all alike."""
    tree.group(pod.directory, group or Group())
    for container in pod.containers:
        tree.group(container.directory, group or Group())
