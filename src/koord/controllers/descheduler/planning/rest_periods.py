# SPDX-License-Identifier: Apache-2.0
"""Pods that were moved for load stay where they came to for a while.

What a pod uses on a new node shows only in time, and what sends it back soon is noise. The pod that
takes a moved one's place is not known before it is there: so it is pods of the same controller on
the node that it went to that rest.

Rule: docs/reference/descheduling.md#a-planned-round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod

REST_SECONDS = 3600.0
"""For how long a moved pod is not moved again for load."""


class RestPeriods:
    """Which pods rest; kept from round to round, in memory alone."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def begin(self, pod: Pod, target: str, now: float) -> None:
        """A pod goes to a node.

        Args:
            pod: that goes.
            target: the node; empty where it is not known, which nothing follows from.
            now: seconds of any clock that does not go back.
        """
        owner = _controller(pod)
        if owner and target:
            self._until[owner, target] = now + REST_SECONDS
        self._until = {key: until for key, until in self._until.items() if until > now}

    def rests(self, pod: Pod, now: float) -> bool:
        """Whether a pod is not to be moved for load yet."""
        return self._until.get((_controller(pod), pod.spec.node_name), 0.0) > now


def _controller(pod: Pod) -> str:
    """The UID of the pod's controller; empty without one."""
    owners = pod.metadata.owner_references
    return next((owner.uid for owner in owners if owner.controller), "")
