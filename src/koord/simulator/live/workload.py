# SPDX-License-Identifier: Apache-2.0
"""What runs on the cluster: services with a daily swing, and batch jobs that arrive by chance.

Pure functions of a seed; :mod:`generator` brings what they say to an API server.
"""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.protocol import keys
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY
from koord.base import rng
from koord.simulator.nodes.agents.usage_model import USAGE
from koord.simulator.nodes.pod_lifecycle.pod_stages import DURATION

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

NAMESPACE = "default"
SCHEDULER = "koord-scheduler"
# An evicted task begins again however often that happens; a finished job is cleared away.
_BACKOFF_LIMIT, _KEPT_SECONDS = 1_000, 600
_HOUR_SECONDS = 3_600.0
BACKLOG_SECONDS = 3_600.0
"""What has arrived for so long before the start waits for it."""


class ServiceWorkload(NamedTuple):
    """A service.

    Attributes:
        per_node: pods for each machine of the cluster.
        cpu: cores that a pod requests.
        memory_gi: likewise.
        usage: what it uses of that: see :class:`koord.simulator.nodes.demand.Demand`.
    """

    name: str
    per_node: int
    cpu: int
    memory_gi: int
    usage: dict[str, float]


SERVICES = (
    ServiceWorkload("web", 1, 8, 16, {"cpu": 0.45, "amplitude": 1.0, "peakHour": 13, "noise": 0.4}),
    ServiceWorkload(
        "shop", 1, 8, 16, {"cpu": 0.42, "amplitude": 1.0, "peakHour": 14, "noise": 0.4}
    ),
    ServiceWorkload(
        "search", 3, 2, 6, {"cpu": 0.40, "amplitude": 0.8, "peakHour": 14, "noise": 0.3}
    ),
    ServiceWorkload(
        "cache", 1, 2, 16, {"cpu": 0.30, "amplitude": 0.2, "peakHour": 18, "noise": 0.10}
    ),
)
"""They request three quarters of a machine of 32 CPUs and use 31 % of it on a day's average. What
a pod wants comes and goes within minutes, faster than an offer follows: where that takes up the
margin between offer and suppression, batch beside it is held down for a while."""


class BatchKind(NamedTuple):
    """Jobs that are alike.

    Attributes:
        per_node_hour: jobs that arrive for each machine in an hour, on average.
        tasks: the fewest and the most of a job, all as likely.
        cpu: cores that a task asks for, of batch-cpu.
        memory_gi: likewise, of batch-memory.
        median_minutes, sigma: how long a task takes, lognormal.
    """

    name: str
    per_node_hour: float
    tasks: tuple[int, int]
    cpu: int
    memory_gi: int
    median_minutes: float
    sigma: float


BATCH = (
    BatchKind("etl", 1.3, (2, 8), 2, 4, 12, 0.7),
    BatchKind("spark", 0.45, (2, 6), 4, 8, 30, 0.5),
    BatchKind("train", 0.25, (1, 1), 4, 12, 180, 0.4),
)
"""They ask for 11 cores of each machine on average, around the clock."""


class Arrival(NamedTuple):
    """A job.

    Attributes:
        seconds: since the start.
        name: of the Job.
        kind: what each of its tasks asks for.
        tasks: how many; all begin at once if they can.
        duration_seconds: that each takes, rounded up.
    """

    seconds: float
    name: str
    kind: BatchKind
    tasks: int
    duration_seconds: int


def deployments(nodes: int) -> list[dict[str, Any]]:
    """The services as Deployments.

    Args:
        nodes: of the cluster.
    """
    return [_deployment(service, service.per_node * nodes) for service in SERVICES]


def arrivals(seed: int, nodes: int) -> Iterator[Arrival]:
    """Batch jobs without end, in the order in which they arrive: a Poisson stream of each kind.

    Args:
        seed: of arrivals, sizes and durations.
        nodes: of the cluster; without any nothing arrives.
    """
    if nodes:
        yield from heapq.merge(*(_of_kind(kind, seed, nodes) for kind in BATCH), key=_seconds)


def job(arrival: Arrival) -> dict[str, Any]:
    """The Job of an arrival: all tasks at once, each begun again until it has ended well."""
    kind = arrival.kind
    amounts = {BATCH_CPU: str(1000 * kind.cpu), BATCH_MEMORY: f"{kind.memory_gi}Gi"}
    template = _pod(
        kind.name,
        {keys.QOS_CLASS: "BE"},
        {DURATION: f"{arrival.duration_seconds}s"},
        "koord-batch",
        {"requests": amounts, "limits": amounts},
    )
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": arrival.name, "namespace": NAMESPACE},
        "spec": {
            "parallelism": arrival.tasks,
            "completions": arrival.tasks,
            "backoffLimit": _BACKOFF_LIMIT,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": template,
        },
    }


def _of_kind(kind: BatchKind, seed: int, nodes: int) -> Iterator[Arrival]:
    draw, at, number = rng.stream(seed, "live", kind.name), -BACKLOG_SECONDS, 0
    while True:
        at += draw.expovariate(kind.per_node_hour * nodes) * _HOUR_SECONDS
        number += 1
        tasks, seconds = draw.randint(*kind.tasks), _duration_seconds(kind, draw)
        yield Arrival(max(at, 0.0), f"{kind.name}-{number}", kind, tasks, seconds)


def _duration_seconds(kind: BatchKind, draw: random.Random) -> int:
    return int(60 * kind.median_minutes * draw.lognormvariate(0.0, kind.sigma)) + 1


def _seconds(arrival: Arrival) -> float:
    return arrival.seconds


def _deployment(service: ServiceWorkload, replicas: int) -> dict[str, Any]:
    requests = {"cpu": str(service.cpu), "memory": f"{service.memory_gi}Gi"}
    usage = {USAGE: json.dumps(service.usage)}
    template = _pod(
        service.name, {keys.QOS_CLASS: "LS"}, usage, "koord-prod", {"requests": requests}
    )
    selector = {"matchLabels": {"app": service.name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": service.name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def _pod(
    app: str,
    labels: dict[str, str],
    annotations: dict[str, str],
    priority: str,
    resources: dict[str, Any],
) -> dict[str, Any]:
    container = {"name": app, "image": f"example.com/{app}:1", "resources": resources}
    return {
        "metadata": {"labels": {"app": app, **labels}, "annotations": annotations},
        "spec": {
            "schedulerName": SCHEDULER,
            "priorityClassName": priority,
            "containers": [container],
        },
    }
