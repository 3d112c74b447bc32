# SPDX-License-Identifier: Apache-2.0
"""What a pod asks of devices: the legal combinations of resources, and the split over cards.

Rule: docs/reference/devices.md#requests. Amounts are integers: percent of a card, bytes of GPU
memory, numbers of cards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from koord.api.protocol import resources as res
from koord.controllers.scheduler.plugins.deviceshare.names import FPGA, GPU, RDMA, TYPES, WHOLE

Amounts = dict[str, int]

_MOST = 1 << 50
THIRD_PARTY = res.WHOLE_GPUS
"""Whole GPUs by the names of vendors' device plugins."""
OF_TYPE = {GPU: res.GPU_REQUESTS, RDMA: (res.RDMA,), FPGA: (res.FPGA,)}
"""By device type, what pods may ask for."""
_IN_PERCENT = (res.GPU, res.RDMA, res.FPGA)


class InvalidRequestError(ValueError):
    """A combination or an amount that no card can serve; the text is the reason users know.

    Attributes:
        requested: what is wrong, by resource.
        expected: what would be right.
    """

    def __init__(self, text: str, requested: Mapping[str, int], expected: str) -> None:
        super().__init__(text)
        self.requested, self.expected = requested, expected


class GPUSplit(NamedTuple):
    """A GPU request by card.

    Attributes:
        cards: how many.
        per_card: amounts of every one of them.
        shared: parts of cards: less than all of the memory, or memory by bytes.
    """

    cards: int
    per_card: Amounts
    shared: bool


def device_requests(request: Mapping[str, int]) -> dict[str, Amounts]:
    """The pod's request of each device type, in the resources that cards have.

    Args:
        request: everything the pod asks for, by resource name; zeros count as absent.

    Returns:
        Device types in their order; empty for a pod that asks for no device.

    Raises:
        InvalidRequestError: a combination that is not legal, or an amount out of range.
    """
    return {
        device_type: _converted(requested)
        for device_type in TYPES
        if (
            requested := {name: request[name] for name in OF_TYPE[device_type] if request.get(name)}
        )
    }


def _converted(requested: Amounts) -> Amounts:
    for name, amount in requested.items():
        wrong_percent = name in _IN_PERCENT and not _is_percent(amount)
        if wrong_percent or not 0 < amount <= _MOST:
            expected = _PERCENT if wrong_percent else f"an amount from 1 to {_MOST}"
            raise InvalidRequestError(
                f"invalid resource unit {name}: {amount}", {name: amount}, expected
            )
    rule = _COMBINATIONS.get(frozenset(requested))
    if rule is None or not rule(requested):
        listed = " ".join(sorted(requested))
        expected = _TOGETHER if rule is None else _AMOUNTS[rule]
        raise InvalidRequestError(
            f"invalid resource device requests: [{listed}]", requested, expected
        )
    for name in THIRD_PARTY:
        if name in requested:
            return _whole_and_parts(requested[name] * WHOLE)
    if res.GPU in requested:
        return _whole_and_parts(requested[res.GPU])
    return requested


def _whole_and_parts(percent: int) -> Amounts:
    return {res.GPU_CORE: percent, res.GPU_MEMORY_RATIO: percent}


def _is_percent(amount: int) -> bool:
    return amount <= WHOLE or amount % WHOLE == 0


def _always(requested: Amounts) -> bool:
    return True


def _percentages(requested: Amounts) -> bool:
    """Core and ratio: part of a card, or whole cards."""
    names = (res.GPU_CORE, res.GPU_MEMORY_RATIO)
    return all(_is_percent(requested[name]) for name in names if name in requested)


def _even_shares(requested: Amounts) -> bool:
    """Core and ratio: the same part of every shared card."""
    cards = requested[res.GPU_SHARED]
    names = (res.GPU_CORE, res.GPU_MEMORY_RATIO)
    return all(
        requested[name] % cards == 0 and requested[name] // cards <= WHOLE
        for name in names
        if name in requested
    )


def _one_npu(requested: Amounts) -> bool:
    return requested[res.GPU_SHARED] == 1 and requested.get(res.NPU_DVPP, 0) <= WHOLE


_COMBINATIONS: dict[frozenset[str], Callable[[Amounts], bool]] = {
    **{frozenset({name}): _always for name in (*THIRD_PARTY, res.GPU, res.RDMA, res.FPGA)},
    frozenset({res.GPU_MEMORY}): _percentages,
    frozenset({res.GPU_MEMORY_RATIO}): _percentages,
    frozenset({res.GPU_CORE, res.GPU_MEMORY}): _percentages,
    frozenset({res.GPU_CORE, res.GPU_MEMORY_RATIO}): _percentages,
    frozenset({res.NPU_CORE, res.GPU_MEMORY_RATIO}): _percentages,
    frozenset({res.GPU_SHARED, res.GPU_MEMORY}): _even_shares,
    frozenset({res.GPU_SHARED, res.GPU_MEMORY_RATIO}): _even_shares,
    frozenset({res.GPU_SHARED, res.GPU_CORE, res.GPU_MEMORY}): _even_shares,
    frozenset({res.GPU_SHARED, res.GPU_CORE, res.GPU_MEMORY_RATIO}): _even_shares,
    frozenset({res.GPU_SHARED, res.NPU_CORE, res.NPU_CPU, res.GPU_MEMORY}): _one_npu,
    frozenset({res.GPU_SHARED, res.NPU_CORE, res.NPU_CPU, res.NPU_DVPP, res.GPU_MEMORY}): _one_npu,
}


_PERCENT = "1 to 100 percent of a card, or whole cards in hundreds"
_AMOUNTS: dict[Callable[[Amounts], bool], str] = {
    _percentages: _PERCENT,
    _even_shares: f"as much of each of the {res.GPU_SHARED} cards, at most 100 percent",
    _one_npu: f"one card in {res.GPU_SHARED}, and at most 100 percent of it",
}
_TOGETHER = (
    f"either {res.GPU_MEMORY} or {res.GPU_MEMORY_RATIO}, with {res.GPU_CORE}, {res.GPU_SHARED}, "
    f"both or neither; or {res.GPU} or {res.NVIDIA_GPU} alone"
)


def split_gpus(requested: Amounts) -> GPUSplit:
    """A GPU request as so many cards with so much of each.

    Args:
        requested: as :func:`device_requests` gives it.
    """
    ratio = requested.get(res.GPU_MEMORY_RATIO, 0)
    count = requested.get(res.GPU_SHARED, 0)
    if count == 0:
        count = ratio // WHOLE if ratio > WHOLE and ratio % WHOLE == 0 else 1
    per_card = {
        name: amount // count for name, amount in requested.items() if name != res.GPU_SHARED
    }
    shared = per_card[res.GPU_MEMORY_RATIO] < WHOLE if ratio else res.GPU_MEMORY in requested
    return GPUSplit(count, per_card, shared)
