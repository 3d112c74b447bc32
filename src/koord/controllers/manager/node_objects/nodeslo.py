# SPDX-License-Identifier: Apache-2.0
"""The controller ``nodeslo``: a NodeSLO for each node, with how its agent is to protect services.

Rule: docs/reference/nodeslo.md#nodeslo. A section that nobody could read since the start has no
last good one here; what it came to before stands in the NodeSLOs themselves, and stays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.kinds.nodeslo import NodeSLO, NodeSLOSpec
from koord.api.protocol import keys
from koord.api.sloconfig import sections
from koord.controllers.manager.node_objects.object_controller import NodeObjectController
from koord.controllers.manager.sloconfig.node_config_cache import NodeConfigCache

if TYPE_CHECKING:
    from koord.api.kinds.node import Node
    from koord.api.sloconfig.config import SLOConfig
    from koord.controllers.manager.dependencies import ControllerDependencies

SECTIONS = {
    sections.THRESHOLD: "resource_used_threshold_with_be",
    sections.QOS: "resource_qos_strategy",
    sections.BURST: "cpu_burst_strategy",
    sections.SYSTEM: "system_strategy",
    sections.HOST_APPLICATION: "host_applications",
}
"""The sections that a NodeSLO is made of, and the field of its spec that each becomes."""


class NodeSLOs:
    """The controller.

    Args:
        around: its world; ``around.extenders`` contribute extensions.
    """

    def __init__(self, dependencies: ControllerDependencies) -> None:
        self._config = dependencies.config
        self._extenders = dependencies.extenders
        self._merged: SLOConfig | None = None
        self._unread: tuple[str, ...] = ()
        self._parses = dependencies.metrics.counted(
            "slo_controller_nodeslo_spec_parse_count", "Specs of NodeSLOs worked out."
        )
        self._specs = NodeConfigCache(SECTIONS, self._make, annotations=(keys.NETWORK_BANDWIDTH,))
        counts = dependencies.metrics.counted(
            "slo_controller_nodeslo_reconcile_count", "NodeSLOs created, updated, deleted."
        )
        self._kept = NodeObjectController(
            "nodeslo", NodeSLO, dependencies, _is_touched, self.wanted, self._is_known, counts
        )

    async def run(self) -> None:
        """Works until cancelled."""
        await self._kept.run()

    def wanted(self, node: Node, published: NodeSLO | None) -> NodeSLOSpec | None:
        """The spec of a node's NodeSLO; None before the configuration was read.

        Fields of sections that could not be read since the start are as they stand in the NodeSLO
        that is there, and at their defaults where there is none.
        """
        config = self._config.config
        if config is None:
            return None
        if config is not self._merged:
            self._merged = config
            self._unread = tuple(
                field for key, field in SECTIONS.items() if not self._config.has(key)
            )
            self._extenders.merge(self._config.data)
        spec = self._specs.of(config, node)
        old = published.spec.extensions if published is not None else {}
        changes: dict[str, Any] = {}
        if old or len(self._extenders):
            changes["extensions"] = self._extenders.extensions(node, old)
        if published is not None and self._unread:
            changes |= {field: getattr(published.spec, field) for field in self._unread}
        return msgspec.structs.replace(spec, **changes) if changes else spec

    def _is_known(self) -> bool:
        """Sections that are wrong leave defaults: it is enough that one has looked."""
        return self._config.config is not None

    def _make(self, config: SLOConfig, node: Node) -> NodeSLOSpec:
        spec = config.node_slo_spec(node)
        if spec.system_strategy is None:
            self._parses.failed("bandwidth")
        else:
            self._parses.succeeded("strategies")
        return spec


def _is_touched(changed: frozenset[str]) -> bool:
    # Sections that are not koord's are an extender's.
    return any(key in SECTIONS or key not in sections.SECTIONS for key in changed)
