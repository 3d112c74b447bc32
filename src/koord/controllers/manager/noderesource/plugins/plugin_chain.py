# SPDX-License-Identifier: Apache-2.0
"""The plugins in their order, and a node taken through all of them.

Rule: docs/reference/node-resources.md#plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.manager.noderesource.plugins.amplification import ResourceAmplification
from koord.controllers.manager.noderesource.plugins.batch_and_mid import BatchResource, MidResource
from koord.controllers.manager.noderesource.plugins.devices import (
    GPUDeviceResource,
    RDMADeviceResource,
)
from koord.controllers.manager.noderesource.plugins.normalization import CPUNormalization
from koord.controllers.manager.noderesource.plugins.plugin import CalculatedResources, DesiredNode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from koord.api.kinds.node import Node
    from koord.controllers.manager.noderesource.plugins.plugin import NodeInputs, NodeResourcePlugin

_LOG = log.get("manager.noderesource")


class PluginChain:
    """The enabled plugins.

    Args:
        enabled: their names; the order is always the same.
        count: told the plugin, ``succeeded`` or ``failed`` and the step, for metrics.
        gpu_shared: see
            :class:`koord.controllers.manager.noderesource.plugins.devices.GPUDeviceResource`.
        old_gpu_labels: likewise.
    """

    def __init__(
        self,
        enabled: Collection[str],
        count: Callable[[str, str, str], None],
        *,
        gpu_shared: bool = False,
        old_gpu_labels: bool = True,
    ) -> None:
        every: tuple[NodeResourcePlugin, ...] = (
            CPUNormalization(),
            ResourceAmplification(),
            MidResource(),
            BatchResource(),
            GPUDeviceResource(shared=gpu_shared, old_labels=old_gpu_labels),
            RDMADeviceResource(),
        )
        self._plugins = [plugin for plugin in every if plugin.name in enabled]
        self._names = frozenset(plugin.name for plugin in self._plugins)
        self._count = count
        # A mistake in an annotation is told of once, not at each report of the node.
        self._logged_errors: dict[str, dict[tuple[str, str], str]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def result(
        self, seen: NodeInputs, enabled: bool, known: CalculatedResources | None = None
    ) -> CalculatedResources:
        """What a node is to have.

        Args:
            seen: the node and all that is known of it.
            enabled: whether co-location is on, for the cluster and for this node.
            known: what plugins that are not among these have calculated; their inputs are the same.
        """
        result = (
            CalculatedResources()
            if known is None
            else CalculatedResources({}, known.annotations, known.labels)
        )
        for plugin in self._plugins:
            step = plugin.calculate if enabled else plugin.reset
            try:
                step(seen, result)
            except KoordError as error:
                self._failed(plugin.name, "calculate", seen.node, error)
            else:
                self._succeeded(plugin.name, "calculate", seen.node)
        return result

    def wanted(self, node: Node, result: CalculatedResources) -> DesiredNode:
        """What that means for the node as it is now."""
        wanted = DesiredNode()
        for plugin in self._plugins:
            try:
                plugin.prepare(node, result, wanted)
            except KoordError as error:
                self._failed(plugin.name, "prepare", node, error)
            else:
                self._succeeded(plugin.name, "prepare", node)
        return wanted

    def meta_due(self, node: Node, wanted: DesiredNode) -> bool:
        """Whether labels or annotations have to be written."""
        return any(plugin.meta_due(node, wanted) for plugin in self._plugins)

    def forget(self, name: str) -> None:
        """Forgets what was told of a node that is gone."""
        self._logged_errors.pop(name, None)

    def _succeeded(self, name: str, step: str, node: Node) -> None:
        self._count(name, "succeeded", step)
        told = self._logged_errors.get(node.metadata.name)
        if told:
            told.pop((name, step), None)

    def _failed(self, name: str, step: str, node: Node, error: KoordError) -> None:
        self._count(name, "failed", step)
        told = self._logged_errors.setdefault(node.metadata.name, {})
        if told.get((name, step)) != str(error):
            told[name, step] = str(error)
            about = log.fields(node=node.metadata.name, plugin=name, error=error)
            _LOG.warning("a plugin has nothing for a node", extra=about)
