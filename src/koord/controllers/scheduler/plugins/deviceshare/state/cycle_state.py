# SPDX-License-Identifier: Apache-2.0
"""What one attempt to place a pod keeps about devices between extension points."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        by_labels: labels of a node may keep the pod off.
    """

    __slots__ = ("by_labels", "designated", "request", "reservations", "templates")

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
        self.by_labels = request.shared and (
            bool(request.isolation) or bool(models) or templates is not None
        )

    def of(self, request: DeviceRequest) -> DeviceCycleState:
        """The same attempt with another request."""
        state = DeviceCycleState.__new__(DeviceCycleState)
        state.request, state.templates, state.designated = request, self.templates, self.designated
        state.reservations, state.by_labels = self.reservations, self.by_labels
        return state
