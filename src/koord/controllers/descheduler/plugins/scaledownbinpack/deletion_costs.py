# SPDX-License-Identifier: Apache-2.0
"""Deletion costs of pods, by which workload controllers choose whom to delete first.

Beside each cost stands which profile wrote it, and what, so that it is taken back once it no longer
holds, unless somebody else has written another one since.

Rule: docs/reference/descheduling-plugins.md#costs-that-no-longer-hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.object_writer import ObjectWriter
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

MOST = 2**31 - 1
"""The cost of pods that should not be deleted."""


class DeletionCosts:
    """Brings costs of pods to what one profile wants.

    Args:
        writer: writes annotations.
        profile: its name.
    """

    def __init__(self, writer: ObjectWriter, profile: str) -> None:
        self._writer = writer
        self._profile = profile

    async def apply(self, wanted: Mapping[tuple[str, str], int], snapshot: ClusterSnapshot) -> int:
        """Writes what is not there yet and takes back what is wanted no more.

        Args:
            wanted: by namespace and name of a pod its cost.
            snapshot: all pods.

        Returns:
            How many pods could not be written.
        """
        failures = 0
        for pod in snapshot.pods:
            cost = wanted.get((pod.metadata.namespace, pod.metadata.name))
            if cost is not None:
                failures += not await self._set(pod, str(cost))
            elif self._written(pod) is not None:
                failures += not await self._clear(pod)
        return failures

    async def _set(self, pod: Pod, cost: str) -> bool:
        there = pod.metadata.annotations
        if there.get(keys.POD_DELETION_COST) == cost and self._written(pod) == cost:
            return True
        mark = f"{self._profile}/{cost}"
        return await self._writer.annotate(
            pod, {keys.POD_DELETION_COST: cost, keys.SCALE_DOWN_RANK: mark}
        )

    async def _clear(self, pod: Pod) -> bool:
        gone: dict[str, str | None] = {keys.SCALE_DOWN_RANK: None}
        if pod.metadata.annotations.get(keys.POD_DELETION_COST) == self._written(pod):
            gone[keys.POD_DELETION_COST] = None
        return await self._writer.annotate(pod, gone, unchanged=True)

    def _written(self, pod: Pod) -> str | None:
        """The cost that this profile wrote; None where it wrote none."""
        mark = pod.metadata.annotations.get(keys.SCALE_DOWN_RANK)
        profile, _, cost = (mark or "").rpartition("/")
        return cost if mark is not None and profile == self._profile else None
