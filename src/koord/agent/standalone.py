# SPDX-License-Identifier: Apache-2.0
"""A machine looked at without an agent and without a cluster: nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from koord.agent.feature_gates import feature_gates
from koord.agent.metrics.collection_loop import CollectionLoop
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.agent.metrics.registry import BUILT_IN, collectors
from koord.agent.metrics.storage.metric_cache import MetricCache
from koord.agent.states.pod_state import ContainerKind, ContainerState, PodState, pod_state
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.agent.status import machine_status, usage_status
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod, PodStatus
from koord.api.timestamps import seconds_text
from koord.base.clock import SystemClock
from koord.kernels import cgroup_path
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.agent.host.machine import Machine

# Rates need two looks; this long apart.
_BETWEEN_SECONDS = 1.0
# Those that ask a cluster for nothing and load no driver.
_LOOKED_AT = ("node", "numa", "pods", "throttling", "best-effort", "system")


class StandaloneProbe:
    """Measures a machine with the agent's own collectors.

    Args:
        machine: found.
        sleep: waits between two looks.
    """

    def __init__(self, machine: Machine, sleep: Callable[[float], None]) -> None:
        self._machine, self._sleep, self._clock = machine, sleep, SystemClock()
        settings = MetricsOptions(used=_BETWEEN_SECONDS)
        found = collectors(settings, feature_gates(), machine.features, outside=())
        eyes = [each for each in found if each.name in _LOOKED_AT and each.name in BUILT_IN]
        self._cache = MetricCache(settings)
        self._advisor = CollectionLoop(
            machine, self._snapshot, self._cache, eyes, self._clock, aside=None
        )
        self._advisor.step()

    def __call__(self) -> dict[str, Any]:
        """What is there now; takes about a second."""
        for _ in range(2):
            self._sleep(_BETWEEN_SECONDS)
            self._advisor.step()
        now_ms = int(self._clock.wall_seconds() * 1000)
        window = self._cache.last_window(now_ms)
        cpu, memory = (
            self._cache.read(kind, window)
            for kind in (MetricKind.POD_CPU_USAGE, MetricKind.POD_MEMORY_USAGE)
        )
        cores, held = cpu.by_label(cpu.last), memory.by_label(memory.last)
        return {
            "node": "",
            "time": seconds_text(self._clock.wall_seconds()),
            "agent": False,
            "machine": machine_status(self._machine),
            "usage": usage_status(self._cache, window),
            "pods": [
                {
                    "pod": pod.uid,
                    "qos": str(pod.kube_qos),
                    "cpuCores": cores.get(pod.uid),
                    "memoryBytes": held.get(pod.uid),
                    "cgroup": pod.directory,
                }
                for pod in pods_on_disk(self._machine)
            ],
        }

    def _snapshot(self) -> Snapshot:
        pods = tuple(pods_on_disk(self._machine))
        return Snapshot(pods=Timestamped(pods, self._clock.monotonic_seconds()))


def pods_on_disk(machine: Machine) -> Iterator[PodState]:
    """The pods that have a cgroup, by their directories: no names, no labels."""
    for qos in KubeQos:
        for name in _directories(machine, machine.layout.qos(qos)):
            try:
                uid = cgroup_path.pod_uid_of(machine.layout.driver, name).replace("_", "-")
                pod = Pod(
                    metadata=ObjectMeta(name=uid, uid=uid),
                    status=PodStatus(phase="Running", qos_class=qos),
                )
                state = pod_state(pod, machine.layout)
            except ValueError:
                continue
            yield replace(state, containers=tuple(_containers(machine, state.directory)))


def _containers(machine: Machine, directory: str) -> Iterator[ContainerState]:
    for name in _directories(machine, directory):
        try:
            hashed = cgroup_path.container_hash_of(machine.layout.driver, name)
        except ValueError:
            continue
        yield ContainerState(
            name=hashed[:12],
            id=f"unknown://{hashed}",
            directory=f"{directory}/{name}",
            kind=ContainerKind.REGULAR,
            running=True,
            spec=None,
        )


def _directories(machine: Machine, directory: str) -> list[str]:
    try:
        found = (machine.groups_root / directory).iterdir()
        return sorted(entry.name for entry in found if entry.is_dir())
    except OSError:
        return []
