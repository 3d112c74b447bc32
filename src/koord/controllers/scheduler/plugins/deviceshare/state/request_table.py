# SPDX-License-Identifier: Apache-2.0
"""What pods want of devices, read once for all that request the same and say no more of it.

Pods that differ in CPU, memory or labels ask for the same halves and wholes of cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from koord.api.protocol import keys
from koord.controllers.cluster.bounded_table import BoundedTable
from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import (
    DeviceRequest,
    InvalidDeviceRequestError,
    device_request_of,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.resource_combinations import OF_TYPE

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodShape

_NAMES = frozenset(name for names in OF_TYPE.values() for name in names)
# What a pod may say of devices beside its requests and annotations.
_LABELS = frozenset(
    (keys.GPU_ISOLATION_PROVIDER, keys.PRE_ALLOCATION_REQUIRED, keys.RESERVATION_IGNORED)
)
REQUESTS: Final = 256
"""How many different requests are remembered."""


class DeviceRequestTable:
    """Reads requests of shapes."""

    def __init__(self) -> None:
        self._by_amounts: BoundedTable[tuple[tuple[str, int], ...], DeviceRequest | str]
        self._by_amounts = BoundedTable(REQUESTS, REQUESTS)

    def __len__(self) -> int:
        return len(self._by_amounts)

    def of(self, shape: PodShape) -> DeviceRequest | str | None:
        """What pods of a shape want; None for no devices, a text if it cannot be."""
        request, said = shape.request, shape.pod.metadata
        if _NAMES.isdisjoint(request):
            return None
        if said.annotations or not _LABELS.isdisjoint(said.labels):
            return _read(shape)
        key = tuple(each for each in request.items() if each[0] in _NAMES)
        found = self._by_amounts.get(key)
        if found is None:
            read = _read(shape)
            if read is None:
                return None
            found = read
            self._by_amounts.put(key, found, 1)
        return found


def _read(shape: PodShape) -> DeviceRequest | str | None:
    try:
        return device_request_of(shape.pod, shape.request)
    except InvalidDeviceRequestError as error:
        return str(error)
