# SPDX-License-Identifier: Apache-2.0
"""Extenders of NodeSLOs: each contributes its key, and none can harm the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from koord.api import Node, NodeSLO
from koord.base.errors import KoordError
from koord.controllers.manager.app import ManagerApp
from koord.controllers.manager.node_objects.nodeslo_extenders import (
    GROUP,
    NodeSLOExtenders,
    installed,
)
from koord.controllers.manager.options import ManagerOptions
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from tests.controllers.manager.cluster import Scene, add_node, perform


class Section:
    """Hands a section of the ConfigMap on, by the node's pool."""

    def __init__(self, key: str = "their-config") -> None:
        self.key = key

    def merge(self, old: Any, data: Mapping[str, str]) -> Any:
        try:
            return json.loads(data.get(self.key, "{}"))
        except ValueError:
            return old

    def extension(self, node: Node, config: Any) -> tuple[str, Any]:
        return self.key, config.get(node.metadata.labels.get("pool", ""))


class Broken:
    def merge(self, old: Any, data: Mapping[str, str]) -> Any:
        raise RuntimeError("merge")

    def extension(self, node: Node, config: Any) -> tuple[str, Any]:
        raise RuntimeError("extension")


async def extensions(scene: Scene, name: str) -> Any:
    return (await scene.client.get(NodeSLO, name)).spec.extensions


def test_sections_of_others_reach_nodes() -> None:
    async def script(scene: Scene) -> None:
        known = NodeSLOExtenders()
        known.register("broken", Broken())
        known.register("theirs", Section())
        client = Client(scene.world.plane.transport(), "koord-manager", requests_per_second=None)
        recorder = EventRecorder(client, "koord-manager", clock=scene.world.clock)
        options = ManagerOptions(controllers="nodeslo")
        app = ManagerApp(client, options, scene.world.clock, recorder, extenders=known)
        task = asyncio.create_task(app.run())
        await app.ready()
        await scene.configure({}, their_config={"x": {"a": 1}})
        await add_node(scene, "a", pool="x")
        await add_node(scene, "b")
        assert await extensions(scene, "a") == {"their-config": {"a": 1}}
        assert await extensions(scene, "b") == {}
        await scene.configure({}, their_config="{")
        await scene.settle()
        assert await extensions(scene, "a") == {"their-config": {"a": 1}}, "the last good one"
        await scene.configure({}, their_config={"": {"b": 2}})
        await scene.settle()
        assert await extensions(scene, "a") == {}
        assert await extensions(scene, "b") == {"their-config": {"b": 2}}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    perform(script)


def test_a_name_is_taken_once() -> None:
    known = NodeSLOExtenders()
    known.register("one", Section())
    with pytest.raises(KoordError, match="one"):
        known.register("one", Section())


def test_installed_packages_name_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        value = "somewhere:Thing"

        def __init__(self, name: str, made: Any) -> None:
            self.name = name
            self.load = lambda: made

    path = "koord.controllers.manager.node_objects.nodeslo_extenders.other_entry_points"
    monkeypatch.setattr(path, lambda group: [Point("b", Section), Point("a", Section)])
    assert len(installed()) == 2
    monkeypatch.setattr(path, lambda group: [Point("bad", 3)])
    with pytest.raises(KoordError, match=rf"^{GROUP}: bad: got 'somewhere:Thing'"):
        installed()
