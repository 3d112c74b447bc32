# SPDX-License-Identifier: Apache-2.0
"""What one attempt to place a pod keeps about devices between extension points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest


class DeviceCycleState:
    """What holds for every node in one attempt.

    Attributes:
        request: what the pod requests.
        templates: ``vendor-model`` to template, None where templates do not matter.
        designated: the devices that the pod is to keep; none: any.
        reservations: by row, the reservations that the pod matches.
        reserved_at: as the cycle's.
        reserved: whether any reservations are offered.
        by_labels: labels of a node may keep the pod off.
    """

    __slots__ = (
        "by_labels", "designated", "request", "reservations", "reserved", "reserved_at", "templates"
    )  # fmt: skip

    def __init__(
        self,
        request: DeviceRequest,
        cycle: Cycle,
        templates: Mapping[str, str] | None = None,
        designated: CardAllocations = (),
        *,
        models: bool = False,
    ) -> None:
        self.request = request
        self.templates = templates
        self.designated = designated
        self.reservations = cycle.reservations
        self.reserved_at, self.reserved = cycle.reserved_at, cycle.has_reservations
        self.by_labels = request.shared and (
            bool(request.isolation) or bool(models) or templates is not None
        )

    def of(self, request: DeviceRequest) -> DeviceCycleState:
        """The same attempt with another request."""
        state = DeviceCycleState.__new__(DeviceCycleState)
        state.request, state.templates, state.designated = request, self.templates, self.designated
        state.reservations, state.by_labels = self.reservations, self.by_labels
        state.reserved_at, state.reserved = self.reserved_at, self.reserved
        return state

    def reserved_places(self, rows: NDArray[np.intp]) -> list[int]:
        """The places among some rows where reservations may be offered, ascending."""
        if not self.reserved:
            return []
        if self.reserved_at is None:
            return list(range(len(rows)))
        places: list[int] = np.flatnonzero(self.reserved_at(rows)).tolist()
        return places
