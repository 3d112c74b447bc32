# SPDX-License-Identifier: Apache-2.0
"""Which pods were moved not long ago, so that nobody is moved to and fro.

A pod that is moved is another pod afterwards: of the same owner, and made since.
Rule: docs/reference/descheduling-plugins.md#starvedpods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod


class Cooldown:
    """Moves by owner, for a while.

    Args:
        seconds: for how long a pod is left alone once it was moved.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._moves: dict[str, list[float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._moves.values()))

    def note(self, pod: Pod, now: float) -> None:
        """The pod is moved now, wall time in seconds."""
        self._moves.setdefault(_owner(pod), []).append(now)

    def forget(self, now: float) -> None:
        """Drops moves that count no more."""
        for owner, times in list(self._moves.items()):
            left = [time for time in times if now - time < self._seconds]
            if left:
                self._moves[owner] = left
            else:
                del self._moves[owner]

    def holds(self, pod: Pod, now: float) -> bool:
        """Whether the pod may be one that was moved within the time."""
        made = pod.metadata.creation_timestamp
        times = self._moves.get(_owner(pod), ())
        recent = [time for time in times if now - time < self._seconds]
        # The API server tells the time in whole seconds.
        return made is not None and any(made.timestamp() >= int(time) for time in recent)


def _owner(pod: Pod) -> str:
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner.uid
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
