# SPDX-License-Identifier: Apache-2.0
"""Pods that differ from one in one wish of koord's own: an annotation, a field of one, a label.

Pure functions of a typed pod, as those of :mod:`koord.controllers.scheduler.explain.pod_variants`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koord.api.protocol import annotation, keys
from koord.api.protocol.qos import QoSClass
from koord.controllers.scheduler.explain.pod_variants import Variant

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod

# By annotation: how people call it, which of its fields may be done without, and whether all may.
_REQUEST_ANNOTATIONS: dict[str, tuple[str, tuple[str, ...], bool]] = {
    keys.RESOURCE_SPEC: (
        "the resource spec", ("requiredCPUBindPolicy", "preferredCPUExclusivePolicy"), False
    ),
    keys.NUMA_TOPOLOGY_SPEC: (
        "the NUMA topology spec", ("numaTopologyPolicy", "singleNUMANodeExclusive"), False
    ),
    keys.GPU_PARTITION_SPEC: (
        "the GPU partition spec", ("allocatePolicy", "ringBusBandwidth"), True
    ),
    keys.DEVICE_JOINT_ALLOCATE: ("the joint allocation of devices", ("requiredScope",), True),
    keys.RESERVATION_AFFINITY: ("the reservation affinity", (), True),
    keys.EXACT_MATCH_RESERVATION: ("the exact match of reservations", (), True),
}  # fmt: skip
_OF_HINT = ("requiredTopologyScope", "selector", "vfSelector", "exclusivePolicy")


def looser(pod: Pod) -> Iterator[Variant]:
    """The pod without one wish for CPUs, zones, devices or reservations."""
    for key, (what, fields, whole) in _REQUEST_ANNOTATIONS.items():
        read = _read(pod, key)
        if read is None:
            continue
        for field in fields:
            if read.get(field):
                yield _annotated(pod, _text(field, read[field], what), key, _less(read, field))
        if whole:
            yield _annotated(pod, f"take {what} away", key, None)
    yield from _by_hints(pod)
    yield from _by_labels(pod)


def _by_hints(pod: Pod) -> Iterator[Variant]:
    """Each wish for devices of one type away."""
    hints = _read(pod, keys.DEVICE_ALLOCATE_HINT) or {}
    for kind, hint in hints.items():
        for field in _OF_HINT if isinstance(hint, Mapping) else ():
            if hint.get(field):
                text = _text(field, hint[field], f"the hint for {kind} devices")
                changed = {**hints, kind: _less(hint, field)}
                yield _annotated(pod, text, keys.DEVICE_ALLOCATE_HINT, changed)


def _by_labels(pod: Pod) -> Iterator[Variant]:
    labels = pod.metadata.labels
    if keys.GPU_ISOLATION_PROVIDER in labels:
        text = f"take the label {keys.GPU_ISOLATION_PROVIDER} away"
        yield _labelled(pod, text, _less(labels, keys.GPU_ISOLATION_PROVIDER))
    qos = labels.get(keys.QOS_CLASS)
    if qos in (QoSClass.LSE, QoSClass.LSR):
        shares = {**labels, keys.QOS_CLASS: str(QoSClass.LS)}
        yield _labelled(pod, f"make it LS, not {qos}, so that it shares its CPUs", shares)


def _text(field: str, value: Any, what: str) -> str:
    said = f" {value}" if isinstance(value, str) else ""
    return f"take {field}{said} out of {what}"


def _read(pod: Pod, key: str) -> dict[str, Any] | None:
    """An annotation's fields; None without it, or where there are none to be read."""
    text = pod.metadata.annotations.get(key)
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _less(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def _annotated(pod: Pod, text: str, key: str, value: Mapping[str, Any] | None) -> Variant:
    annotations = _less(pod.metadata.annotations, key)
    if value is not None:
        annotations[key] = annotation.text(value)
    return Variant(text, replace(pod, metadata=replace(pod.metadata, annotations=annotations)))


def _labelled(pod: Pod, text: str, labels: dict[str, str]) -> Variant:
    return Variant(text, replace(pod, metadata=replace(pod.metadata, labels=labels)))
