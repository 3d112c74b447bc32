# SPDX-License-Identifier: Apache-2.0
"""Nodes with devices, and a decider with DeviceShare alone, from few words."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from koord.api.codec import convert
from koord.api.kinds.device import Device
from koord.base.clock import VirtualClock
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.decision.decider import Decider, Decision
from koord.controllers.scheduler.feature_gates import feature_gates
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.plugins.deviceshare.args import DeviceShareOptions
from koord.controllers.scheduler.plugins.deviceshare.plugin import DeviceShare
from tests.controllers.scheduler.pods import node, pod

MEMORY = "16Gi"


def gpu(minor: int, numa: int = 0, pcie: str = "0", **more: Any) -> dict[str, Any]:
    """A card in wire form."""
    return {
        "type": "gpu",
        "minor": minor,
        "id": f"GPU-{minor}",
        "health": True,
        "resources": {
            "koordinator.sh/gpu-core": "100",
            "koordinator.sh/gpu-memory": MEMORY,
            "koordinator.sh/gpu-memory-ratio": "100",
        },
        "topology": {"socketID": numa, "nodeID": numa, "pcieID": pcie},
        **more,
    }


def nic(minor: int, numa: int = 0, pcie: str = "0", vfs: int = 0, **more: Any) -> dict[str, Any]:
    """An RDMA card in wire form, with so many virtual functions."""
    functions = [{"minor": each, "busID": f"0000:{minor:02d}:00.{each}"} for each in range(vfs)]
    return {
        "type": "rdma",
        "minor": minor,
        "id": f"NIC-{minor}",
        "health": True,
        "resources": {"koordinator.sh/rdma": "100"},
        "topology": {"socketID": numa, "nodeID": numa, "pcieID": pcie},
        "vfGroups": [{"labels": {"type": "general"}, "vfs": functions}] if vfs else [],
        **more,
    }


def gpus(count: int) -> list[dict[str, Any]]:
    """Cards of which two share a PCIe root and four a NUMA node."""
    return [gpu(minor, minor // 4, str(minor // 2)) for minor in range(count)]


def device(name: str, *cards: dict[str, Any], **meta: Any) -> Device:
    """The Device object of a node; ``labels``, ``annotations``."""
    document = {"metadata": {"name": name, **meta}, "spec": {"devices": list(cards)}}
    return convert(document, Device, f"Device {name}")


class Offer(NamedTuple):
    """What the Reservation plugin would say."""

    uid: str
    policy: str = ""
    restricted: frozenset[str] = frozenset()
    pre_allocation: bool = False
    required: bool = False


class Sits(NamedTuple):
    """``pod.allocations["Reservation"]``."""

    uid: str
    pre_allocated: tuple[str, ...] = ()


class Nominator(NamedTuple):
    """``cycle.state["Reservation"]``, with one reservation on every row."""

    offer: Offer

    def nominate(self, cycle: Cycle, row: int) -> Offer:
        """That one."""
        return self.offer


class Cluster:
    """A node table, the plugin and a decider; pods of device requests."""

    def __init__(self, settings: DeviceShareOptions | None = None, **gates: bool) -> None:
        self.views = LocalViews()
        self.clock = VirtualClock(1_700_000_000.0)
        text = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
        self.world = ClusterState(self.views, self.clock, gates=feature_gates(text))
        self.table = self.world.table
        self.plugin = DeviceShare(settings, self.world)
        self.accounts = Accounts(self.table, [self.plugin])
        self.decider = Decider(
            self.table,
            self.accounts,
            ProfilePlugins(
                pre_filter=[self.plugin],
                filter=[self.plugin],
                score=[(self.plugin, 1)],
                reserve=[self.plugin],
            ),
        )
        self._made = 0

    def add(self, name: str, *cards: dict[str, Any], **more: Any) -> int:
        """A node, and its Device unless there are no cards at all."""
        meta = {
            key: more.pop(key) for key in ("device_labels", "device_annotations") if key in more
        }
        row = self.table.put(node(name, **more))
        if cards:
            wire = {key.removeprefix("device_"): value for key, value in meta.items()}
            self.put(device(name, *cards, **wire))
        return row

    def put(self, made: Device) -> None:
        """A Device object comes or changes."""
        self.views.view(Device).put(made)

    def pod(self, name: str = "", **more: Any) -> PodInfo:
        """A pod; amounts in ``requests`` by full name, or short as ``gpu_core=50``."""
        self._made += 1
        requested = dict(more.pop("requests", {}))
        for short in [key for key in more if key.startswith(("gpu", "rdma", "fpga"))]:
            requested["koordinator.sh/" + short.replace("_", "-")] = str(more.pop(short))
        made = pod(name or f"pod-{self._made}", requests=requested, **more)
        return self.world.shapes.info(made)

    def decide(self, info: PodInfo, *, offers: dict[int, list[Offer]] | None = None) -> Decision:
        """Where a pod would go."""
        cycle = Cycle(info, self.table)
        if offers is not None:
            cycle.reservations = lambda row: offers.get(row, ())
        return self.decider.attempt(cycle)

    def place(
        self, info: PodInfo, *, offers: dict[int, list[Offer]] | None = None, sits: str = ""
    ) -> str:
        """Places a pod: ``type:minors`` of what it got, or the message that says why not.

        Args:
            info: the pod.
            offers: reservations that it matches, by row.
            sits: uid of the one that it is nominated for, and sits in from then on.
        """
        decision = self.decide(info, offers=offers)
        if decision.diagnosis is not None:
            return decision.diagnosis.message()
        if sits:
            given = [offer for offer in (offers or {}).get(decision.row, ()) if offer.uid == sits]
            decision.cycle.state["Reservation"] = Nominator(given[0])
            info.allocations["Reservation"] = Sits(sits)
        refused = self.decider.assume(decision)
        return refused.text if refused is not None else self.got(info)

    def got(self, info: PodInfo) -> str:
        """What a pod holds, in short."""
        found: dict[str, list[str]] = {}
        for held in info.allocations.get("DeviceShare", ()):
            bus = "".join(f"/{function.bus_id}" for function in held.functions)
            found.setdefault(held.type, []).append(f"{held.minor}{bus}")
        return " ".join(f"{kind}:{','.join(minors)}" for kind, minors in found.items())

    def hold(self, name: str, row: int, info: PodInfo, **allocations: Any) -> PodInfo:
        """Counts a pod somewhere as if it had been placed before."""
        info.allocations.update(allocations)
        self.plugin.restore(info)
        self.accounts.add(row, info)
        return info

    def written(self, info: PodInfo) -> PendingPatch:
        """What PreBind writes."""
        changes = PendingPatch()
        cycle = Cycle(info, self.table)
        asyncio.run(self.plugin.pre_bind(cycle, info.row, changes))
        return changes
