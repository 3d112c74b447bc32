# SPDX-License-Identifier: Apache-2.0
"""NodeResourceTopology: the object in the API after each of some rounds."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from koord.agent.host.procfs.meminfo import HugePages
from koord.agent.metrics.collector import NUMAMemory
from koord.agent.report.hardware import _zone
from koord.agent.report.publisher import topology_changes
from koord.agent.report.reporters import TopologyReporter
from koord.agent.report.topology_object import NodeHardware
from koord.agent.states.kubelet import KubeletConfiguration
from koord.agent.states.snapshot import SnapshotPart
from koord.agent.states.state_store import StateStore
from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.topology import NodeResourceTopology, Zone, ZoneResource
from koord.api.objects import decode_as
from koord.api.protocol.topology import CPUBasicInfo, CPUInfo
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.controlplane.patching.json_patches import merge_patch
from koord.kernels.quantity import Quantity
from tests.kube.harness import run_virtual
from tests.vectors.agent.scene import state
from tests.vectors.reports import topology_cases
from tests.vectors.reports.topology_differences import differences

SEED = 20271
_COUNT = 320
# So that the kubelet is asked in each round: docs/differences.md, kubelet-configuration-interval.
_ROUND_SECONDS = 12.0


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Machines of up to 32 CPUs."""
    return [topology_cases.case(rng) for _ in range(_COUNT)]


def answer(case: dict[str, Any]) -> object:
    """After each round whether something was written, and the object; or that there is none."""
    return run_virtual(_answer(case))


async def _answer(case: dict[str, Any]) -> object:
    api = _API()
    with tempfile.TemporaryDirectory() as root:
        store = StateStore(VirtualClock(0.0))
        kubelet: Any = _Kubelet()
        reporter = TopologyReporter(
            store, _hardware(case), kubelet if case["rounds"][0]["kubelet"] else None,
            root, api, api,  # type: ignore[arg-type]
        )  # fmt: skip
        rounds: list[Any] = []
        for each in case["rounds"]:
            file = Path(root, "cpu_manager_state")
            file.unlink(missing_ok=True)
            if each["state"] is not None:
                file.write_text(each["state"])
            kubelet.told = each["kubelet"]
            await asyncio.sleep(_ROUND_SECONDS)
            store.put(SnapshotPart.NODE, decode_as(each["node"], Node))
            store.put(SnapshotPart.PODS, tuple(state(pod) for pod in each["pods"]))
            api.edit(each["others"])
            try:
                await reporter.report()
            except KoordError:
                rounds.append("error")
            else:
                rounds.append({"written": api.written, "object": api.shown()})
    return rounds


class _Kubelet:
    told: Any = None

    async def configuration(self) -> KubeletConfiguration:
        return codec.convert(self.told, KubeletConfiguration, "kubelet", "")


class _API:
    """One object in an API server, as its informer and its writer have it."""

    has_synced = served = True

    def __init__(self) -> None:
        self.there: NodeResourceTopology | None = None
        self.written = False

    def get(self, name: str) -> NodeResourceTopology | None:
        del name
        return self.there

    async def publish(self, wanted: Any, there: Any, changes: Any) -> None:
        assert changes is topology_changes
        if there is None:
            self.there, self.written = self._read(codec.to_document(wanted)), True
            return
        change = changes(there, wanted)
        self.written = change is not None
        if change is not None:
            document = codec.to_document(there)
            self.there = self._read(merge_patch(document, json.dumps(change).encode()))

    @staticmethod
    def _read(document: dict[str, Any]) -> NodeResourceTopology:
        return codec.convert(document, NodeResourceTopology, "nrt", "")

    def edit(self, others: dict[str, Any]) -> None:
        """What others do to it."""
        if self.there is None:
            return
        notes = self.there.metadata.annotations
        if others["indented"]:
            for key, text in notes.items():
                if isinstance(_parsed(text), dict | list):
                    notes[key] = json.dumps(json.loads(text), indent=2)
        for key in others["dropped"]:
            notes.pop(key, None)
        notes.update(others["annotations"])
        for name, resource, text in others["zones"]:
            amount = Quantity.parse(text)
            zones = {zone.name: zone for zone in self.there.zones}
            if name not in zones:
                zones[name] = Zone(name=name, type="Node")
                self.there.zones.append(zones[name])
            zones[name].resources.append(ZoneResource(resource, amount, amount, amount))

    def shown(self) -> dict[str, Any]:
        """It, with its annotations by what they say."""
        there = self.there
        assert there is not None
        return {
            "annotations": {k: _parsed(text) for k, text in there.metadata.annotations.items()},
            "labels": there.metadata.labels, "policies": there.topology_policies,
            "zones": [_zone_shown(zone) for zone in there.zones],
        }  # fmt: skip


def _zone_shown(zone: Zone) -> dict[str, Any]:
    amounts = {
        each.name: [str(each.capacity), str(each.allocatable), str(each.available)]
        for each in zone.resources
    }
    return {"name": zone.name, "type": zone.type, "resources": amounts}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return f'text "{text}"'


def _hardware(case: dict[str, Any]) -> NodeHardware:
    zones = {}
    for each in case["memory"]:
        held = tuple(
            HugePages(each["id"], int(kib) * 1024, count, 0) for kib, count in each["pages"].items()
        )
        numa = NUMAMemory(each["id"], {"MemTotal": each["kib"] * 1024}, held)
        zones[each["id"]] = _zone(numa, case["hugePages"])
    cpus = [CPUInfo(id=i, core=c, socket=s, node=n) for i, c, s, n in case["cpus"]]
    return NodeHardware(cpus, codec.convert(case["basic"], CPUBasicInfo, "basic", ""), zones)


DIFFERENCES = differences(answer)
_API_FAILURES = "what is left are failures of the API, and reports that are switched off"
COVERAGE = {
    "states_noderesourcetopology.go:createNodeTopoIfNotExist": _API_FAILURES,
    "states_noderesourcetopology.go:reportNodeTopology": _API_FAILURES,
}
