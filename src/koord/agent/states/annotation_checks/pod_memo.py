# SPDX-License-Identifier: Apache-2.0
"""What is worked out of a pod alone, once while the pod stays the same.

All pods of a node are looked at whenever one of them changes, ten times a second where somebody
sees to that; an annotation may have 256 KiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from koord.agent.states.pod_state import PodState

T = TypeVar("T")


class PodMemo(Generic[T]):
    """Remembers a value of each pod.

    Args:
        work_out: gives it; asked again when the pod has changed.
    """

    def __init__(self, work_out: Callable[[PodState], T]) -> None:
        self._work_out = work_out
        self._known: dict[str, tuple[PodState, T]] = {}

    def of(self, pod: PodState) -> T:
        """The value of a pod; what :func:`work_out` raises is not remembered."""
        known = self._known.get(pod.uid)
        if known is None or known[0] is not pod:
            self._known[pod.uid] = known = (pod, self._work_out(pod))
        return known[1]

    def keep(self, uids: Collection[str]) -> None:
        """Forgets all other pods."""
        self._known = {uid: known for uid, known in self._known.items() if uid in uids}

    def clear(self) -> None:
        """Forgets all: what is worked out follows from something else than before."""
        self._known = {}
