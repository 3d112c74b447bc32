# SPDX-License-Identifier: Apache-2.0
"""What became of the pods that strategies wanted to evict in one round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api.wirestruct import WireStruct

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.points import PodEviction

EVICTED, REFUSED, FAILED = "evicted", "refused", "failed"


class PodOutcome(WireStruct):
    """What became of one pod.

    Attributes:
        result: ``evicted``, ``refused`` by a limit of the round, or ``failed`` at the evict plugin.
        message: which limit, or what the evict plugin says, in one line.
        target: the node where a plan has it go; empty without a plan.
    """

    namespace: str = ""
    name: str = ""
    node: str = ""
    plugin: str = ""
    reason: str = ""
    result: str = ""
    message: str = ""
    target: str = ""


@dataclass
class RoundRecord:
    """Pods of one round in the order in which strategies wanted them.

    Attributes:
        outcomes: a pod each.
        errors: of plugins that failed, in one line each.
        idle: why there was nothing to do; empty where strategies were asked.
    """

    outcomes: list[PodOutcome] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    idle: str = ""

    def clear(self) -> None:
        """Begins a round."""
        self.outcomes = []
        self.errors = []
        self.idle = ""

    def evicted(self, pod: Pod, request: PodEviction) -> None:
        """The pod goes."""
        self._add(pod, request, EVICTED)

    def refused(self, pod: Pod, request: PodEviction, message: str) -> None:
        """A limit of the round keeps the pod."""
        self._add(pod, request, REFUSED, message)

    def failed(self, pod: Pod, request: PodEviction, message: str = "") -> None:
        """The evict plugin did not evict the pod."""
        self._add(pod, request, FAILED, message)

    def _add(self, pod: Pod, request: PodEviction, result: str, message: str = "") -> None:
        self.outcomes.append(
            PodOutcome(
                pod.metadata.namespace,
                pod.metadata.name,
                pod.spec.node_name,
                request.plugin,
                request.reason,
                result,
                message,
                request.target,
            )
        )
