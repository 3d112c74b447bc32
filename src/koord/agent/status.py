# SPDX-License-Identifier: Apache-2.0
"""What an agent sees, decides and last wrote, as one document for people and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.agent.host.kernel.features import Feature
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.states.snapshot import SnapshotPart
from koord.api.timestamps import seconds_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.app import Agent
    from koord.agent.executor.target import Target
    from koord.agent.host.machine import Machine
    from koord.agent.metrics.reader import MetricReader, Window
    from koord.agent.states.snapshot import Timestamped
    from koord.base.clock import Clock

_DEEDS = 50
_PARTS = {
    "node": SnapshotPart.NODE,
    "pods": SnapshotPart.PODS,
    "slo": SnapshotPart.SLO,
    "topology": SnapshotPart.TOPOLOGY,
    "metric_spec": SnapshotPart.METRIC_SPEC,
}
Document = dict[str, Any]


def agent_status(agent: Agent, clock: Clock) -> Document:
    """Everything; keys are stable, see docs/guide-agent.md."""
    now, wall = clock.monotonic_seconds(), clock.wall_seconds()
    snapshot = agent.store.snapshot()
    window = agent.cache.last_window(int(wall * 1000))
    gone = agent.cluster.gone()
    return {
        "node": agent.options.node_name,
        "time": seconds_text(wall),
        "ready": agent.is_ready,
        "dryRun": agent.dry_run,
        "machine": machine_status(agent.machine),
        "states": {
            name: _part(getattr(snapshot, name), now, gone=part in gone)
            for name, part in _PARTS.items()
        },
        "collectors": _collectors(agent, now),
        "usage": usage_status(agent.cache, window),
        "pods": _pods(agent, window),
        "strategies": _strategies(agent),
        "files": _files(agent),
        "failures": [
            {**_file(agent, each.target), "attempts": each.attempts, "error": each.result.message}
            for each in agent.executor.failures()
        ],
        "unsupported": agent.executor.unsupported(),
        "parts": agent.supervisor.status(),
        "hookProblems": [
            {"hook": hook, "scope": scope, "error": error}
            for (hook, scope), error in sorted(agent.reconciler.problems().items())
        ],
        "runtime": agent.runtime_status(),
        "ignoredAnnotations": [each._asdict() for each in agent.annotations.ignored],
        "writes": [
            {**deed._asdict(), "at_seconds": seconds_text(deed.at_seconds)}
            for deed in agent.owners.last(_DEEDS)
        ],
        "memory": {"series": agent.cache.series, "seriesBytes": agent.cache.bytes},
    }


def machine_status(machine: Machine) -> Document:
    """What the host is, and which features it lacks and why."""
    summary = machine.topology.summary()
    missing = machine.features.missing
    return {
        "cgroups": f"v{machine.hierarchy.version.value}",
        "driver": str(machine.layout.driver),
        "kubepods": machine.layout.kubepods,
        "kubepodsFound": (machine.groups_root / machine.layout.kubepods).is_dir(),
        "cpus": summary.cpus,
        "cores": summary.cores,
        "sockets": summary.sockets,
        "numaNodes": summary.nodes,
        "threadsPerCore": summary.threads_per_core,
        "memoryBytes": machine.memory_bytes,
        "features": {
            str(feature): {"there": feature not in missing, "why": missing.get(feature, "")}
            for feature in Feature
        },
    }


def usage_status(metrics: MetricReader, window: Window) -> Document:
    """Last usage of the node, the system and the best-effort tier; absent where not measured."""
    found: Document = {}
    for name, kind in (
        ("nodeCpuCores", MetricKind.NODE_CPU_USAGE),
        ("nodeMemoryBytes", MetricKind.NODE_MEMORY_USAGE),
        ("systemCpuCores", MetricKind.SYS_CPU_USAGE),
        ("systemMemoryBytes", MetricKind.SYS_MEMORY_USAGE),
    ):
        rows = metrics.read(kind, window)
        if rows.labels:
            found[name] = float(rows.last[0])
    best_effort = metrics.read(MetricKind.NODE_BE, window)
    for labels, milli in zip(best_effort.labels, best_effort.last.tolist(), strict=True):
        found.setdefault("bestEffortMilli", {})[labels[1]] = milli
    return found


def _part(part: Timestamped[Any], now: float, *, gone: bool) -> Document:
    if part.value is None or part.age_seconds(now) == float("inf"):
        return {"seen": False}
    found: Document = {"seen": True, "ageSeconds": round(part.age_seconds(now), 1)}
    return {**found, "gone": True} if gone else found


def _collectors(agent: Agent, now: float) -> list[Document]:
    return [
        {
            "name": name,
            "intervalSeconds": standing.collector.interval_seconds,
            "lastGoodSeconds": round(now - standing.good_seconds, 1) if standing.ran else None,
            "error": standing.error,
        }
        for name, standing in agent.advisor.collector_states.items()
    ]


def _pods(agent: Agent, window: Window) -> list[Document]:
    cpu, memory = (
        _last(agent.cache, kind, window)
        for kind in (MetricKind.POD_CPU_USAGE, MetricKind.POD_MEMORY_USAGE)
    )
    return [
        {
            "pod": pod.key,
            "qos": str(pod.qos_default),
            "phase": pod.pod.status.phase,
            "priority": pod.priority,
            "cpuCores": cpu.get(pod.uid),
            "memoryBytes": memory.get(pod.uid),
            "cgroup": pod.directory,
        }
        for pod in agent.store.snapshot().pods.value
    ]


def _last(metrics: MetricReader, kind: MetricKind, window: Window) -> Mapping[str, float]:
    rows = metrics.read(kind, window)
    return rows.by_label(rows.last)


def _strategies(agent: Agent) -> list[Document]:
    return [
        {
            "name": name,
            "at": seconds_text(each.at_seconds),
            "error": each.error,
            "decided": dict(each.result),
        }
        for name, each in agent.loop.rounds.items()
    ]


def _files(agent: Agent) -> list[Document]:
    return [
        {**_file(agent, line.target), "value": str(line.value), "claims": list(line.claims)}
        for line in agent.executor.explain()
    ]


def _file(agent: Agent, target: Target) -> Document:
    return {
        "subject": agent.owners.words(target),
        "resource": target.resource,
        "directory": target.directory,
    }
