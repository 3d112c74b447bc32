# SPDX-License-Identifier: Apache-2.0
"""Pods, nodes and ticks for tests of strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.host.machine import Machine
from koord.agent.states.pod_state import PodState, pod_state
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.agent.strategies.strategy import Tick
from koord.api.kinds.node import Node
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.objects import decode_as
from koord.kernels.cgroup_path import Driver
from tests.agent.strategies.fakes import FakeReader

NOW_SECONDS = 1000.0
NOW_MS = 1_700_000_000_000
LAYOUT = CgroupLayout(Driver.SYSTEMD)


def pod(
    name: str,
    *,
    qos: str = "",
    priority: int | None = None,
    containers: Sequence[Mapping[str, Any]] = ({"name": "main"},),
    init: Sequence[Mapping[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "Running",
    kube_qos: str = "",
    volumes: Sequence[Mapping[str, Any]] = (),
) -> PodState:
    """A pod with a running container for each of ``containers``, ids ``containerd://NAME-cN``."""
    own = dict(labels or {})
    if qos:
        own["koordinator.sh/qosClass"] = qos

    def statuses(of: Sequence[Mapping[str, Any]], mark: str) -> list[dict[str, Any]]:
        return [
            {"name": each["name"], "containerID": f"containerd://{name}-{mark}{at}",
             "state": {"running": {}}}
            for at, each in enumerate(of)
        ]  # fmt: skip

    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": own,
                     "annotations": dict(annotations or {})},
        "spec": {"containers": [dict(each) for each in containers],
                 "initContainers": [dict(each) for each in init],
                 "volumes": [dict(each) for each in volumes], "priority": priority},
        "status": {"phase": phase, "containerStatuses": statuses(containers, "c"),
                   "initContainerStatuses": statuses(init, "i")},
    }  # fmt: skip
    if kube_qos:
        document["status"]["qosClass"] = kube_qos  # type: ignore[index]
    if priority is None:
        del document["spec"]["priority"]  # type: ignore[attr-defined]
    return pod_state(_read(document, Pod), LAYOUT)


def resources(requests: Mapping[str, Any] | None = None, **limits: Any) -> dict[str, Any]:
    """The ``resources`` of a container; limits by keyword, requests as a mapping."""
    return {"requests": dict(requests or {}), "limits": limits}


def node(
    capacity: Mapping[str, str], allocatable: Mapping[str, str] | None = None, **annotations: str
) -> Node:
    """A Node; annotations by the part of the key after the slash, under node.koordinator.sh."""
    return _read(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "node-0",
                "annotations": {f"node.koordinator.sh/{k}": v for k, v in annotations.items()},
            },
            "status": {"capacity": dict(capacity), "allocatable": dict(allocatable or capacity)},
        },
        Node,
    )


def reported(**annotations: str) -> NodeResourceTopology:
    """A NodeResourceTopology; annotations by their whole key."""
    found = NodeResourceTopology()
    found.metadata.name = "node-0"
    found.metadata.annotations = dict(annotations)
    return found


def tick(
    machine: Machine,
    reader: FakeReader,
    *,
    pods: Sequence[PodState] = (),
    of: Node | None = None,
    slo: NodeSLOSpec | None = None,
    topology: NodeResourceTopology | None = None,
    now_seconds: float = NOW_SECONDS,
    now_ms: int = NOW_MS,
    age_seconds: float = 1.0,
) -> Tick:
    """A tick whose parts are all of one age."""
    at = now_seconds - age_seconds
    return Tick(
        now_seconds=now_seconds,
        now_ms=now_ms,
        snapshot=Snapshot(
            node=Timestamped(of, at),
            pods=Timestamped(tuple(pods), at),
            slo=Timestamped(slo, at),
            topology=Timestamped(topology, at),
        ),
        metrics=reader,
        machine=machine,
    )


def aged(before: Tick, **ages_seconds: float) -> Tick:
    """The same tick with other ages, by part of the snapshot."""
    parts = {
        name: Timestamped(getattr(before.snapshot, name).value, before.now_seconds - age)
        for name, age in ages_seconds.items()
    }
    return replace(before, snapshot=replace(before.snapshot, **parts))


def _read(document: Mapping[str, Any], kind: type[Any]) -> Any:
    return decode_as(dict(document), kind)
