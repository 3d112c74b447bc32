# SPDX-License-Identifier: Apache-2.0
"""Partition tables: which GPUs of a machine are linked, from its Device or from its model."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from koord.api.protocol import annotation, keys
from koord.api.protocol.scheduling import GPUPartition
from koord.base.errors import KoordError, value_text
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import amount_of
from koord.kernels.devices import mask
from koord.kernels.devices_assign import Partition, PartitionTable
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from koord.api.kinds.device import Device

_LINKED_MODELS = frozenset(("H100", "H800", "H20"))
_LINKED_GPUS = 8


class InvalidPartitionsError(ValueError):
    """The annotation cannot be read; the text is one line."""


def partition_table(device: Device) -> PartitionTable | None:
    """The table of a Device's annotation; None without one.

    Raises:
        InvalidPartitionsError: malformed, or a partition whose minors are not as many as declared.
    """
    text = device.metadata.annotations.get(keys.GPU_PARTITIONS)
    if not text:
        return None
    field = annotation.field_of(keys.GPU_PARTITIONS)
    if text.strip() == "null":
        raise InvalidPartitionsError(f"{device.title}: {field}: got null, expected partitions")
    try:
        table = annotation.parse(text, dict[str, list[GPUPartition]], device.title, field)
    except KoordError as error:
        raise InvalidPartitionsError(str(error)) from None
    listed = [
        _partition(f"{device.title}: {field}.{size}[{index}]", size, each)
        for size, partitions in table.items()
        for index, each in enumerate(partitions)
    ]
    return PartitionTable(listed)


def _partition(where: str, size: str, listed: GPUPartition) -> Partition:
    minors = set(listed.minors)
    if not minors or size != str(len(minors)) or not all(0 <= minor < 64 for minor in minors):
        got = value_text(listed.minors)
        raise InvalidPartitionsError(
            f"{where}.minors: got {got}, expected {value_text(size)} minors"
        )
    bandwidth = listed.ring_bus_bandwidth
    try:
        score = amount_of(Quantity.from_value(listed.allocation_score))
        return Partition(mask(minors), score, None if bandwidth is None else amount_of(bandwidth))
    except ValueError as error:
        raise InvalidPartitionsError(f"{where}: {error}") from None


def model_partitions(vendor: str, model: str) -> PartitionTable | None:
    """The table of machines of a known model; None for others.

    Rule: docs/reference/devices.md#gpu-partitions.

    Args:
        vendor: nvidia, or empty for what was nvidia before there were others.
        model: of the GPUs.
    """
    linked = vendor in ("", "nvidia") and model in _LINKED_MODELS
    return _linked_by_halves() if linked else None


@lru_cache(maxsize=1)
def _linked_by_halves() -> PartitionTable:
    """Eight GPUs, any aligned 1, 2, 4 or 8 of which are linked equally well."""
    return PartitionTable([
        Partition(mask(range(start, start + size)), 1)
        for size in (1, 2, 4, 8)
        for start in range(0, _LINKED_GPUS, size)
    ])  # fmt: skip
