# SPDX-License-Identifier: Apache-2.0
"""Histories of slo-controller-config and its manager, held against a plain model of NodeSLOs.

Sections become wrong and right again, nodes come and go, the manager starts anew at any moment.
Every NodeSLO says of each section what was last good: in this process, or, where this process has
never been able to read it, what the NodeSLO said before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from koord.api import ConfigMap, Node, NodeSLO, crds
from koord.api.codec import to_document
from koord.api.kinds.meta import ObjectMeta
from koord.api.sloconfig import sections
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.patches import Patch
from tests.controllers.manager.noderesource.scene import CONFIG, NAMESPACE, Scene
from tests.models import slo_config_cache
from tests.models.slo_config_cache import TEXTS
from tests.profiles import examples
from tests.simulator.simulated_cluster import START, World

FIELDS = {
    sections.THRESHOLD: "resourceUsedThresholdWithBE",
    sections.QOS: "resourceQOSStrategy",
    sections.BURST: "cpuBurstStrategy",
    sections.SYSTEM: "systemStrategy",
    sections.HOST_APPLICATION: "hostApplications",
}
KEYS = sorted(FIELDS)
_KINDS = ("nodemetrics", "nodeslos")


class Histories(RuleBasedStateMachine):
    """See the head of this file."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock(START)
        self.runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(self.clock))
        self.plane = EmbeddedControlPlane(Options(clock=self.clock, seed=1))
        # By node, what its NodeSLO has to say, by section.
        self.wanted: dict[str, dict[str, Any]] = {}
        self.data: dict[str, str] | None = None
        self.running = False
        self.count = 0
        self.scene: Scene = self.do(self._open())

    async def _open(self) -> Scene:
        await self.plane.__aenter__()
        scene = Scene(World(self.plane, self.clock))
        wanted = [crd for crd in crds() if crd["spec"]["names"]["plural"] in _KINDS]
        names = [name async for name, _ in installing.install(scene.client, wanted)]
        await installing.wait_established(scene.client, names, 10)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await scene.client.create(space)
        return scene

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @initialize(
        data=st.none() | st.fixed_dictionaries(
            {}, optional={key: st.sampled_from(TEXTS[key]) for key in KEYS}))  # fmt: skip
    def begin(self, data: dict[str, str] | None) -> None:
        if data is not None:
            self._put(data)
        self.node_joins()
        self.manager_starts()

    def teardown(self) -> None:
        async def end() -> None:
            await self.scene.stop()
            await self.plane.__aexit__(None, None, None)

        self.do(end())
        self.runner.close()

    # What happens.

    @rule(key=st.sampled_from(KEYS), draw=st.data())
    def write(self, key: str, draw: st.DataObject) -> None:
        data = dict(self.data or {})
        text = draw.draw(st.none() | st.sampled_from(TEXTS[key]))
        data.pop(key, None) if text is None else data.update({key: text})
        self._put(data)

    def _put(self, data: dict[str, str]) -> None:
        gone = dict.fromkeys(self.data or {})
        if self.data is None:
            meta = {"name": CONFIG, "namespace": NAMESPACE}
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            self.do(self.scene.client.create(made))
        else:
            change = Patch.merge({"data": {**gone, **data}})
            self.do(self.scene.client.patch(ConfigMap, CONFIG, change, namespace=NAMESPACE))
        if self.running:
            self.model.sync(data)
        self.data = data

    @rule()
    @precondition(lambda self: self.data is not None)
    def config_map_is_deleted(self) -> None:
        """The last one stays in force until the next start."""
        self.do(self.scene.client.delete(ConfigMap, CONFIG, NAMESPACE))
        self.data = None

    @rule()
    @precondition(lambda self: len(self.wanted) < 3)
    def node_joins(self) -> None:
        self.count += 1
        name = f"n{self.count}"
        self.do(self.scene.client.create(Node(metadata=ObjectMeta(name=name))))
        self.wanted[name] = {}

    @rule()
    @precondition(lambda self: len(self.wanted) > 1)
    def node_leaves(self) -> None:
        name = min(self.wanted)
        self.do(self.scene.client.delete(Node, name))
        del self.wanted[name]

    @rule()
    @precondition(lambda self: self.running)
    def manager_stops(self) -> None:
        self.do(self.scene.stop())
        self.running = False

    @rule()
    @precondition(lambda self: not self.running)
    def manager_starts(self) -> None:
        self.model = slo_config_cache.Model()
        self.model.sync(self.data)
        self.running = True
        self.do(self.scene.start("nodeslo"))

    # What has to be.

    @invariant()
    def node_slos_say_what_was_last_good(self) -> None:
        if not self.running:
            return
        self.do(self.scene.settle(5.0))
        slos = self.do(self.scene.client.list(NodeSLO)).items
        assert {each.metadata.name for each in slos} == self.wanted.keys()
        for each in slos:
            want = self.wanted[each.metadata.name]
            for key in KEYS:
                if key in self.model.good or key not in want:
                    want[key] = _part(key, self.model.value(key))
            said = to_document(each.spec)
            assert {key: said.get(FIELDS[key]) for key in KEYS} == want


def _part(key: str, section: Any) -> Any:
    """What a section comes to on a node without labels, in a NodeSLO; None for nothing."""
    found = to_document(section.cluster)
    return found.get("applications") if key == sections.HOST_APPLICATION else found


TestHistories = Histories.TestCase
# An example is a manager among informers on virtual time.
TestHistories.settings = settings(max_examples=examples(0.25), stateful_step_count=15)
