# SPDX-License-Identifier: Apache-2.0
"""A manager over an embedded API server on virtual time, without machines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from koord.api import Event, Node, NodeMetric, NodeSLO
from koord.api.kinds.meta import ObjectMeta
from koord.kube.patches import Patch
from tests.controllers.manager.noderesource.scene import Scene, perform

__all__ = ["Scene", "add_node", "label", "metric", "perform", "reasons", "slo", "started"]


def started(script: Callable[[Scene], Awaitable[None]], controllers: str, **options: Any) -> None:
    """Runs a script on virtual time beside a manager with some controllers."""

    async def inner(scene: Scene) -> None:
        await scene.start(controllers, **options)
        await scene.settle()
        await script(scene)

    perform(inner)


async def add_node(scene: Scene, name: str, **labels: str) -> None:
    """A node that nothing runs on."""
    await scene.client.create(Node(metadata=ObjectMeta(name=name, labels=labels)))
    await scene.settle()


async def label(scene: Scene, name: str, **values: dict[str, str | None]) -> None:
    """Sets labels or annotations of a node, and lets the manager see it."""
    await scene.client.patch(Node, name, Patch.merge({"metadata": values}))
    await scene.settle()


async def slo(scene: Scene, name: str) -> NodeSLO:
    return await scene.client.get(NodeSLO, name)


async def metric(scene: Scene, name: str) -> NodeMetric:
    return await scene.client.get(NodeMetric, name)


async def reasons(scene: Scene) -> list[tuple[str, str]]:
    """Reason and object of all events."""
    await asyncio.sleep(2)
    found = (await scene.client.list(Event)).items
    return sorted((each.reason, each.involved_object.name) for each in found)
