# SPDX-License-Identifier: Apache-2.0
"""slo-controller-config as a whole: sections that survive bad input, strategies by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.protocol import annotation, keys, nodes
from koord.api.sloconfig import sections
from koord.api.sloconfig.checks import value_problems
from koord.api.sloconfig.merge import MergedSection, merge_section, selector_problem
from koord.api.sloconfig.overlay import overlay
from koord.api.sloconfig.rules import IN_FORCE, problems
from koord.api.sloconfig.sections import SECTIONS, parse_section
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.kinds.node import Node

# Node label to the percentage of ColocationStrategy that it overrides.
_RATIO_LABELS = {
    keys.CPU_RECLAIM_RATIO: "cpu_reclaim_threshold_percent",
    keys.MEMORY_RECLAIM_RATIO: "memory_reclaim_threshold_percent",
    keys.MID_STATIC_CPU_RESERVED_RATIO: "mid_static_cpu_reserved_percent",
    keys.MID_STATIC_MEMORY_RESERVED_RATIO: "mid_static_memory_reserved_percent",
}


class SLOConfig(msgspec.Struct):
    """All sections, merged.

    Args:
        sections: by data key; every known section is present.
        errors: by data key, why a section is not the one in the ConfigMap but an earlier one.
        ignored: by data key, why a node strategy does not count in a section that is in force.
    """

    sections: dict[str, MergedSection[Any]]
    errors: dict[str, KoordError]
    ignored: dict[str, KoordError] = {}

    def strategy(self, key: str, labels: Mapping[str, str]) -> Any:
        """The strategy of a section in force on a node with these labels."""
        return self.sections[key].for_node(labels)

    def colocation(self, node: Node) -> ColocationStrategy:
        """The co-location strategy of a node: config, then its annotation, then its labels.

        A malformed annotation or ratio is ignored, as if it were absent.
        """
        strategy: ColocationStrategy = self.strategy(sections.COLOCATION, node.metadata.labels)
        try:
            own = annotation.read(node, keys.COLOCATION_STRATEGY, ColocationStrategy)
        except KoordError:
            own = None
        ratios = {
            field: percent
            for key, field in _RATIO_LABELS.items()
            if (percent := nodes.ratio_label_percent(node, key)) is not None
        }
        merged = overlay(strategy, own) if own is not None else strategy
        return msgspec.structs.replace(merged, **ratios)

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
    cannot be evaluated matches no node, and an invalid one for co-location becomes the cluster's.

    Args:
        data: the ConfigMap's data, None if there is none.
        previous: the configuration so far.
        object_name: what errors call the ConfigMap.
        zero_bandwidth: see :func:`koord.api.sloconfig.merge.merge_section`.
    """
    merged: dict[str, MergedSection[Any]] = {}
    errors: dict[str, KoordError] = {}
    ignored: dict[str, KoordError] = {}
    for key, section in SECTIONS.items():
        text = (data or {}).get(key)
        # Only the co-location section takes empty text for a missing one; elsewhere it is bad JSON.
        missing = text is None or (key == sections.COLOCATION and not text)
        try:
            config = None if missing else parse_section(section, text or "", object_name)
            merged[key] = merge_section(section, config, zero_bandwidth=zero_bandwidth)
            for error in _settle(key, merged[key], object_name):
                ignored.setdefault(key, error)
        except KoordError as error:
            errors[key] = error
            kept = previous.sections[key] if previous else merge_section(section, None)
            merged[key] = kept
    return SLOConfig(merged, errors, ignored)


def _settle(key: str, merged: MergedSection[Any], object_name: str) -> list[KoordError]:
    """Refuses a section that may not be in force; what does not count in one that may."""
    if key == sections.COLOCATION:
        found = _settle_colocation(merged, object_name)
    else:
        found = []
        for error in value_problems(key, merged, object_name, IN_FORCE):
            raise error
    for node in merged.nodes:
        field = f"data.{key}.{node.path}.nodeSelector"
        if (wrong := selector_problem(node, object_name, field)) is not None:
            found.append(wrong)
    return found


def _settle_colocation(merged: MergedSection[Any], object_name: str) -> list[KoordError]:
    """Refuses an invalid cluster strategy; an invalid node strategy becomes the cluster's."""
    for error in colocation_problems(merged.cluster, object_name):
        raise error
    found = []
    for node in merged.nodes:
        wrong = next(colocation_problems(node.strategy, object_name, node.path), None)
        if wrong is not None:
            node.strategy = merged.cluster
            found.append(wrong)
    return found


def colocation_problems(
    strategy: ColocationStrategy, object_name: str, path: str = ""
) -> Iterator[KoordError]:
    """What keeps a merged co-location strategy from being in force; nothing if it may be.

    Args:
        strategy: of the cluster or of a node.
        object_name: where it was found, for errors.
        path: where in the section it stands.
    """
    where = f"data.{sections.COLOCATION}.{path}".rstrip(".")
    yield from problems(strategy, object_name, where, IN_FORCE)
    if strategy.metric_memory_collect_policy == "":
        field = f"{where}.metricMemoryCollectPolicy"
        yield KoordError(object_name, field, "", "the name of a policy")
