# SPDX-License-Identifier: Apache-2.0
"""What admission refuses of a pod by itself: classes, priorities, requests that go not together.

Rules: docs/reference/admission.md#reserved-annotations,
docs/reference/admission.md#qos-class-priority-and-resources,
docs/reference/admission.md#device-resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests
from koord.api.protocol import keys
from koord.api.protocol import resources as names
from koord.api.protocol.priority import PriorityClass, raw_class
from koord.api.protocol.qos import QoSClass, raw_qos
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.pod import Pod

_QOS_FIELD = f"labels[{keys.QOS_CLASS}]"
_MILLI, _WHOLE_GPU = 1000, 100
_ZERO = Quantity()
_FORBIDDEN = {
    QoSClass.BE: (PriorityClass.NONE, PriorityClass.PROD),
    QoSClass.LSR: (
        PriorityClass.NONE, PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE,
    ),
}  # fmt: skip
_RIGHT = {
    QoSClass.BE: "the priority of koord-mid, koord-batch or koord-free with QoS class BE",
    QoSClass.LSR: "the priority of koord-prod with QoS class LSR",
}


def problems(pod: Pod) -> Iterator[KoordError]:
    """Everything that is wrong with a pod whose priority has been resolved."""
    yield from reserved_problems(pod)
    yield from class_problems(pod)
    yield from request_problems(pod)
    yield from device_problems(pod)


def reserved_problems(pod: Pod) -> Iterator[KoordError]:
    """Annotations that mark a pod as what no user can make."""
    value = pod.metadata.annotations.get(keys.RESERVE_POD)
    if value is not None:
        field = f"annotations[{keys.RESERVE_POD}]"
        yield KoordError(pod.title, field, value, "nothing: the scheduler alone sets it")


def change_problems(
    pod: Pod, old: Pod, *, priority_may_change: bool = False
) -> Iterator[KoordError]:
    """What of a pod's classes may not change.

    Args:
        pod: as it is to be.
        old: as it is.
        priority_may_change: the label ``koordinator.sh/priority`` may.
    """
    labels, before = pod.metadata.labels, old.metadata.labels
    yield from _changed(pod, _QOS_FIELD, raw_qos(labels), raw_qos(before))
    classes = raw_class(labels, pod.spec.priority), raw_class(before, old.spec.priority)
    yield from _changed(pod, "spec.priority", *classes)
    if not priority_may_change:
        field = f"labels[{keys.PRIORITY}]"
        yield from _changed(pod, field, labels.get(keys.PRIORITY), before.get(keys.PRIORITY))


def _changed(pod: Pod, field: str, now: str | None, before: str | None) -> Iterator[KoordError]:
    if (now or "") != (before or ""):
        expected = f"{str(before)!r} as before" if before else "none as before"
        yield KoordError(pod.title, field, str(now) if now else None, f"{expected}: it is fixed")


def device_problems(pod: Pod) -> Iterator[KoordError]:
    """Shares of GPUs, by container."""
    for index, container in enumerate(pod.spec.containers):
        field = f"spec.containers[{index}].resources.requests"
        yield from gpu_problems(container.resources.requests, pod.title, field)


def class_problems(pod: Pod) -> Iterator[KoordError]:
    """A QoS class and a priority that exclude each other."""
    qos = raw_qos(pod.metadata.labels)
    found = raw_class(pod.metadata.labels, pod.spec.priority)
    if found in _FORBIDDEN.get(qos, ()):
        said = f"{qos} with {found}" if found else f"{qos} without a priority class"
        yield KoordError(pod.title, _QOS_FIELD, said, _RIGHT[qos])


def request_problems(pod: Pod) -> Iterator[KoordError]:
    """Requests that the QoS class does not allow."""
    qos, requested = raw_qos(pod.metadata.labels), requests.effective(pod)
    batch = requested.get(names.BATCH_CPU) or requested.get(names.BATCH_MEMORY)
    if batch and qos is not QoSClass.BE:
        expected = "BE, which pods that ask for batch-cpu or batch-memory need"
        yield KoordError(pod.title, _QOS_FIELD, str(qos) or None, expected)
    if qos in (QoSClass.LSR, QoSClass.LSE):
        milli = requested.get(names.CPU, 0)
        if not milli or milli % _MILLI:
            shown = f"{milli}m" if milli else None
            expected = f"a whole number of CPUs, which QoS class {qos} needs"
            yield KoordError(pod.title, "spec.containers[0].resources.requests.cpu", shown,
                             expected)  # fmt: skip


def gpu_problems(requested: ResourceList, title: str, field: str) -> Iterator[KoordError]:
    """Shares of GPUs that no card can give.

    Args:
        requested: requests of one container.
        title: the pod's, for errors.
        field: of the requests, for errors.
    """
    gpu, shared = requested.get(names.GPU), requested.get(names.GPU_SHARED)
    if gpu is not None and shared is not None:
        expected = f"{names.GPU} or {names.GPU_SHARED}, not both"
        yield KoordError(title, f"{field}[{names.GPU_SHARED}]", str(shared), expected)
        return
    if gpu is not None:
        amount = gpu.value(Rounding.UP)
        if amount <= 0 or (amount > _WHOLE_GPU and amount % _WHOLE_GPU):
            expected = "1 to 100 percent of a card, or whole cards in hundreds"
            yield KoordError(title, f"{field}[{names.GPU}]", str(gpu), expected)
    if shared is not None:
        yield from _shared_problems(requested, shared, title, field)


def _shared_problems(
    requested: ResourceList, shared: Quantity, title: str, field: str
) -> Iterator[KoordError]:
    count = shared.value(Rounding.UP)
    if count <= 0:
        where = f"{field}[{names.GPU_SHARED}]"
        yield KoordError(title, where, str(shared), "a number of cards above 0")
    if requested.get(names.NPU_CORE, _ZERO):
        return
    # As in the original, what is 0 counts as not asked for.
    memory = [n for n in (names.GPU_MEMORY, names.GPU_MEMORY_RATIO) if requested.get(n, _ZERO)]
    if len(memory) != 1:
        said = " and ".join(memory) or None
        expected = f"one of {names.GPU_MEMORY} and {names.GPU_MEMORY_RATIO}"
        yield KoordError(title, field, said, expected)
    for name in (names.GPU_CORE, names.GPU_MEMORY_RATIO):
        amount = requested.get(name)
        if amount is not None and count > 0 and amount.value(Rounding.UP) % count:
            expected = f"a multiple of {names.GPU_SHARED}, which is {count}"
            yield KoordError(title, f"{field}[{name}]", str(amount), expected)
