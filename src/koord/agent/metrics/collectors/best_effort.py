# SPDX-License-Identifier: Apache-2.0
"""What best-effort pods use, asked for, may use at most.

Rule: docs/reference/measuring.md#best-effort-tier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.host import files
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.resources import BATCH_CPU
from koord.base.errors import KoordError
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from koord.agent.metrics.options import MetricsOptions
    from koord.agent.states.pod_state import PodState
    from koord.kernels.cgroup import Table

_LIST_AGAIN_SECONDS = 10.0
_LABELS = (("cpu", "usage"), ("cpu", "request"), ("cpu", "real-limit"))
_NUMBERS = ["cpuacct.usage", "cpu.cfs_quota_us", "cpu.cfs_period_us"]
_NS_A_MS = 1_000_000


class BestEffortCollector(Collector):
    """Three figures in milli-cores: usage (0 the first time), request, real limit."""

    name = "best-effort"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used
        self._before: tuple[int, int] | None = None
        self._of: object = None
        self._request = 0
        self._directories: list[str] = []
        self._listed_seconds = float("-inf")
        self._sizes: dict[str, int] = {}
        self._narrowest: tuple[str, int] = ("", 0)

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; raises KoordError where the tier's directory cannot be read."""
        samples = Samples(now.now_ms)
        if now.knows_pods:
            at_ms = round(now.clock.monotonic_seconds() * 1000)
            tier = _tier(now)
            usage = self._usage(tier, at_ms)
            self._learn(now)
            limit = self._real_limit(now, tier)
            samples.add(MetricKind.NODE_BE, _LABELS, [usage, self._request, limit])
        return samples

    def _learn(self, now: CollectionRound) -> None:
        """What follows from the pods, when they changed; containers come and go between lists."""
        pods = now.snapshot.pods.value
        if pods is not self._of:
            self._of, self._request = pods, batch_request_milli(pods)
            self._listed_seconds = float("-inf")
        if now.now_seconds - self._listed_seconds >= _LIST_AGAIN_SECONDS:
            self._listed_seconds = now.now_seconds
            self._directories = container_directories(now)
            self._sizes.clear()
            self._narrowest = ("", 0)

    def _usage(self, tier: dict[str, int], at_ms: int) -> int:
        used_ns = tier["cpuacct.usage"]
        before, self._before = self._before, (used_ns, at_ms)
        if before is None or at_ms <= before[1] or used_ns < before[0]:
            return 0
        return int(1000 * float((used_ns - before[0]) // _NS_A_MS) / (at_ms - before[1]))

    def _real_limit(self, now: CollectionRound, tier: dict[str, int]) -> int:
        """The narrowest CPU set of the tier and its containers, and the tier's quota."""
        limit = 1000 * self._cpus(now)
        quota = tier["cpu.cfs_quota_us"]
        if quota == -1:
            return limit
        return min(limit, quota * 1000 // max(1, tier["cpu.cfs_period_us"]))

    def _cpus(self, now: CollectionRound) -> int:
        """CPUs of the narrowest set; those of containers are read when the tier's changed."""
        top = now.machine.layout.best_effort
        tier = _cpusets(now, [top])
        if tier.error[0]:
            raise KoordError(top, "cpuset.cpus", tier.messages[0], "CPUs")
        text = tier.texts[0]
        if text != self._narrowest[0]:
            texts = [text, *_cpusets(now, self._directories).texts]
            # A container in the making has no CPUs yet, one that ended has no directory.
            sizes = [size for each in texts if (size := self._size(each)) > 0]
            self._narrowest = text, min(sizes, default=0)
        return self._narrowest[1]

    def _size(self, text: str) -> int:
        if text not in self._sizes:
            try:
                self._sizes[text] = len(CPUSet.parse(text.strip()))
            except ValueError:
                self._sizes[text] = 0
        return self._sizes[text]


def _cpusets(now: CollectionRound, directories: list[str]) -> Table:
    return now.groups.read_others(directories, ["cpuset.cpus"])["cpuset.cpus"]


def _tier(now: CollectionRound) -> dict[str, int]:
    """The tier's own usage, quota and period."""
    directory = now.machine.layout.best_effort
    tables = now.groups.read_others([directory], _NUMBERS)
    for resource, table in tables.items():
        if table.error[0]:
            raise KoordError(directory, resource, table.messages[0], "a number")
    return {resource: int(table["value"][0]) for resource, table in tables.items()}


def container_directories(now: CollectionRound) -> list[str]:
    """The directories of all containers of the tier, sandboxes too, relative to a hierarchy.

    Raises:
        KoordError: the tier is there and cannot be listed.
    """
    hierarchy, tier = now.machine.hierarchy, now.machine.layout.best_effort
    top = hierarchy.path if hierarchy.version == Version.V2 else f"{hierarchy.path}/cpuset"
    found = []
    for pod in files.directories(f"{top}/{tier}"):
        inside = files.directories(f"{top}/{tier}/{pod}")
        found += [f"{tier}/{pod}/{container}" for container in inside]
    return found


def batch_request_milli(pods: tuple[PodState, ...]) -> int:
    """Batch CPU that pods labelled BE ask for, over containers and sidecars."""
    total = 0
    for pod in pods:
        if pod.qos != QoSClass.BE:
            continue
        spec = pod.pod.spec
        sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
        for container in (*spec.containers, *sidecars):
            amount = container.resources.requests.get(BATCH_CPU)
            total += max(0, amount.value()) if amount is not None else 0
    return total
