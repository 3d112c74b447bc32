# SPDX-License-Identifier: Apache-2.0
"""What other vendors' device plugins read on the pods they serve.

Rule: docs/reference/devices.md#for-vendors-device-plugins.

With the gate ``DevicePluginAdaption`` the cards that were chosen are written in the words of each
vendor's device plugin too, so that it hands out those and no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import annotation, keys
from koord.controllers.scheduler.plugins.deviceshare.names import CORE, GPU, MEMORY
from koord.controllers.scheduler.plugins.deviceshare.writers.node_lock import NodeLockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.framework.cycle import PendingPatch
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocation,
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.state.cache import NodeDevices
    from koord.controllers.scheduler.plugins.deviceshare.writers.node_lock import NodeLocks

GATE = "DevicePluginAdaption"

_PREDICATE_TIME = "predicate-time"
_NPU_CORE = "huawei.com/npu-core"
_ASCEND_310P = "huawei.com/Ascend310P"
_DSMLU_ASSIGNED = "CAMBRICON_DSMLU_ASSIGHED"  # spelled so on the wire
_DSMLU_PROFILE = "CAMBRICON_DSMLU_PROFILE"
_DSMLU_LOCK = "cambricon.com/dsmlu.lock"
_METAX_DEVICES = "metax-tech.com/gpu-devices-allocated"
_HAMI_LOCK = "hami.io/mutex.lock"
_HAMI_CORE = "HAMi-core"

_DUO = "Ascend-310P3-300I-DUO"
_DSMLU_UNIT_BYTES = 256 << 20
_METAX_UNIT_BYTES = 1 << 20


class AdaptionError(RuntimeError):
    """A vendor's device plugin could not serve what was chosen; binding is given up."""


class GPUModel(NamedTuple):
    """What a node's GPUs are."""

    vendor: str
    model: str


class VendorAdapter(NamedTuple):
    """What one vendor's device plugin reads.

    Attributes:
        write: annotations for GPUs of a model, with their ids, at a time in nanoseconds.
        lock: the node annotation that keeps other pods of the vendor off meanwhile, "" for none.
    """

    write: Callable[[Sequence[CardAllocation], Sequence[str], str, int], dict[str, str]]
    lock: str = ""


async def adapt(
    handle: Handle,
    locks: NodeLocks,
    pod: Pod,
    node: NodeDevices,
    holdings: CardAllocations,
    card: GPUModel,
    changes: PendingPatch,
) -> None:
    """Adds what device plugins read to a pod's changes, and locks the node where one must.

    Args:
        handle: for the time and the client.
        locks: shared by all bindings.
        pod: that is about to be bound.
        node: its node.
        holdings: what it got there.
        card: what the node's GPUs are.
        changes: to be written on the pod.

    Raises:
        AdaptionError: the vendor's plugin cannot serve this, or the node is locked.
    """
    now_seconds = handle.clock.wall_seconds()
    gpus = [held for held in holdings if held.type == GPU]
    changes.annotations[keys.BIND_TIMESTAMP] = str(_nanoseconds(now_seconds))
    if not gpus:
        return
    changes.annotations[keys.GPU_MINORS] = _minors(gpus)
    if pod.metadata.labels.get(keys.GPU_ISOLATION_PROVIDER) == _HAMI_CORE:
        changes.labels[keys.HAMI_VGPU_NODE] = node.name
    vendor = _VENDORS.get(card.vendor)
    if vendor is None:
        return
    ids = [node.id_of(GPU, held.minor) for held in gpus]
    try:
        found = vendor.write(gpus, ids, card.model, _nanoseconds(now_seconds))
    except AdaptionError as error:
        what = f'failed to adapt for GPU device plugin of vendor "{card.vendor}"'
        raise AdaptionError(f"{what}: {error}") from None
    changes.annotations.update(found)
    if vendor.lock and handle.client is not None:
        try:
            await locks.lock(handle.client, node.name, vendor.lock, pod, now_seconds)
        except NodeLockedError as error:
            raise AdaptionError(f"failed to lock node: {error}") from None


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


def _minors(gpus: Sequence[CardAllocation], prefix: str = "") -> str:
    return ",".join(f"{prefix}{held.minor}" for held in gpus)


def _huawei(
    gpus: Sequence[CardAllocation], ids: Sequence[str], model: str, now_ns: int
) -> dict[str, str]:
    found = {_PREDICATE_TIME: str(now_ns)}
    if model == _DUO:
        found[_ASCEND_310P] = _minors(gpus, "Ascend310P-")
    elif gpus[0].template:
        found[_NPU_CORE] = f"{gpus[0].minor}-{gpus[0].template}"
    else:
        found[_NPU_CORE] = _minors(gpus)
    return found


def _cambricon(
    gpus: Sequence[CardAllocation], ids: Sequence[str], model: str, now_ns: int
) -> dict[str, str]:
    if len(gpus) > 1:
        raise AdaptionError("multiple gpu share is not supported on device side")
    core, units = _core_and_units(gpus[0], _DSMLU_UNIT_BYTES)
    return {_DSMLU_ASSIGNED: "false", _DSMLU_PROFILE: f"{gpus[0].minor}_{core}_{units}"}


def _metax(
    gpus: Sequence[CardAllocation], ids: Sequence[str], model: str, now_ns: int
) -> dict[str, str]:
    cards = []
    for held, uuid in zip(gpus, ids, strict=True):
        core, units = _core_and_units(held, _METAX_UNIT_BYTES)
        cards.append({"uuid": uuid, "compute": core, "vRam": units})
    return {_METAX_DEVICES: annotation.text([cards])}


def _core_and_units(held: CardAllocation, unit_bytes: int) -> tuple[int, int]:
    if not held.amounts[CORE]:
        raise AdaptionError("gpu core resource is required")
    if held.amounts[MEMORY] < unit_bytes:
        raise AdaptionError(f"gpu memory must not be less than {unit_bytes} bytes")
    return held.amounts[CORE], held.amounts[MEMORY] // unit_bytes


_VENDORS = {
    "huawei": VendorAdapter(_huawei),
    "cambricon": VendorAdapter(_cambricon, _DSMLU_LOCK),
    "metax": VendorAdapter(_metax, _HAMI_LOCK),
}
