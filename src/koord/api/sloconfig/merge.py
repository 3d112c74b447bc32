# SPDX-License-Identifier: Apache-2.0
"""Sections with defaults merged in, and the strategy that is in force on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from koord.api import selectors
from koord.api.kinds.slo_strategies import HostApplications, SystemStrategy
from koord.api.sloconfig.defaults import default_strategy
from koord.api.sloconfig.overlay import overlay
from koord.api.sloconfig.sections import NodeStrategy, Section, SectionConfig
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T", bound=msgspec.Struct)


class MergedSection(SectionConfig[T], Generic[T]):
    """A section whose strategies are complete: each is what would be in force by itself."""

    def match(self, labels: Mapping[str, str]) -> NodeStrategy[T] | None:
        """The first node strategy whose selector matches a node's labels.

        Selectors that cannot be evaluated are skipped.
        """
        for node in self.nodes:
            if (
                node.selector is not None
                and selector_problem(node) is None
                and selectors.matches(node.selector, labels)
            ):
                return node
        return None

    def for_node(self, labels: Mapping[str, str]) -> T:
        """The strategy in force on a node with these labels."""
        node = self.match(labels)
        return node.strategy if node is not None else self.cluster


def merge_section(
    section: Section, config: SectionConfig[Any] | None, *, zero_bandwidth: bool = False
) -> MergedSection[Any]:
    """The cluster level laid over the defaults, each node level laid over the result.

    Args:
        section: which.
        config: the levels as written; None for a section that is missing.
        zero_bandwidth: whether a node level of system-config without ``totalNetworkBandwidth``
            sets it to 0, as Koordinator has it.
    """
    default = default_strategy(section.key)
    if config is None:
        return MergedSection(default, [], section.cluster_field)
    cluster = overlay(default, config.cluster)
    nodes = [
        NodeStrategy(
            node.name, node.selector, _merged(cluster, node.strategy, zero_bandwidth), node.path
        )
        for node in config.nodes
    ]
    return MergedSection(cluster, nodes, config.cluster_path)


def _merged(cluster: Any, strategy: Any, zero_bandwidth: bool) -> Any:
    if isinstance(strategy, HostApplications):
        # A node's applications are its own: an empty list says that there are none.
        return strategy
    merged = overlay(cluster, strategy)
    if zero_bandwidth and isinstance(merged, SystemStrategy):
        sets_any = strategy != SystemStrategy()
        if sets_any and strategy.total_network_bandwidth is None:
            merged.total_network_bandwidth = Quantity()
    return merged


def selector_problem(
    node: NodeStrategy[Any], object_name: str = "", field: str = ""
) -> KoordError | None:
    """Why a node strategy's selector cannot be evaluated; None if it can, or if there is none.

    Args:
        node: one of a section's.
        object_name: of the ConfigMap, for the error.
        field: where the selector stands, for the error.
    """
    if node.selector is not None:
        try:
            selectors.check(node.selector, object_name, field)
        except KoordError as error:
            return error
    return None
