# SPDX-License-Identifier: Apache-2.0
"""Objects that tests of the node-resource controller are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from koord.api import Device, Node, NodeResourceTopology, decode_as
from koord.api.sloconfig.config import SLOConfig, load
from koord.api.sloconfig.merge import merge_section
from koord.api.sloconfig.sections import SECTIONS, parse_section
from koord.controllers.manager.noderesource.plugins.plugin import (
    CalculatedResources,
    DesiredNode,
    NodeInputs,
    OfferedResources,
)
from koord.controllers.manager.noderesource.plugins.plugin_chain import PluginChain

ALL = (
    "CPUNormalization", "ResourceAmplification", "MidResource", "BatchResource",
    "GPUDeviceResource", "RDMADeviceResource",
)  # fmt: skip


def config(**sections: object) -> SLOConfig:
    """A configuration of sections by key, with ``_`` for ``-``."""
    data = {key.replace("_", "-"): json.dumps(value) for key, value in sections.items()}
    return load({"colocation-config": '{"enable":true}'} | data)


def unjudged(key: str, **fields: object) -> SLOConfig:
    """A configuration with one section as it is written, whatever its values."""
    settings = config()
    section = SECTIONS[key]
    written = parse_section(section, json.dumps(fields), key)
    settings.sections[key] = merge_section(section, written)
    return settings


def node(
    amounts: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
) -> Node:
    """A node of 100 cores and 120G, with more resources in capacity and allocatable both."""
    has = {"cpu": "100", "memory": "120G", **(amounts or {})}
    metadata = {"labels": labels or {}, "annotations": annotations or {}, "resourceVersion": "7"}
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "uid": "u", **metadata},
        "status": {"capacity": {**has, **(capacity or {})}, "allocatable": has},
    }
    return decode_as(document, Node)


def device(
    cards: Sequence[tuple[str, bool, Mapping[str, int]]], labels: Mapping[str, str] | None = None
) -> Device:
    """A Device with cards: type, health, resources."""
    devices = [
        {"type": kind, "health": health, "minor": number,
         "resources": {name: str(amount) for name, amount in resources.items()}}
        for number, (kind, health, resources) in enumerate(cards)
    ]  # fmt: skip
    document = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n", "labels": labels or {}},
        "spec": {"devices": devices},
    }
    return decode_as(document, Device)


def topology(
    zones: Sequence[Mapping[str, Any]] = (), info: Mapping[str, Any] | None = None
) -> NodeResourceTopology:
    """A NodeResourceTopology with zones as documents, and what the agent says of the CPU."""
    annotations = {"node.koordinator.sh/cpu-basic-info": json.dumps(info)} if info else {}
    document = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n", "annotations": annotations, "resourceVersion": "9"},
        "zones": list(zones),
    }
    return decode_as(document, NodeResourceTopology)


class Bench:
    """Plugins without a controller."""

    def __init__(self, *names: str, **options: bool) -> None:
        self.counted: list[tuple[str, str, str]] = []
        self.plugins = PluginChain(names or ALL, lambda *told: self.counted.append(told), **options)

    def wanted(self, seen: NodeInputs, enabled: bool = True) -> DesiredNode:
        """What the node of ``seen`` is to show."""
        return self.plugins.wanted(seen.node, self.result(seen, enabled))

    def result(self, seen: NodeInputs, enabled: bool = True) -> CalculatedResources:
        """What the plugins calculate."""
        return self.plugins.result(seen, enabled)

    @property
    def failed(self) -> list[str]:
        """The plugins that had an error, in order."""
        return [name for name, status, _ in self.counted if status == "failed"]


def seen(of: Node | None = None, settings: SLOConfig | None = None, **more: Any) -> NodeInputs:
    """What is known of a node; batch and mid as pairs."""
    of, settings = of or node(), settings or config()
    for name in ("batch", "mid"):
        if more.get(name) is not None:
            more[name] = OfferedResources(*more[name])
    return NodeInputs(of, settings, settings.colocation(of), **more)


def shown(wanted: DesiredNode) -> dict[str, int | None]:
    """Wanted resources as plain numbers."""
    return {
        name: None if amount is None else amount.value()
        for name, amount in wanted.resources.items()
    }
