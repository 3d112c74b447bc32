# SPDX-License-Identifier: Apache-2.0
"""Whether a kubelet takes a pod: what the node offers must cover what its pods ask for.

Schedulers count the same way, so that only pods which name their node themselves, or which two
schedulers have put on one node, are refused. The rule and the words are the kubelet's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.requests import PODS, Amounts, offered, requested

if TYPE_CHECKING:
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod

_NATIVE = (PODS, "cpu", "memory", "ephemeral-storage")


class KubeletAdmission:
    """What the pods that kubelets have taken ask for, by node."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[str, Amounts]] = {}
        self._used: dict[str, Amounts] = {}

    def seen(self, pod: Pod) -> None:
        """Counts a pod that was taken before, as long as it has not ended."""
        if pod.status.phase in ("Succeeded", "Failed"):
            self.gone(pod)
        elif pod.status.start_time is not None:
            self._take(pod, requested(pod))

    def gone(self, pod: Pod) -> None:
        """A pod needs no room any more."""
        node, amounts = self._taken.pop(pod.metadata.uid, ("", {}))
        if node:
            self._charge(node, amounts, -1)

    def refusal(self, pod: Pod, node: Node) -> tuple[str, str] | None:
        """Takes a pod, or says why not.

        Returns:
            Reason and message of the refusal; None for a pod that is taken.
        """
        self.gone(pod)
        used, offer, asked = self._used.get(pod.spec.node_name, {}), offered(node), requested(pod)
        for resource in sorted(asked, key=lambda name: (name not in _NATIVE, name)):
            # The kubelet leaves resources that the node does not name to whoever manages them.
            if resource not in offer and resource not in _NATIVE:
                continue
            capacity, taken = offer.get(resource, 0), used.get(resource, 0)
            if asked[resource] > capacity - taken:
                numbers = f"requested: {asked[resource]}, used: {taken}, capacity: {capacity}"
                text = f"Node didn't have enough resource: {resource}, {numbers}"
                return f"OutOf{resource}", text
        self._take(pod, asked)
        return None

    def _take(self, pod: Pod, amounts: Amounts) -> None:
        known = self._taken.get(pod.metadata.uid)
        if known != (pod.spec.node_name, amounts):
            self.gone(pod)
            self._taken[pod.metadata.uid] = pod.spec.node_name, amounts
            self._charge(pod.spec.node_name, amounts, 1)

    def _charge(self, node: str, amounts: Amounts, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for resource, value in amounts.items():
            used[resource] = used.get(resource, 0) + sign * value
