# SPDX-License-Identifier: Apache-2.0
"""Whether all pods of a node find room on others at once, counting those placed before.

Rule: docs/reference/descheduling-plugins.md#custompriority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.predicates.node_fit import NodeFit

_COUNTED = (requests.CPU, requests.MEMORY, requests.PODS)


def plain_requests(pod: Pod) -> dict[str, int]:
    """What the containers of a pod ask for together, and one pod; CPU in milli."""
    total = {requests.PODS: 1}
    for container in pod.spec.containers:
        for name, quantity in container.resources.requests.items():
            total[name] = total.get(name, 0) + requests.amount(name, quantity)
    return total


def smallest_first(pods: Iterable[Pod]) -> list[Pod]:
    """By CPU, memory, namespace and name."""

    def key(pod: Pod) -> tuple[int, int, str, str]:
        amounts = plain_requests(pod)
        meta = pod.metadata
        return (
            amounts.get(requests.CPU, 0), amounts.get(requests.MEMORY, 0),
            meta.namespace, meta.name,
        )  # fmt: skip

    return sorted(pods, key=key)


class DrainPlan:
    """Room on targets: what they have left, less the pods that were placed there.

    Args:
        targets: nodes, in the order in which pods try them.
        node_fit: what nodes have left of CPU, memory and pods at the beginning.
        must_fit: whether a target has to pass NodeFit too.
    """

    def __init__(self, targets: Sequence[Node], node_fit: NodeFit, *, must_fit: bool) -> None:
        self._targets = targets
        self._fit = node_fit
        self._must_fit = must_fit
        self._left = {node.metadata.name: _counted(node_fit.free(node)) for node in targets}

    def place_all(self, pods: Iterable[Pod]) -> bool:
        """Places every pod on the first target that takes it; none where one finds no room."""
        left = {name: dict(amounts) for name, amounts in self._left.items()}
        if not all(self._place(pod, left) for pod in pods):
            return False
        self._left = left
        return True

    def _place(self, pod: Pod, left: Mapping[str, dict[str, int]]) -> bool:
        amounts = plain_requests(pod)
        for node in self._targets:
            room = left[node.metadata.name]
            if self._must_fit and not self._fit.fits_by_requests(pod, node):
                continue
            if all(amounts.get(name, 0) <= room[name] for name in _COUNTED if name in amounts):
                for name in _COUNTED:
                    room[name] -= amounts.get(name, 0)
                return True
        return False


def _counted(free: Mapping[str, int]) -> dict[str, int]:
    return {name: free.get(name, 0) for name in _COUNTED}
