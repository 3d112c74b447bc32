# SPDX-License-Identifier: Apache-2.0
"""A pod by its UID, waited for where its source has not told of it yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.agent.states.snapshot import SnapshotPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.states.pod_state import PodState
    from koord.agent.states.snapshot import Snapshot, SnapshotSource


class PodArrivals:
    """Finds pods for whoever hears of them elsewhere, a container runtime's hooks above all.

    What it gives is what every other part of the agent sees: annotations that a pod may not have
    are gone. Rule: docs/reference/hooks.md#annotations-that-are-obeyed.

    Args:
        states: where pods are.
        poke: has their source asked at once; it may be asked often.
    """

    def __init__(self, states: SnapshotSource, poke: Callable[[], None]) -> None:
        self._states, self._poke = states, poke
        self._indexed: tuple[PodState, ...] | None = None
        self._pods: dict[str, PodState] = {}
        self._more = asyncio.Event()
        states.subscribe(SnapshotPart.PODS, self._arrived)

    def known(self, uid: str) -> PodState | None:
        """The pod, if it is known."""
        pods = self._states.snapshot().pods.value
        if pods is not self._indexed:
            self._indexed, self._pods = pods, {pod.uid: pod for pod in pods}
        return self._pods.get(uid)

    async def find(self, uid: str, seconds: float) -> PodState | None:
        """The pod, waited for no longer than so; None where nobody told of it."""
        if (there := self.known(uid)) is not None:
            return there
        try:
            async with asyncio.timeout(seconds):
                while (pod := self.known(uid)) is None:
                    self._poke()
                    await self._more.wait()
        except TimeoutError:
            return None
        return pod

    def _arrived(self, snapshot: Snapshot, parts: SnapshotPart) -> None:
        del snapshot, parts
        more, self._more = self._more, asyncio.Event()
        more.set()
