# SPDX-License-Identifier: Apache-2.0
"""The guide's shape of Device: cards with a model and a total memory, allocations in per cent."""

from __future__ import annotations

from typing import Any

from koord.api.protocol import keys, resources
from koord.base.documents import Document
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

_WHOLE = 100


def normalise_device(document: Document, object_name: str) -> Document:
    """Brings cards and allocations into canonical form, in place.

    A card without a number gets its position among those of its type.

    Raises:
        KoordError: an unknown device, a wrong amount of memory or a wrong percentage.
    """
    devices = _list(_mapping(document, "spec", object_name), "devices", object_name, "spec")
    numbers: dict[str, int] = {}
    for index, device in enumerate(devices):
        if not isinstance(device, dict):
            raise KoordError(object_name, f"spec.devices[{index}]", device, "a mapping")
        _card(device, numbers, object_name, f"spec.devices[{index}]")
    _label_with_model(document, devices, object_name)
    status = _mapping(document, "status", object_name)
    if "deviceAllocations" in status:
        path = "status.deviceAllocations"
        mapped = _allocations(_list(status, "deviceAllocations", object_name, "status"), devices,
                              object_name, path)  # fmt: skip
        del status["deviceAllocations"]
        status.setdefault("allocations", mapped)
    return document


def _card(device: Document, numbers: dict[str, int], object_name: str, path: str) -> None:
    is_guide = any(key in device for key in ("deviceType", "deviceModel", "uuid", "totalMemory"))
    for old, new in (("deviceType", "type"), ("uuid", "id")):
        if old in device:
            device.setdefault(new, _text(device.pop(old), object_name, f"{path}.{old}"))
            device.pop(old, None)
    kind = str(device.get("type", ""))
    number = numbers.get(kind, 0)
    numbers[kind] = number + 1
    if not is_guide:
        return
    device.setdefault("minor", number)
    if "deviceModel" in device:
        model = _text(device.pop("deviceModel"), object_name, f"{path}.deviceModel")
        label = keys.GPU_MODEL if kind == "gpu" else keys.DEVICE_MODEL.format(type=kind)
        labels = _mapping(device, "labels", object_name, path)
        device["labels"] = {label: model, **labels}
    memory = _memory(device.pop("totalMemory", "0"), object_name, f"{path}.totalMemory")
    offered = _mapping(device, "resources", object_name, path)
    device["resources"] = offered
    for name, amount in _offer(kind, memory).items():
        offered.setdefault(name, amount)


def _label_with_model(document: Document, devices: list[Document], object_name: str) -> None:
    """Labels the Device with the model of its first GPU, where the manager looks for it."""
    for device in devices:
        labels = device.get("labels")
        if device.get("type") == "gpu" and isinstance(labels, dict) and keys.GPU_MODEL in labels:
            metadata = _mapping(document, "metadata", object_name)
            own = _mapping(metadata, "labels", object_name, "metadata")
            model = {keys.GPU_MODEL: labels[keys.GPU_MODEL]}
            document["metadata"] = {**metadata, "labels": {**model, **own}}
            return


def _offer(kind: str, memory: str | None) -> dict[str, str]:
    """What a whole card of a type offers."""
    if kind != "gpu":
        return {f"{resources.DOMAIN}/{kind}": str(_WHOLE)}
    offer = {resources.GPU_CORE: str(_WHOLE), resources.GPU_MEMORY_RATIO: str(_WHOLE)}
    return offer | ({resources.GPU_MEMORY: memory} if memory else {})


def _memory(value: object, object_name: str, path: str) -> str | None:
    """The amount as written, or None if it is zero."""
    try:
        amount = Quantity.from_wire(value)
    except ValueError as error:
        raise KoordError.wrap(object_name, path, error) from None
    if amount < Quantity():
        raise KoordError(object_name, path, value, "an amount >= 0")
    return str(amount) if amount else None


def _allocations(
    groups: list[Any], devices: list[Any], object_name: str, path: str
) -> list[Document]:
    """Allocations by type, one entry for each pod and card."""
    cards = {str(device.get("id")): device for device in devices}
    by_type: dict[str, list[Document]] = {}
    for index, group in enumerate(groups):
        where = f"{path}[{index}]"
        named = _mapping(group, "device", object_name, where)
        card = cards.get(str(named.get("uuid")))
        if card is None:
            uuid = named.get("uuid")
            raise KoordError(object_name, f"{where}.device.uuid", uuid, "the uuid of a card above")
        kind = str(card.get("type", ""))
        entries = by_type.setdefault(kind, [])
        for at, use in enumerate(_list(group, "allocations", object_name, where)):
            entries.append(_entry(use, card, kind, object_name, f"{where}.allocations[{at}]"))
    return [{"type": kind, "entries": entries} for kind, entries in by_type.items()]


def _entry(use: object, card: Document, kind: str, object_name: str, path: str) -> Document:
    pod = _mapping(use, "pod", object_name, path)
    percent = _percent(use, object_name, path)
    named: Document = {key: pod[key] for key in ("name", "namespace") if key in pod}
    shares = (
        (resources.GPU_CORE, resources.GPU_MEMORY_RATIO)
        if kind == "gpu"
        else (f"{resources.DOMAIN}/{kind}",)
    )
    amounts = {name: str(percent) for name in shares}
    return {**named, "minors": [card.get("minor", 0)], "resources": amounts}


def _percent(use: Any, object_name: str, path: str) -> int:
    text = use.get("allocated", "100%")
    digits = text.removesuffix("%") if isinstance(text, str) else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) < 4 and int(digits) <= _WHOLE):
        raise KoordError(object_name, f"{path}.allocated", text, 'a percentage from "0%" to "100%"')
    return int(digits)


def _mapping(parent: Any, name: str, object_name: str, path: str = "") -> Document:
    if not isinstance(parent, dict):
        raise KoordError(object_name, path, parent, "a mapping")
    child = parent.get(name, {})
    if not isinstance(child, dict):
        raise KoordError(object_name, f"{path}.{name}".lstrip("."), child, "a mapping")
    return child


def _list(parent: Document, name: str, object_name: str, path: str) -> list[Any]:
    child = parent.get(name, [])
    if not isinstance(child, list):
        raise KoordError(object_name, f"{path}.{name}", child, "a list")
    return child


def _text(value: object, object_name: str, path: str) -> str:
    if not isinstance(value, str) or not value:
        raise KoordError(object_name, path, value, "a name")
    return value
