# SPDX-License-Identifier: Apache-2.0
"""What a pod counts as on its node, by its phases; works on wire documents."""

from __future__ import annotations

from typing import Any

from tests.models.stock_reading import Document, amount

NONZERO = {"cpu": 100, "memory": 200 << 20}


def counted_of(pod: Document, least: dict[str, int] | None = None) -> dict[str, int]:
    """The most that runs at once, at each moment of the pod's life.

    Args:
        pod: on a node, or as if it were.
        least: what a container counts as that says nothing of a resource.
    """
    spec = pod["spec"]
    inits = spec.get("initContainers", [])
    counts = [held(pod, each) if is_sidecar(each) else asked(each) for each in inits]
    beside = [each for each, init in zip(counts, inits, strict=True) if is_sidecar(init)]
    phases = [[*(held(pod, each) for each in spec["containers"]), *beside]]
    for at, each in enumerate(counts):
        started = sum(map(is_sidecar, inits[:at]))
        phases.append([*beside[:started], each])
    found = most([add([(least or {}) | each for each in phase]) for phase in phases]) | amounts(
        spec.get("resources", {}).get("requests", {})
    )
    return add([found, amounts(spec.get("overhead", {}))])


def scored_of(pod: Document) -> dict[str, int]:
    """As scores count it on its node: least amounts are not for what the whole pod tells."""
    told = counted_of(pod) if pod["spec"].get("resources", {}).get("requests") else {}
    return counted_of(pod, {name: value for name, value in NONZERO.items() if name not in told})


def asked(container: Document) -> dict[str, int]:
    return amounts(container.get("resources", {}).get("requests", {}))


def held(pod: Document, container: Document) -> dict[str, int]:
    status = pod.get("status", {})
    states = status.get("containerStatuses", []) + status.get("initContainerStatuses", [])
    of_it = [each for each in states if each["name"] == container["name"]]
    if not of_it or of_it[-1].get("resources") is None:
        return asked(container)
    runs = amounts(of_it[-1]["resources"].get("requests", {}))
    set_aside = amounts(of_it[-1].get("allocatedResources", {}))
    return most([runs, set_aside] if is_refused(status) else [asked(container), runs, set_aside])


def is_refused(status: Document) -> bool:
    pending = [each for each in status.get("conditions", []) if each["type"] == "PodResizePending"]
    return bool(pending) and pending[0].get("reason") == "Infeasible"


def is_sidecar(container: Document) -> bool:
    return container.get("restartPolicy") == "Always"


def amounts(texts: dict[str, str]) -> dict[str, int]:
    return {name: amount(name, text) for name, text in texts.items()}


def add(parts: list[dict[str, int]]) -> dict[str, int]:
    return {name: sum(part.get(name, 0) for part in parts) for name in _names(parts)}


def most(parts: list[dict[str, int]]) -> dict[str, int]:
    return {name: max(part.get(name, 0) for part in parts) for name in _names(parts)}


def _names(parts: list[dict[str, Any]]) -> set[str]:
    return {name for part in parts for name in part}
