# SPDX-License-Identifier: Apache-2.0
"""BatchResource and MidResource: what a node offers beside its own.

Rule: docs/reference/node-resources.md#amounts-as-they-are-shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.protocol import annotation, keys, nodes
from koord.api.protocol import resources as names
from koord.api.protocol.priority import PriorityClass
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.node import Node
    from koord.controllers.manager.noderesource.plugins.plugin import (
        CalculatedResources,
        DesiredNode,
        NodeInputs,
        OfferedResources,
    )

BATCH = (names.BATCH_CPU, names.BATCH_MEMORY)
MID = (names.MID_CPU, names.MID_MEMORY)
_MILLI = 1000
_ZERO = Quantity()


class BatchResource:
    """Batch resources: amplified by the CPUs' speed, less what third parties hold."""

    name = "BatchResource"

    def calculate(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds what is offered; nothing where the node's report is missing or too old."""
        _offer(BATCH, seen.batch, result)

    def reset(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Takes both off the node."""
        _offer(BATCH, None, result)

    def prepare(self, node: Node, result: CalculatedResources, wanted: DesiredNode) -> None:
        """The amounts, and the annotation of what they were before third parties took theirs.

        Raises:
            KoordError: the annotation of third parties is malformed; they are taken to hold none.
        """
        amounts = {name: result.amounts[name] for name in BATCH if name in result.amounts}
        cpu = amounts.get(names.BATCH_CPU)
        if cpu is not None:
            amounts[names.BATCH_CPU] = amplified(cpu, speed(result))
        wanted.resources.update(amounts)
        _remember(node, amounts, wanted)
        if cpu is None:
            return
        held = nodes.third_party_total(node, PriorityClass.BATCH)
        for name, amount in amounts.items():
            if amount is not None:
                wanted.resources[name] = max(_ZERO, amount - held.get(name, _ZERO))

    def meta_due(self, node: Node, wanted: DesiredNode) -> bool:
        """Never: the annotation goes with the amounts."""
        return False


class MidResource:
    """Mid resources."""

    name = "MidResource"

    def calculate(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds what is offered; nothing where the node's report is missing or too old."""
        _offer(MID, seen.mid, result)

    def reset(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Takes both off the node."""
        _offer(MID, None, result)

    def prepare(self, node: Node, result: CalculatedResources, wanted: DesiredNode) -> None:
        """The amounts."""
        wanted.resources |= {name: result.amounts[name] for name in MID if name in result.amounts}

    def meta_due(self, node: Node, wanted: DesiredNode) -> bool:
        """Never."""
        return False


def speed(result: CalculatedResources) -> float:
    """The normalization of the node's CPUs that goes into the same write; 1 without one."""
    text = result.annotations.get(keys.CPU_NORMALIZATION_RATIO)
    return float(text) if text is not None else 1.0


def amplified(amount: Quantity, ratio: float) -> Quantity:
    """An amount times a ratio above 1: cut to thousandths in doubles, then rounded up to whole."""
    if ratio <= 1.0:
        return amount
    milli = int(amount.milli(Rounding.UP) * ratio)
    return Quantity.from_value(-(-milli // _MILLI))


def amplified_column(amounts: NDArray[np.int64], ratios: NDArray[np.float64]) -> NDArray[np.int64]:
    """The same of whole amounts as columns: int64 and float64, whose last axis is the row."""
    milli = (amounts * _MILLI * ratios).astype(np.int64)
    return np.where(ratios > 1.0, -(-milli // _MILLI), amounts)


def origin_text(batch: Sequence[int]) -> str:
    """``originExtendedAllocatable`` of so much batch: milli-cores and bytes."""
    resources = dict(zip(BATCH, map(Quantity.from_value, batch), strict=True))
    return annotation.text(nodes.OriginAllocatable(resources=resources))


def _offer(
    offered: tuple[str, str], amounts: OfferedResources | None, result: CalculatedResources
) -> None:
    values = (None, None) if amounts is None else map(Quantity.from_value, amounts)
    result.amounts.update(zip(offered, values, strict=True))


def _remember(node: Node, amounts: dict[str, Quantity | None], wanted: DesiredNode) -> None:
    """``originExtendedAllocatable``; other resources in it stay."""
    key = keys.ORIGIN_EXTENDED_ALLOCATABLE
    try:
        before = nodes.origin_allocatable(node)
    except KoordError:
        before = None
    offers = any(amount is not None for amount in amounts.values())
    if before is None and not offers:
        # A node that never offered anything need not be told that it offers 0.
        wanted.beside[key] = node.metadata.annotations.get(key)
        return
    kept: ResourceList = before.resources if before is not None else {}
    now = kept | {name: amount or _ZERO for name, amount in amounts.items()}
    if before is not None and now == kept:
        wanted.beside[key] = node.metadata.annotations[key]
    else:
        wanted.beside[key] = annotation.text(nodes.OriginAllocatable(resources=now))
