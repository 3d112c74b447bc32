# SPDX-License-Identifier: Apache-2.0
"""The pods of services as Deployments, whose replicas run on machines that are neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.api.protocol import keys

if TYPE_CHECKING:
    from koord.simulator.colocation.inputs.scenario import LatencySensitiveService, Scenario
    from koord.simulator.colocation.results.result import Ints
    from koord.simulator.colocation.workload.services import ServicePods

NAMESPACE = "services"
PRIORITY_CLASS = "koord-prod"
MOST_REPLICAS = 10
_GROUP_MACHINES = 4


class ServiceDeployment(NamedTuple):
    """One Deployment: of which service, and the rows of :class:`ServicePods` that it serves."""

    name: str
    service: int
    rows: tuple[int, ...]


def machine_group(scenario: Scenario) -> int:
    """How many neighbours share Deployments: as many as a hot spot takes in."""
    return scenario.hot_spot.machines if scenario.hot_spot is not None else _GROUP_MACHINES


def deployments(scenario: Scenario, pods: ServicePods) -> list[ServiceDeployment]:
    """All pods of services but those that are bound to CPUs of their own (LSR), which stay.

    Pods of one service on neighbouring machines are Deployments of up to :data:`MOST_REPLICAS`,
    each spread over these machines.
    """
    group = pods.machine // machine_group(scenario)
    made = []
    for service, each in enumerate(scenario.services):
        for number in range(int(group.max(initial=-1)) + 1):
            chosen = (pods.service == service) & (group == number) & ~pods.bound
            rows = np.flatnonzero(chosen)
            # A Deployment has a replica on each machine before it has two on any.
            ordinal = _ordinals(pods.machine[rows])
            rows = rows[np.lexsort((pods.machine[rows], ordinal))]
            parts = max(1, -(-len(rows) // MOST_REPLICAS))
            for part, some in enumerate(np.array_split(rows, parts)):
                if len(some):
                    name = f"{each.name}-{number}-{part}"
                    made.append(ServiceDeployment(name, service, tuple(some.tolist())))
    return made


def _ordinals(machine: Ints) -> Ints:
    """Of each pod, how many of the same list are on its machine before it."""
    seen: dict[int, int] = {}
    ordinals = []
    for row in machine.tolist():
        ordinals.append(seen.get(row, 0))
        seen[row] = ordinals[-1] + 1
    return np.array(ordinals, np.int64)


def manifest(
    deployment: ServiceDeployment, service: LatencySensitiveService, scheduler: str
) -> dict[str, Any]:
    """A Deployment as it is created."""
    labels = {"app": deployment.name}
    template = {
        "metadata": {"labels": labels | pod_labels(service.qos)},
        "spec": pod_spec(service, scheduler),
    }
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": deployment.name, "namespace": NAMESPACE},
        "spec": {
            "replicas": len(deployment.rows),
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }  # fmt: skip


def pod_labels(qos: str) -> dict[str, str]:
    """Of each pod of a service."""
    return {keys.QOS_CLASS: qos}


def pod_spec(service: LatencySensitiveService, scheduler: str) -> dict[str, Any]:
    """What each pod of a service asks for."""

    def amounts(resources: Any) -> dict[str, str]:
        return {"cpu": f"{resources.cpu_milli}m", "memory": str(resources.memory_bytes)}

    resources = {"requests": amounts(service.request), "limits": amounts(service.limit)}
    container = {"name": "main", "image": "service", "resources": resources}
    return {
        "schedulerName": scheduler, "containers": [container],
        "priorityClassName": PRIORITY_CLASS,
    }  # fmt: skip
