# SPDX-License-Identifier: Apache-2.0
"""Which kinds of things a pod wants nodes have at all, and which nodes it names.

More of what a machine has none of is no advice: no card grows on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.api import requests
from koord.api.protocol.quotas import DEFAULT_QUOTA, pod_quota_name
from koord.api.protocol.reservations import reservation_affinity
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import ABSENT
from koord.controllers.scheduler.invalid import pod_labels
from koord.controllers.scheduler.plugins.deviceshare.objects.resource_combinations import (
    InvalidRequestError,
    device_requests,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTrees

_HOST = "kubernetes.io/hostname"
_OVERCOMMITTED = (BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY)


def absent(shape: PodShape, table: NodeTable, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """By resource that pods of a shape ask for, and by row: whether the node has none of it.

    What no node offers counts as one resource.
    """
    index, amounts = table.columns_of(shape.container_requests).required
    none: NDArray[np.bool_] = table.allocatable[index][:, rows] <= 0
    return none & (amounts > 0)[:, None]


def nowhere(shape: PodShape, table: NodeTable) -> list[str]:
    """The resources that pods of a shape ask for and no node has, sorted."""
    rows = np.flatnonzero(table.open[: table.size])
    if not len(rows):
        return []
    columns = table.columns_of(shape.container_requests)
    index, _ = columns.required
    none = absent(shape, table, rows)
    found = [
        table.resources[column]
        for column, missing in zip(index.tolist(), none, strict=True)
        if column != ABSENT and missing.all()
    ]
    return sorted([*found, *(name for name, amount in columns.unoffered.items() if amount > 0)])


def not_offered(shape: PodShape, table: NodeTable) -> list[str]:
    """The batch and mid resources that pods of a shape ask for and no node offers."""
    return [name for name in nowhere(shape, table) if name in _OVERCOMMITTED]


def named(pod: Pod) -> set[str]:
    """The names of nodes that a pod insists on, by name or by the label of the host."""
    spec = pod.spec
    found = {spec.node_name, spec.node_selector.get(_HOST, "")}
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    required = nodes.required_during_scheduling_ignored_during_execution if nodes else None
    for term in required.node_selector_terms if required is not None else ():
        for wish in term.match_expressions:
            if wish.key == _HOST and wish.operator == "In":
                found.update(wish.values)
        for wish in term.match_fields:
            if wish.key == "metadata.name" and wish.operator == "In":
                found.update(wish.values)
    return found - {""}


def rows_named(names: set[str], table: NodeTable) -> dict[str, int]:
    """The rows of nodes with these names or labels of the host, by what names them."""
    found: dict[str, int] = {}
    for row in np.flatnonzero(table.open[: table.size]).tolist() if names else ():
        node = table.nodes[row]
        for each in (table.name(row), node.metadata.labels.get(_HOST, "") if node else ""):
            if each in names:
                found.setdefault(each, row)
    return found


def named_objects(pod: Pod, quotas: QuotaTrees | None, reservations: View[Any]) -> Iterator[str]:
    """A quota or a Reservation that a pod names and that is not there.

    Args:
        pod: whose labels and annotations name them.
        quotas: those in force; None without the plugin.
        reservations: all there are.
    """
    name = pod_quota_name(pod)
    if name and quotas is not None:
        place = quotas.claimed(name, pod.metadata.namespace).place
        if place is not None and place.group == DEFAULT_QUOTA != name:
            yield f"There is no quota {name}, which the pod names: it counts in {DEFAULT_QUOTA}"
    try:
        affinity = reservation_affinity(pod)
    except KoordError:
        return
    if affinity is not None and affinity.name and reservations.get(affinity.name) is None:
        yield f"There is no Reservation {affinity.name}, which the pod insists on"


def notes(pod: Pod, shape: PodShape, table: NodeTable) -> list[str]:
    """What is to be said of a pod before any node is looked at, one sentence each."""
    wrong = pod_labels.problem(pod)
    said = [str(wrong)] if wrong is not None else []
    return [*said, *_cards(pod), *_missing(pod, shape, table)]


def _cards(pod: Pod) -> Iterator[str]:
    """What would be right where no card can serve a request, whose refusal is Koordinator's."""
    try:
        device_requests(requests.effective(pod))
    except InvalidRequestError as error:
        asked = ", ".join(f"{name} {amount}" for name, amount in sorted(error.requested.items()))
        yield f"The pod asks for {asked}: expected {error.expected}"


def _missing(pod: Pod, shape: PodShape, table: NodeTable) -> Iterator[str]:
    names = named(pod)
    there = rows_named(names, table)
    for name in sorted(names - there.keys()):
        yield f"There is no node {name}, which the pod insists on"
    overcommitted = not_offered(shape, table)
    if overcommitted:
        yield (
            f"No node offers {' and '.join(overcommitted)}: co-location is off "
            "(slo-controller-config, colocation-config, enable), or koord-manager does not run, "
            "or no agent has reported yet"
        )
    for name in nowhere(shape, table):
        if name not in overcommitted:
            yield f"No node has any {name}"
