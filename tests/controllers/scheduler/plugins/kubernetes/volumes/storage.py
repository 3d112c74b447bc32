# SPDX-License-Identifier: Apache-2.0
"""Volumes, claims and a world that has them, from few words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord.base.clock import VirtualClock
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.decision.decider import Decider, Decision
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.kubernetes.volumes.binding import VolumeBinding
from koord.controllers.scheduler.plugins.kubernetes.volumes.limits import NodeVolumeLimits
from koord.controllers.scheduler.plugins.kubernetes.volumes.restrictions import VolumeRestrictions
from koord.controllers.scheduler.plugins.kubernetes.volumes.zone import VolumeZone
from tests.controllers.scheduler.pods import info, pod

BOUND = "pv.kubernetes.io/bind-completed"


def affinity(key: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"required": {"nodeSelectorTerms": [term]}}


class Storage:
    """A world with the four plugins. Objects get versions as they are put."""

    def __init__(self, *nodes: Node, client: Any = None, seconds: int = 600) -> None:
        self.views = LocalViews()
        self.world = ClusterState(self.views, VirtualClock(), client)
        for node in nodes:
            self.world.table.put(node)
        args = SimpleNamespace(bind_timeout_seconds=seconds)
        self.binding = VolumeBinding(args, self.world)
        self.restrictions = VolumeRestrictions(None, self.world)
        self.limits = NodeVolumeLimits(None, self.world)
        self.zone = VolumeZone(None, self.world)
        self.world.accounts.listen(self.restrictions)
        self.world.accounts.listen(self.limits)
        all_ = [self.restrictions, self.limits, self.binding, self.zone]
        self.plugins = ProfilePlugins(
            pre_filter=[self.restrictions, self.binding, self.zone],
            filter=all_,
            reserve=[self.binding],
            pre_bind=[self.binding],
        )
        self.decider = Decider(self.world.table, self.world.accounts, self.plugins)
        self._version = 0

    def put(self, kind: type, name: str, namespace: str = "", **more: Any) -> Any:
        self._version += 1
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version)}
        if namespace:
            meta["namespace"] = namespace
        meta.update(more.pop("metadata", {}))
        made = convert({"metadata": meta, **more}, kind, f"{kind.__name__} {name}")
        self.views.view(kind).put(made)
        return made

    def volume(self, name: str, size: str = "1Gi", cls: str = "", **spec: Any) -> Any:
        metadata = {"labels": spec.pop("labels", {}), "annotations": spec.pop("annotations", {})}
        phase = spec.pop("phase", "Available")
        whole = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **spec}
        whole["storageClassName"] = cls
        status = {"phase": phase}
        return self.put(PersistentVolume, name, metadata=metadata, spec=whole, status=status)

    def claim(self, name: str, size: str = "1Gi", cls: str = "", **spec: Any) -> Any:
        metadata = {"annotations": spec.pop("annotations", {}), **spec.pop("metadata", {})}
        if spec.get("volumeName") and spec.pop("complete", True):
            metadata["annotations"] = {**metadata["annotations"], BOUND: "yes"}
        phase = spec.pop("phase", "Pending")
        whole = {"accessModes": ["ReadWriteOnce"], "storageClassName": cls, **spec}
        whole["resources"] = {"requests": {"storage": size}}
        return self.put(
            PersistentVolumeClaim,
            name,
            "default",
            metadata=metadata,
            spec=whole,
            status={"phase": phase},
        )

    def storage_class(self, name: str, provisioner: str = "csi", **more: Any) -> Any:
        more.setdefault("volumeBindingMode", "WaitForFirstConsumer")
        return self.put(StorageClass, name, provisioner=provisioner, **more)

    def driver(self, name: str, **spec: Any) -> Any:
        return self.put(CSIDriver, name, spec=spec)

    def capacity(self, name: str, cls: str, **more: Any) -> Any:
        return self.put(CSIStorageCapacity, name, "default", storageClassName=cls, **more)

    def limit(self, node: str, driver: str, count: int | None) -> Any:
        allocatable = {} if count is None else {"allocatable": {"count": count}}
        drivers = [{"name": driver, "nodeID": node, **allocatable}]
        return self.put(CSINode, node, spec={"drivers": drivers})

    def decide(self, info: PodInfo) -> Decision:
        return self.decider.decide(info)

    def place(self, info: PodInfo) -> Decision:
        decision = self.decide(info)
        assert decision.row >= 0, decision.diagnosis and decision.diagnosis.message()
        assert self.decider.assume(decision) is None
        return decision

    def message(self, info: PodInfo) -> str:
        decision = self.decide(info)
        assert decision.diagnosis is not None, "it fits"
        return decision.diagnosis.message()

    def refusals(self, info: PodInfo) -> dict[str, Rejection]:
        decision = self.decide(info)
        by_row = decision.diagnosis.by_row if decision.diagnosis is not None else {}
        return {self.world.table.name(row): why for row, why in by_row.items()}


def user(name: str, *claims: str, ephemeral: tuple[str, ...] = (), **more: Any) -> PodInfo:
    """A pod that uses claims, and claims made for it alone."""
    volumes: list[dict[str, Any]] = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}}
        for i, claim in enumerate(claims)
    ]
    volumes += [{"name": each, "ephemeral": {"volumeClaimTemplate": {}}} for each in ephemeral]
    return info(pod(name, volumes=[*volumes, *more.pop("volumes", [])], **more))
