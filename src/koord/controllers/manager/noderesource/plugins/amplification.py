# SPDX-License-Identifier: Apache-2.0
"""ResourceAmplification: by how much a node offers more than it has.

Rule: docs/reference/node-resources.md#resource-amplification. The manager says so in an
annotation; the node webhook applies it to the status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys, nodes
from koord.api.protocol.resources import CPU
from koord.api.sloconfig import sections
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.api.kinds.node import Node
    from koord.api.sloconfig.strategies import ResourceAmplificationStrategy
    from koord.controllers.manager.noderesource.plugins.plugin import (
        CalculatedResources,
        DesiredNode,
        NodeInputs,
    )


class ResourceAmplification:
    """Multiplies the configured ratios with the normalization of the node's CPUs."""

    name = "ResourceAmplification"

    def calculate(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds the ratios; none where nothing is amplified.

        Raises:
            KoordError: a ratio is below 1, or the node's normalization is no ratio. Then nothing
                is amplified.
        """
        ratios = _ratios(seen, result)
        if ratios:
            result.annotations[keys.RESOURCE_AMPLIFICATION_RATIO] = nodes.ratios_text(ratios)

    def reset(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds nothing, which takes the annotation away."""

    def prepare(self, node: Node, result: CalculatedResources, wanted: DesiredNode) -> None:
        """The annotation, or its absence."""
        text = result.annotations.get(keys.RESOURCE_AMPLIFICATION_RATIO)
        wanted.annotations[keys.RESOURCE_AMPLIFICATION_RATIO] = text

    def meta_due(self, node: Node, wanted: DesiredNode) -> bool:
        """Whether the texts differ; none and an empty one do not."""
        old = node.metadata.annotations.get(keys.RESOURCE_AMPLIFICATION_RATIO)
        return (old or None) != wanted.annotations[keys.RESOURCE_AMPLIFICATION_RATIO]


def _ratios(seen: NodeInputs, result: CalculatedResources) -> dict[str, float]:
    node = seen.node
    seen.need(sections.AMPLIFICATION)
    strategy: ResourceAmplificationStrategy = seen.config.strategy(
        sections.AMPLIFICATION, node.metadata.labels
    )
    ratios = dict(strategy.resource_amplification_ratio) if strategy.enable else {}
    # What is written now counts, not what it replaces: else each change would take two writes.
    text = result.annotations.get(keys.CPU_NORMALIZATION_RATIO)
    speed = float(text) if text is not None else nodes.cpu_normalization_ratio(node)
    cpu = ratios.get(CPU, 0.0)
    final = (cpu if cpu > 0 else 1.0) * (1.0 if speed == nodes.NO_RATIO else speed)
    if final > 1:
        ratios[CPU] = final
    for name, ratio in ratios.items():
        if ratio < 1:
            field = f"{sections.AMPLIFICATION}.resourceAmplificationRatio.{name}"
            raise KoordError(node.title, field, ratio, "a ratio of at least 1")
    return ratios
