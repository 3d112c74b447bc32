# SPDX-License-Identifier: Apache-2.0
"""slo-controller-config as a whole: sections that survive bad input, strategies by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.api import codec
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.protocol import nodes
from koord.api.sloconfig import sections
from koord.api.sloconfig.merge import MergedSection, merge_section
from koord.api.sloconfig.node_settings import colocation
from koord.api.sloconfig.reading import missing, read
from koord.api.sloconfig.sections import SECTIONS
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.node import Node


class SLOConfig(msgspec.Struct):
    """All sections, merged.

    Args:
        sections: by data key; every known section is present.
        errors: by data key, why a section is not the one in the ConfigMap but an earlier one.
        ignored: by data key, why a node strategy does not count in a section that is in force.
        stand_ins: paths in the co-location section of node strategies that are the cluster's,
            because they are not valid and never were.
    """

    sections: dict[str, MergedSection[Any]]
    errors: dict[str, KoordError]
    ignored: dict[str, KoordError] = {}
    stand_ins: frozenset[str] = frozenset()

    def strategy(self, key: str, labels: Mapping[str, str]) -> Any:
        """The strategy of a section in force on a node with these labels."""
        return self.sections[key].for_node(labels)

    def colocation(self, node: Node) -> ColocationStrategy:
        """The co-location strategy of a node: config, then its annotation, then its labels.

        An annotation or ratio that is negative or malformed is ignored, as if it were absent.
        """
        strategy: ColocationStrategy = self.strategy(sections.COLOCATION, node.metadata.labels)
        return colocation(strategy, node)

    def node_slo_spec(self, node: Node) -> NodeSLOSpec:
        """The NodeSLO of a node.

        A bandwidth annotation that is no quantity leaves the system strategy out.
        """
        labels = node.metadata.labels
        try:
            bandwidth = nodes.network_bandwidth(node)
            system = self.strategy(sections.SYSTEM, labels)
            if bandwidth is not None:
                system = msgspec.structs.replace(system, total_network_bandwidth=bandwidth)
        except KoordError:
            system = None
        return NodeSLOSpec(
            resource_used_threshold_with_be=self.strategy(sections.THRESHOLD, labels),
            resource_qos_strategy=self.strategy(sections.QOS, labels),
            cpu_burst_strategy=self.strategy(sections.BURST, labels),
            system_strategy=system,
            host_applications=self.strategy(sections.HOST_APPLICATION, labels).applications,
        )


def load(
    data: Mapping[str, str] | None,
    previous: SLOConfig | None = None,
    object_name: str = "slo-controller-config",
    *,
    zero_bandwidth: bool = False,
) -> SLOConfig:
    """The configuration that a ConfigMap's data makes; no ConfigMap makes all defaults.

    A section that does not parse, or has a value that no strategy in force may have, stays what
    it was in ``previous`` (its default without one) and is listed among the errors. Two mistakes
    leave the rest of a section in force and are listed as ignored: a node strategy whose selector
    cannot be evaluated matches no node, and an invalid one for co-location stays what that of the
    same selector was in ``previous``, or is the cluster's. Shares above 100 count as 100.
    :func:`koord.api.sloconfig.problems.problems` tells of all of it.

    Args:
        data: the ConfigMap's data, None if there is none.
        previous: the configuration so far.
        object_name: what errors call the ConfigMap.
        zero_bandwidth: see :func:`koord.api.sloconfig.merge.merge_section`.
    """
    merged: dict[str, MergedSection[Any]] = {}
    errors: dict[str, KoordError] = {}
    ignored: dict[str, KoordError] = {}
    stand_ins: set[str] = set()
    for key, section in SECTIONS.items():
        if data is None or missing(data, key):
            merged[key] = merge_section(section, None)
            continue
        reading = read(section, data[key], object_name, zero_bandwidth=zero_bandwidth)
        if reading.merged is None:
            errors[key] = reading.errors[0]
            merged[key] = previous.sections[key] if previous else merge_section(section, None)
            if previous and key == sections.COLOCATION:
                stand_ins |= previous.stand_ins
            continue
        merged[key] = reading.merged
        for wrong in (*reading.node_errors.values(), *reading.selector_errors):
            ignored.setdefault(key, wrong)
        if reading.node_errors:
            stand_ins |= _keep_last_good(reading.merged, set(reading.node_errors), previous)
    return SLOConfig(merged, errors, ignored, frozenset(stand_ins))


def _keep_last_good(
    merged: MergedSection[Any], wrong: set[str], previous: SLOConfig | None
) -> set[str]:
    """Gives node strategies that are not valid the last good ones of the same selectors.

    Args:
        merged: the co-location section; changed in place.
        wrong: the paths of those strategies, which are the cluster's so far.
        previous: the configuration so far.

    Returns:
        The paths of those that had none.
    """
    earlier = previous.sections[sections.COLOCATION].nodes if previous else []
    stand_ins = previous.stand_ins if previous else frozenset()
    last = {codec.to_json(n.selector): n for n in reversed(earlier) if n.path not in stand_ins}
    none = set()
    for node in merged.nodes:
        if node.path not in wrong:
            continue
        found = last.get(codec.to_json(node.selector))
        if found is None:
            none.add(node.path)
        else:
            node.strategy = found.strategy
    return none
