# SPDX-License-Identifier: Apache-2.0
"""From informers to the ledger: each change as a delta, and whose node has to be looked at again.

Which changes count: docs/reference/node-resources.md#what-is-looked-at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.controllers.manager.noderesource.plugins.devices import has_gpus

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.sloconfig.strategies import ColocationStrategy
    from koord.controllers.cluster.views import InformerViews
    from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache


class NodeResourceEventHandlers:
    """Keeps a ledger true.

    Args:
        views: what the API server has.
        ledger: what is made of it.
        strategy_of: the strategy in force on a node; None where nothing may be offered.
        changed: told that something has changed; with the name of a node where more has than the
            ledger knows, else without.

    Attributes:
        nodes, topologies, devices, metrics: the views.
        had_gpus: names of nodes whose Device had GPUs at any time.
        forced: names of nodes of which something was deleted that had been written by; they are
            written anew, however little differs.
    """

    def __init__(
        self,
        views: InformerViews,
        ledger: OvercommitCache,
        strategy_of: Callable[[Node], ColocationStrategy | None],
        changed: Callable[[str], None],
    ) -> None:
        self.nodes = views.view(Node)
        self.pods = views.view(Pod)
        self.metrics = views.view(NodeMetric)
        self.topologies = views.view(NodeResourceTopology)
        self.devices = views.view(Device)
        self.had_gpus: set[str] = set()
        self.forced: set[str] = set()
        self._ledger = ledger
        self._strategy_of = strategy_of
        self._changed = changed

    def attach(self) -> None:
        """Follows the views from now on, and takes over what is there."""
        self.nodes.on_change(self._node, self._node_updated, self._node_gone)
        self.pods.on_change(self._pod, lambda _, pod: self._pod(pod), self._pod_gone)
        self.metrics.on_change(self._metric, self._metric_updated, self._metric_gone)
        self.topologies.on_change(self._topology, self._topology_updated, self._topology_gone)
        self.devices.on_change(self._device, self._device_updated, self._device_gone)

    def _node(self, node: Node) -> None:
        self._ledger.put_node(node, self._strategy_of(node))
        self._changed(node.metadata.name)

    def _node_updated(self, old: Node, new: Node) -> None:
        # Most updates are heartbeats. A resync tells of the same object twice.
        if old is new or _substance(old) != _substance(new):
            self._node(new)

    def _node_gone(self, node: Node, _: bool) -> None:
        name = node.metadata.name
        self._ledger.drop_node(name)
        self.had_gpus.discard(name)
        self.forced.discard(name)
        self._changed(name)

    def _pod(self, pod: Pod) -> None:
        self._ledger.put_pod(pod)
        self._changed("")

    def _pod_gone(self, pod: Pod, _: bool) -> None:
        self._ledger.drop_pod(pod)
        self._changed("")

    def _metric(self, metric: NodeMetric) -> None:
        self._ledger.put_metric(metric)
        self._changed("")

    def _metric_updated(self, old: NodeMetric, new: NodeMetric) -> None:
        if old.status != new.status:
            self._metric(new)

    def _metric_gone(self, metric: NodeMetric, _: bool) -> None:
        self._ledger.drop_metric(metric.metadata.name)
        self._force(metric.metadata.name)

    def _topology(self, topology: NodeResourceTopology) -> None:
        self._ledger.put_topology(topology)
        self._changed(topology.metadata.name)

    def _topology_updated(self, old: NodeResourceTopology, new: NodeResourceTopology) -> None:
        said = new.metadata.annotations == old.metadata.annotations
        if old is new or not said or old.zones != new.zones:
            self._topology(new)

    def _topology_gone(self, topology: NodeResourceTopology, _: bool) -> None:
        self._ledger.drop_topology(topology.metadata.name)
        self._force(topology.metadata.name)

    def _device(self, device: Device) -> None:
        if has_gpus(device):
            self.had_gpus.add(device.metadata.name)
        self._changed(device.metadata.name)

    def _device_updated(self, old: Device, new: Device) -> None:
        # A new driver changes a label and nothing else.
        if old.spec != new.spec or old.metadata.labels != new.metadata.labels:
            self._device(new)

    def _device_gone(self, device: Device, _: bool) -> None:
        self._changed(device.metadata.name)

    def _force(self, name: str) -> None:
        self.forced.add(name)
        self._changed(name)


def _substance(node: Node) -> tuple[object, ...]:
    """What of a node is looked at."""
    meta, status = node.metadata, node.status
    return meta.uid, meta.labels, meta.annotations, status.capacity, status.allocatable
