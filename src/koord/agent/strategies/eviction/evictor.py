# SPDX-License-Identifier: Apache-2.0
"""Taking a pod off the node, as strategies see it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from koord.agent.states.pod_state import PodState


class EvictionState(StrEnum):
    """How an eviction stands."""

    STARTED = "started"  #: asked for or killed in this round
    UNDER_WAY = "under way"  #: asked for earlier, still there
    GONE = "gone"  #: its containers have ended, or the pod left the list
    REFUSED = "refused"  #: a disruption budget or the API says no


class Evictor(Protocol):
    """Evicts by the API or by ending the containers; the strategy does not see which."""

    def evict(self, pod: PodState, feature: str, message: str) -> EvictionState:
        """Begins, or tells how an eviction begun earlier stands; never waits."""
        ...

    def fate(self, uid: str) -> EvictionState | None:
        """How the eviction of a pod stands; None where none was begun or it is forgotten."""
        ...
