# SPDX-License-Identifier: Apache-2.0
"""Where a pod of a history has room, by the documents alone: plain resources, CPUs, cards."""

from __future__ import annotations

import json
from collections import Counter

from tests.controllers.scheduler.histories.documents import (
    ALLOCATED,
    CPU_FORMS,
    CPU_STATUS,
    CPUS,
    DEVICES,
    MINOR,
    QUOTA,
    Document,
)
from tests.models.stock_scheduler import Cluster as PlainModel
from tests.models.stock_scheduler import amount, requests_of

MODELLED = {"plain", "gated", "high", "apart", "share", "gpus", *CPU_FORMS}
"""Forms of which it is known where they have room."""


def name_of(each: Document) -> str:
    return str(each["metadata"]["name"])


def label(each: Document, key: str) -> str:
    return str(each["metadata"].get("labels", {}).get(key, ""))


def annotation(each: Document, key: str) -> str:
    return str(each["metadata"].get("annotations", {}).get(key, ""))


def bound_to(each: Document) -> str:
    return str(each["spec"].get("nodeName", ""))


def is_active(reservation: Document) -> bool:
    return reservation.get("status", {}).get("phase") == "Available"


def cpus_of(pod: Document) -> list[int]:
    """The CPUs that are a pod's own."""
    text = annotation(pod, CPU_STATUS)
    cpuset = json.loads(text).get("cpuset", "") if text else ""
    return [cpu for part in cpuset.split(",") if part for cpu in span(part)]


def span(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def cards_of(pod: Document) -> Counter[tuple[int, str]]:
    """What a pod has of each card, by minor and resource."""
    used: Counter[tuple[int, str]] = Counter()
    text = annotation(pod, DEVICES)
    for device in json.loads(text).get("gpu", []) if text else []:
        for resource in MINOR:
            used[device["minor"], resource] += int(str(device["resources"].get(resource, "0")))
    return used


def owners_of(reservation: Document, pods: list[Document]) -> list[Document]:
    uid = reservation["metadata"]["uid"]
    found = []
    for each in pods:
        mark = annotation(each, ALLOCATED)
        if mark and json.loads(mark)["uid"] == uid and bound_to(each):
            found.append(each)
    return found


def rest(reservation: Document, pods: list[Document]) -> Document:
    """What is left of a reservation, as a pod in its place."""
    held = {k: amount(k, v) for k, v in reservation["status"]["allocatable"].items()}
    used: Counter[str] = Counter()
    for each in owners_of(reservation, pods):
        used.update(requests_of(each))
    left = {name: max(0, total - used[name]) for name, total in held.items()}
    texts = {name: f"{value}m" if name == "cpu" else str(value) for name, value in left.items()}
    container = {"name": "held", "resources": {"requests": texts}}
    return {
        "metadata": {"name": name_of(reservation), "namespace": "default"},
        "spec": {"nodeName": reservation["status"]["nodeName"], "containers": [container]},
    }


def cards_used(node: str, pods: list[Document], held: list[Document]) -> Counter[tuple[int, str]]:
    """What pods have of a node's cards, and what is left of its Reservations on them."""
    used: Counter[tuple[int, str]] = Counter()
    for each in pods:
        if bound_to(each) == node:
            used.update(cards_of(each))
    for reservation in held:
        of_owners: Counter[tuple[int, str]] = Counter()
        for owner in owners_of(reservation, pods):
            of_owners.update(cards_of(owner))
        used.update(cards_of(reservation) - of_owners)
    return used


class Room:
    """What is free.

    Args:
        nodes: by name.
        pods: that have not ended.
        held: Reservations.
        devices: Devices.
        bare: nodes that tell nothing of their CPUs.
    """

    def __init__(
        self, nodes: dict[str, Document], pods: list[Document], held: list[Document],
        devices: list[Document], bare: set[str],
    ) -> None:  # fmt: skip
        self._bare = bare
        self._cards = {name_of(each): len(each["spec"]["devices"]) for each in devices}
        self._held: dict[str, list[Document]] = {}
        self._placed = [each for each in pods if bound_to(each) in nodes]
        self._model = PlainModel()
        self._model.nodes.update(nodes)
        self._model.placed += [(each, bound_to(each)) for each in self._placed]
        for reservation in held:
            if is_active(reservation) and reservation["status"]["nodeName"] in nodes:
                left = rest(reservation, pods)
                self._held.setdefault(bound_to(left), []).append(reservation)
                self._model.placed.append((left, bound_to(left)))

    def for_pod(self, pod: Document) -> list[str]:
        """The nodes that have room for a pod."""
        return [
            name
            for name in self._model.nodes
            if self._model.refusal(pod, name) is None
            and self._has_cpus(pod, name)
            and self._has_cards(pod, name)
        ]

    def _has_cpus(self, pod: Document, name: str) -> bool:
        """Whether as many CPUs are known and nobody's own: policies of these pods are wishes."""
        if label(pod, "form") not in CPU_FORMS:
            return True
        if name in self._bare:
            return False
        there = [each for each in self._placed if bound_to(each) == name]
        taken = {cpu for each in [*there, *self._held.get(name, ())] for cpu in cpus_of(each)}
        return requests_of(pod)["cpu"] <= 1000 * (CPUS - len(taken))

    def _has_cards(self, pod: Document, name: str) -> bool:
        wanted = {resource: requests_of(pod).get(resource, 0) for resource in MINOR}
        if not any(wanted.values()):
            return True
        used = cards_used(name, self._placed, self._held.get(name, []))
        share = {resource: min(100, most) for resource, most in wanted.items()}
        fitting = [
            minor
            for minor in range(self._cards.get(name, 0))
            if all(used[minor, resource] + each <= 100 for resource, each in share.items())
        ]
        return 100 * len(fitting) >= max(wanted.values())


def nothing_left(room: Room, pods: list[Document]) -> None:
    """No pod waits while the plain model has a node for it."""
    for each in pods:
        gated = each["spec"].get("schedulingGates")
        if bound_to(each) or gated or label(each, "form") not in MODELLED:
            continue
        if not any(label(each, key) for key in (QUOTA + "name", "gang")):
            fits = room.for_pod(each)
            assert not fits, f"{name_of(each)} waits, and fits on {fits}"
