# SPDX-License-Identifier: Apache-2.0
"""What bound pods hold by their annotations, as far as their requests justify it.

Rule: docs/reference/devices.md#what-a-bound-pod-holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.device import Device
from koord.api.protocol import annotation, keys
from koord.api.protocol.resources import GPU_MEMORY
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, NAME
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
    read_card_allocations,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.justified_cards import (
    CardLimits,
    card_limits,
    in_short,
    justified_cards,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest
    from koord.controllers.scheduler.plugins.deviceshare.state.event_handlers import DeviceTracker

_LOG = log.get("scheduler.deviceshare")
_LIMITS = f"{NAME}/limits"


class RecordedCards:
    """Reads the cards of bound pods, and judges them anew when a Device comes or changes.

    Args:
        handle: for the Devices, the pods that count, and what is contradicted.
        tracker: knows the cards of every node.
        read: what pods of a shape request, a text where it is illegal, None for no devices.
    """

    def __init__(
        self,
        handle: Handle,
        tracker: DeviceTracker,
        read: Callable[[PodShape], DeviceRequest | str | None],
    ) -> None:
        self._handle = handle
        self._tracker = tracker
        self._read = read
        handle.view(Device).on_change(self._device, lambda _, device: self._device(device))

    def restore(self, pod: PodInfo) -> None:
        """Reads what a bound pod holds from its annotation."""
        holdings, problems = read_card_allocations(pod.pod)
        if problems:
            # One line, however many devices somebody writes.
            more = f", and {len(problems) - 1} more like it" if len(problems) > 1 else ""
            reason = f"{problems[0]}{more}"
            _LOG.warning("devices of a pod cannot be read", extra=log.fields(reason=reason))
        holdings = self._justified(pod, holdings)
        if holdings:
            pod.allocations[NAME] = holdings

    def _justified(self, pod: PodInfo, holdings: CardAllocations) -> CardAllocations:
        """What of a bound pod's cards counts; the rest is told of."""
        inventory = self._tracker.device(pod.pod.spec.node_name)
        cards = inventory.cards.get(GPU, {}) if inventory is not None else {}

        def card_bytes(minor: int) -> int:
            return cards[minor].card.total.get(GPU_MEMORY, 0) if minor in cards else 0

        kept = justified_cards(holdings, self._limits(pod.shape), card_bytes)
        error = None
        if kept is not holdings:
            expected = f"no more than its requests justify, which is what counts: {in_short(kept)}"
            field = annotation.field_of(keys.DEVICE_ALLOCATED)
            error = KoordError(pod.pod.title, field, in_short(holdings), expected)
        self._handle.contradictions.note(pod.pod, keys.DEVICE_ALLOCATED, error)
        return kept

    def _limits(self, shape: PodShape) -> CardLimits:
        known: CardLimits | None = shape.memo.get(_LIMITS)
        if known is None:
            known = shape.memo[_LIMITS] = card_limits(self._read(shape), shape.request)
        return known

    def _device(self, device: Device) -> None:
        """How much memory a percentage justifies is known with the card that it is of."""
        table, accounts = self._handle.table, self._handle.accounts
        row = table.row(device.metadata.name)
        if row is None:
            return
        for pod in [pod for pod in table.pods[row].values() if NAME in pod.allocations]:
            written, problems = read_card_allocations(pod.pod)
            # What was chosen here, or is being chosen, stays.
            if pod.decided or not pod.pod.spec.node_name or not written or problems:
                continue
            fresh = self._justified(pod, written)
            if fresh != pod.allocations[NAME]:
                accounts.drop(pod)
                pod.allocations = {**pod.allocations, NAME: fresh}
                accounts.add(row, pod)
