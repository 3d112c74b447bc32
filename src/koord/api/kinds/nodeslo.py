# SPDX-License-Identifier: Apache-2.0
"""NodeSLO: what a node is to do for the quality of its pods."""

from __future__ import annotations

from msgspec import field

from koord.api.kinds.meta import Object
from koord.api.kinds.qos_strategy import ResourceQOSStrategy
from koord.api.kinds.slo_strategies import (
    CPUBurstStrategy,
    HostApplication,
    ResourceThresholdStrategy,
    SystemStrategy,
)
from koord.api.schema import FreeForm
from koord.api.wirestruct import WireStruct


class NodeSLOSpec(WireStruct):
    """The strategies of one node, merged from slo-controller-config by the manager.

    Attributes:
        resourceUsedThresholdWithBE: when BE pods are suppressed and pods evicted.
        resourceQOSStrategy: what each QoS class gets.
        cpuBurstStrategy: how far containers may exceed their CPU limit.
        systemStrategy: kernel settings.
        extensions: settings of third-party components, kept as they are.
        hostApplications: processes of the host that have a QoS class.
    """

    resource_used_threshold_with_be: ResourceThresholdStrategy | None = None
    resource_qos_strategy: ResourceQOSStrategy | None = None
    cpu_burst_strategy: CPUBurstStrategy | None = None
    system_strategy: SystemStrategy | None = None
    extensions: FreeForm = {}
    host_applications: list[HostApplication] = []


class NodeSLO(Object):
    """The QoS configuration of the node of the same name."""

    spec: NodeSLOSpec = field(default_factory=NodeSLOSpec)
