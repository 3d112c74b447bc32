# SPDX-License-Identifier: Apache-2.0
"""CPUNormalization: how fast a node's CPUs are, as an annotation.

Rule: docs/reference/node-resources.md#cpu-normalization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys, nodes
from koord.api.protocol.topology import cpu_basic_info
from koord.api.sloconfig import sections
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from koord.api.kinds.node import Node
    from koord.api.sloconfig.strategies import CPUNormalizationStrategy
    from koord.controllers.manager.noderesource.plugins.plugin import (
        CalculatedResources,
        DesiredNode,
        NodeInputs,
    )

LEAST, MOST = 1.0, nodes.MOST_CPU_RATIO


class CPUNormalization:
    """Has to stand before the plugins that read the ratio."""

    name = "CPUNormalization"

    def calculate(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds the ratio of the node's CPU model.

        Raises:
            KoordError: there is none; the annotation stays what it is.
        """
        result.annotations[keys.CPU_NORMALIZATION_RATIO] = nodes.ratio_text(_ratio(seen))

    def reset(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Nothing: the annotation stays."""

    def prepare(self, node: Node, result: CalculatedResources, wanted: DesiredNode) -> None:
        """The annotation, where there is a result."""
        text = result.annotations.get(keys.CPU_NORMALIZATION_RATIO)
        if text is not None:
            wanted.annotations[keys.CPU_NORMALIZATION_RATIO] = text

    def meta_due(self, node: Node, wanted: DesiredNode) -> bool:
        """Whether the ratios differ by more than their two decimals may."""
        text = wanted.annotations.get(keys.CPU_NORMALIZATION_RATIO)
        if text is None:
            return False
        try:
            old = nodes.cpu_normalization_ratio(node)
        except KoordError:
            return True
        return old == nodes.NO_RATIO or nodes.ratios_differ(old, float(text))


def _ratio(seen: NodeInputs) -> float:
    node = seen.node
    seen.need(sections.NORMALIZATION)
    strategy: CPUNormalizationStrategy = seen.config.strategy(
        sections.NORMALIZATION, node.metadata.labels
    )
    enabled = nodes.cpu_normalization_enabled(node)
    if not (strategy.enable if enabled is None else enabled):
        return 1.0
    ratio = _of_model(seen, strategy)
    if not LEAST <= ratio <= MOST:
        expected = f"a ratio from {LEAST:g} to {MOST:g}"
        raise KoordError(node.title, sections.NORMALIZATION, ratio, expected)
    return ratio


def _of_model(seen: NodeInputs, strategy: CPUNormalizationStrategy) -> float:
    topology = seen.topology
    info = cpu_basic_info(topology) if topology is not None else None
    if info is None:
        where = f"NodeResourceTopology {seen.node.metadata.name}"
        expected = "the agent's report of the CPU model"
        raise KoordError(where, keys.CPU_BASIC_INFO, None, expected, Code.NOT_FOUND)
    model = strategy.ratio_model.get(info.cpu_model)
    ratio = (
        model.ratio(hyper_thread=info.hyper_thread_enabled, turbo=info.turbo_enabled)
        if model is not None
        else None
    )
    ratio = strategy.default_ratio if ratio is None else ratio
    if ratio is None:
        expected = "a model of ratioModel, or a defaultRatio"
        raise KoordError(seen.node.title, sections.NORMALIZATION, info.cpu_model, expected)
    return ratio
