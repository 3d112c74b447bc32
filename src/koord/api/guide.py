# SPDX-License-Identifier: Apache-2.0
"""Simpler and older shapes of some objects, brought into the canonical form when they are read.

A widely read guide to the custom resources writes them this way. Where an object has both shapes
the canonical one wins; a field of the guide that maps to nothing, or is out of its range, is an
error that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.registry import Kind


_THRESHOLDS = {
    "cpu-suppress-percent": ("cpuSuppressThresholdPercent", 100),
    "cpu-evict-threshold-percent": ("cpuEvictBEUsageThresholdPercent", 100),
    "memory-evict-threshold-percent": ("memoryEvictThresholdPercent", 100),
    # Requests may exceed what is allocatable, so there is no upper bound.
    "memory-request-utilization-percent": ("memoryAllocatableEvictThresholdPercent", None),
}
_CLASSES = ("lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot")


# Words of which a text with another shape has one, in the order of the normalisers below.
_MARKS: dict[str, tuple[str, ...]] = {
    "NodeSLO": ("resourceThresholdStrategy", "blkIOQOS", "throttlingPercent"),
    "NodeMetric": ("nodeName", "collectionIntervalSeconds"),
    "Reservation": ("Expired",),
    "Device": ("deviceType", "deviceModel", "uuid", "totalMemory", "deviceAllocations"),
}


def has_shapes(kind: Kind) -> bool:
    """Whether objects of a kind are written in other shapes at all."""
    return (kind.group, kind.name) in _NORMALISERS


def may_have_shapes(kind: Kind, text: bytes | str) -> bool:
    """Whether JSON text of a kind may be in another shape than the canonical one.

    Looking for words costs a fraction of parsing twice. A text with escapes may spell anything.
    """
    if not has_shapes(kind):
        return False
    words = (*_MARKS[kind.name], "\\u")
    if isinstance(text, bytes):
        return any(word.encode() in text for word in words)
    return any(word in text for word in words)


def normalise(document: Document, kind: Kind, object_name: str) -> Document:
    """The document in canonical form; the argument is left alone.

    Args:
        document: an object without null members.
        kind: its kind.
        object_name: what errors call it.

    Raises:
        KoordError: a field of the guide that cannot be mapped or is out of range.
    """
    step = _NORMALISERS.get((kind.group, kind.name))
    if step is None or not isinstance(document, dict):
        return document
    return step(_copied(document), object_name)


def _node_slo(document: Document, object_name: str) -> Document:
    # The guide shows measurements in a NodeSLO's status; NodeMetric has them.
    document.pop("status", None)
    spec = _child(document, "spec", object_name)
    old = _popped(spec, "resourceThresholdStrategy", object_name, "spec")
    if old is not None:
        path = "spec.resourceThresholdStrategy"
        new = _made(spec, "resourceUsedThresholdWithBE", object_name, "spec")
        if "enable" in old:
            new.setdefault("enable", old.pop("enable"))
        thresholds = _popped(old, "thresholds", object_name, path) or {}
        _refuse_rest(old, object_name, path, ["enable", "thresholds"])
        for name, value in thresholds.items():
            if name not in _THRESHOLDS:
                expected = "one of " + ", ".join(_THRESHOLDS)
                raise KoordError(object_name, f"{path}.thresholds", name, expected)
            field, most = _THRESHOLDS[name]
            checked = _integer(value, 0, most, object_name, f"{path}.thresholds.{name}")
            new.setdefault(field, checked)
    classes = _child(spec, "resourceQOSStrategy", object_name)
    for name in _CLASSES:
        _qos_class(_child(classes, name, object_name))
    return document


def _qos_class(qos: Document) -> None:
    if "blkIOQOS" in qos:
        qos.setdefault("blkioQOS", qos.pop("blkIOQOS"))
        qos.pop("blkIOQOS", None)
    memory = qos.get("memoryQOS")
    if isinstance(memory, dict):
        throttling = memory.get("throttlingPercent")
        # A throttle above the limit can never act, which is what 0 says.
        if isinstance(throttling, int) and throttling > 100:
            memory["throttlingPercent"] = 0


def _node_metric(document: Document, object_name: str) -> Document:
    spec = _child(document, "spec", object_name)
    node = spec.pop("nodeName", None)
    if node is not None:
        metadata = _made(document, "metadata", object_name, "")
        if metadata.setdefault("name", node) != node:
            expected = f"the object's name, {metadata['name']}"
            raise KoordError(object_name, "spec.nodeName", node, expected)
    interval = spec.pop("collectionIntervalSeconds", None)
    if interval is not None:
        path = "spec.collectionIntervalSeconds"
        checked = _integer(interval, 1, None, object_name, path)
        policy = _made(spec, "metricCollectPolicy", object_name, "spec")
        policy.setdefault("reportIntervalSeconds", checked)
    return document


def _reservation(document: Document, object_name: str) -> Document:
    status = _child(document, "status", object_name)
    if status.get("phase") == "Expired":
        status["phase"] = "Failed"
        conditions = status.setdefault("conditions", [])
        if not isinstance(conditions, list):
            raise KoordError(object_name, "status.conditions", conditions, "a list")
        if not any(isinstance(c, dict) and c.get("type") == "Ready" for c in conditions):
            conditions.append({"type": "Ready", "status": "False", "reason": "Expired"})
    return document


def _child(parent: Document, name: str, object_name: str) -> Document:
    """The mapping under a name, or an empty one that is not attached."""
    child = parent.get(name, {})
    if not isinstance(child, dict):
        raise KoordError(object_name, name, child, "a mapping")
    return child


def _made(parent: Document, name: str, object_name: str, path: str) -> Document:
    """The mapping under a name, attached if it was missing."""
    child = parent.setdefault(name, {})
    if not isinstance(child, dict):
        raise KoordError(object_name, f"{path}.{name}".lstrip("."), child, "a mapping")
    return child


def _popped(parent: Document, name: str, object_name: str, path: str) -> Document | None:
    child = parent.pop(name, None)
    if child is not None and not isinstance(child, dict):
        raise KoordError(object_name, f"{path}.{name}", child, "a mapping")
    return child


def _refuse_rest(rest: Document, object_name: str, path: str, known: list[str]) -> None:
    for name in rest:
        if name not in known:
            raise KoordError(object_name, path, name, "one of " + ", ".join(known))


def _integer(value: object, least: int, most: int | None, object_name: str, path: str) -> int:
    in_range = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not in_range or (most is not None and value > most):  # type: ignore[operator]
        expected = f"an integer from {least} to {most}" if most else f"an integer >= {least}"
        raise KoordError(object_name, path, value, expected)
    return value  # type: ignore[return-value]


def _copied(document: Any) -> Any:
    """A copy of mappings and lists; scalars cannot change."""
    if isinstance(document, dict):
        return {key: _copied(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_copied(item) for item in document]
    return document


def _device(document: Document, object_name: str) -> Document:
    # Devices have more to map than the others; their rules are a module of their own.
    from koord.api.guide_device import normalise_device

    return normalise_device(document, object_name)


_NORMALISERS: dict[tuple[str, str], Callable[[Document, str], Document]] = {
    ("slo.koordinator.sh", "NodeSLO"): _node_slo,
    ("slo.koordinator.sh", "NodeMetric"): _node_metric,
    ("scheduling.koordinator.sh", "Reservation"): _reservation,
    ("scheduling.koordinator.sh", "Device"): _device,
}
