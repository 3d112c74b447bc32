# SPDX-License-Identifier: Apache-2.0
"""Resource names, their translation by priority class, old names, and amplification."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar

from koord.api.protocol.priority import PriorityClass
from koord.kernels.quantity import Format, Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.meta import ResourceList

T = TypeVar("T")

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"

BATCH_CPU: Final = "kubernetes.io/batch-cpu"  # integer milli-cores
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"  # bytes
MID_CPU: Final = "kubernetes.io/mid-cpu"  # integer milli-cores
MID_MEMORY: Final = "kubernetes.io/mid-memory"  # bytes

DOMAIN: Final = "koordinator.sh"
GPU: Final = "koordinator.sh/gpu"  # percent of a card
GPU_SHARED: Final = "koordinator.sh/gpu.shared"  # number of cards
GPU_CORE: Final = "koordinator.sh/gpu-core"  # percent of compute
GPU_MEMORY: Final = "koordinator.sh/gpu-memory"  # bytes
GPU_MEMORY_RATIO: Final = "koordinator.sh/gpu-memory-ratio"  # percent
RDMA: Final = "koordinator.sh/rdma"  # percent of a device
FPGA: Final = "koordinator.sh/fpga"  # percent of a device

NVIDIA_GPU: Final = "nvidia.com/gpu"
DCU_GPU: Final = "dcu.com/gpu"
AMD_GPU: Final = "amd.com/gpu"
NPU_CORE: Final = "huawei.com/npu-core"
NPU_CPU: Final = "huawei.com/npu-cpu"
NPU_DVPP: Final = "huawei.com/npu-dvpp"

WHOLE_GPUS: Final = (NVIDIA_GPU, AMD_GPU, DCU_GPU)
"""Whole GPUs by the names of vendors' device plugins."""
GPU_REQUESTS: Final = (
    *WHOLE_GPUS, GPU, GPU_SHARED, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NPU_CORE, NPU_CPU,
    NPU_DVPP,
)  # fmt: skip
"""What pods ask for GPUs by."""

GPU_VENDORS: Final = ("nvidia", "huawei", "cambricon", "metax", "baidu")
AGGREGATION_TYPES: Final = ("avg", "p99", "p95", "p90", "p50")

_BINARY: Final = (MEMORY, EPHEMERAL_STORAGE)

# To look a member up in its class takes longer than to compare it.
_PROD: Final = PriorityClass.PROD
_NONE: Final = PriorityClass.NONE

_EXTENDED: Final = {
    PriorityClass.BATCH: {CPU: BATCH_CPU, MEMORY: BATCH_MEMORY},
    PriorityClass.MID: {CPU: MID_CPU, MEMORY: MID_MEMORY},
}
_CLASS_OF: Final = {
    extended: priority_class
    for priority_class, names in _EXTENDED.items()
    for extended in names.values()
}

DEPRECATED_NAMES: Final = {
    "koordinator.sh/batch-cpu": BATCH_CPU,
    "koordinator.sh/batch-memory": BATCH_MEMORY,
    "kubernetes.io/rdma": RDMA,
    "kubernetes.io/fpga": FPGA,
    "kubernetes.io/gpu": GPU,
    "kubernetes.io/gpu-core": GPU_CORE,
    "kubernetes.io/gpu-memory": GPU_MEMORY,
    "kubernetes.io/gpu-memory-ratio": GPU_MEMORY_RATIO,
}


def translated(priority_class: PriorityClass, name: str) -> str:
    """The name under which pods of a class ask for a native resource.

    Returns:
        The name itself for Prod and none; ``""`` where there is no translation: every resource
        but cpu and memory of Batch and Mid, and everything of Free. Callers leave those alone.
    """
    if priority_class is _PROD or priority_class is _NONE:
        return name
    return _EXTENDED.get(priority_class, {}).get(name, "")


def class_of(name: str) -> PriorityClass:
    """The priority class that an extended resource belongs to; none for any other name."""
    return _CLASS_OF.get(name, _NONE)


def integer_milli(quantity: Quantity) -> Quantity:
    """A CPU amount as the plain count of milli-cores that extended resources use, rounded up."""
    return Quantity.from_value(quantity.milli(Rounding.UP))


def with_current_names(amounts: Mapping[str, T]) -> dict[str, T]:
    """Amounts with old resource names replaced; a new name that is present is never overwritten.

    The old name goes away where it was mapped and stays where it could not be.
    """
    renamed = dict(amounts)
    for old, new in DEPRECATED_NAMES.items():
        if old in renamed and new not in renamed:
            renamed[new] = renamed.pop(old)
    return renamed


def replaced(amounts: ResourceList, mapping: Mapping[str, str], erase: set[str]) -> ResourceList:
    """A list after the pod annotation ``pod.koordinator.sh/replace-resources``.

    Args:
        amounts: requests, limits or overhead.
        mapping: old name to new name, applied in order.
        erase: names to drop, before anything is mapped.
    """
    result = {name: amount for name, amount in amounts.items() if name not in erase}
    for old, new in mapping.items():
        if old in result and new not in result:
            amount = result.pop(old)
            result[new] = integer_milli(amount) if old == CPU else amount
    return result


def amplified(amount: int, ratio: float) -> int:
    """``ceil(amount * ratio)``; ratios up to 1 do nothing.

    The product is a double, as in Koordinator: both must come to the same amount, even where the
    nearest double lies above an integer and the result is one more than on paper.
    """
    return amount if ratio <= 1 else math.ceil(amount * ratio)


def amplified_list(amounts: ResourceList, ratios: Mapping[str, float]) -> ResourceList:
    """A list with each resource that has a ratio amplified; zero amounts stay as they are.

    CPU is amplified in milli-cores, everything else in whole units; memory and ephemeral storage
    come out with binary suffixes.
    """
    result = dict(amounts)
    for name, ratio in ratios.items():
        amount = amounts.get(name)
        if not amount or ratio <= 1:
            continue
        if name == CPU:
            result[name] = Quantity.from_milli(amplified(amount.milli(Rounding.UP), ratio))
        else:
            unit = Format.BINARY_SI if name in _BINARY else Format.DECIMAL_SI
            result[name] = Quantity.from_value(amplified(amount.value(Rounding.UP), ratio), unit)
    return result
