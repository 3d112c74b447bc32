# SPDX-License-Identifier: Apache-2.0
"""Validation of a whole slo-controller-config, as an admission check or a person's linter."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from koord.api import selectors
from koord.api.sloconfig import sections
from koord.api.sloconfig.bandwidth import bandwidth_problems
from koord.api.sloconfig.merge import MergedSection, merge_section, selector_problem
from koord.api.sloconfig.rules import BOUNDS, Bounds, problems
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from koord.api.sloconfig.sections import SectionConfig

MOST_STRATEGIES = 500
"""Of one section: what one request costs grows with the square of their number."""
DEFAULT_NAME = f"ConfigMap {sections.CONFIG_MAP_NAMESPACE}/{sections.CONFIG_MAP_NAME}"


def validate(
    data: Mapping[str, str],
    object_name: str = DEFAULT_NAME,
    *,
    need_names: bool = False,
    only: Collection[str] = tuple(sections.SECTIONS),
) -> list[KoordError]:
    """Everything that is wrong with the data of a ConfigMap; empty if nothing is.

    Args:
        data: the ConfigMap's data. Keys that are no section of koord's are ignored.
        object_name: what errors call the ConfigMap.
        need_names: whether node strategies must have names that differ.
        only: the sections to tell of; others are still read for what these have to go with.
    """
    found: list[KoordError] = []
    merged: dict[str, MergedSection[Any]] = {}
    for key, section in sections.SECTIONS.items():
        if not data.get(key):
            continue
        try:
            config = sections.parse_section(section, data[key], object_name)
        except KoordError as error:
            found += [error] if key in only else []
            continue
        merged[key] = merge_section(section, config)
        if key not in only:
            continue
        found += _selector_problems(key, config, object_name)
        if need_names:
            found += _name_problems(key, config, object_name)
        found += value_problems(key, merged[key], object_name)
    if sections.QOS in merged and sections.QOS in only:
        found += _network_problems(merged, object_name)
    return found


def _path(key: str, level: str) -> str:
    return f"data.{key}.{level}".rstrip(".")


def _selector_problems(
    key: str, config: SectionConfig[Any], object_name: str
) -> Iterator[KoordError]:
    usable = []
    for node in config.nodes:
        where = _path(key, f"{node.path}.nodeSelector")
        if node.selector is None or selectors.is_empty(node.selector):
            yield KoordError(object_name, where, node.selector, "at least one condition")
            continue
        if (wrong := selector_problem(node, object_name, where)) is not None:
            yield wrong
            continue
        usable.append((node, node.selector))
    if len(usable) > MOST_STRATEGIES:
        where = _path(key, config.nodes[0].path.partition("[")[0])
        expected = f"at most {MOST_STRATEGIES} strategies, each of which is held against all others"
        yield KoordError(object_name, where, f"{len(usable)} strategies", expected)
        return
    for (first, one), (second, other) in combinations(usable, 2):
        if selectors.can_overlap((one, other)):
            where = _path(key, f"{second.path}.nodeSelector")
            got = second.name or second.path
            expected = f"a selector that cannot match a node of {first.name or first.path} as well"
            yield KoordError(object_name, where, got, expected)


def _name_problems(key: str, config: SectionConfig[Any], object_name: str) -> Iterator[KoordError]:
    seen: set[str] = set()
    for node in config.nodes:
        if not node.name or node.name in seen:
            where = _path(key, f"{node.path}.name")
            yield KoordError(object_name, where, node.name, "a name, used once")
        seen.add(node.name)


def value_problems(
    key: str,
    merged: MergedSection[Any],
    object_name: str,
    table: Mapping[type, Mapping[str, Bounds]] = BOUNDS,
) -> Iterator[KoordError]:
    """What is wrong with the values of a section, its cluster level first.

    Args:
        key: the section's.
        merged: both levels.
        object_name: of the ConfigMap, for errors.
        table: the bounds to apply.
    """
    cluster = list(problems(merged.cluster, object_name, _path(key, merged.cluster_path), table))
    yield from cluster
    # What a node strategy inherits has been reported once already.
    inherited = {(e.field.rpartition(".")[2], repr(e.value)) for e in cluster}
    for node in merged.nodes:
        for error in problems(node.strategy, object_name, _path(key, node.path), table):
            if (error.field.rpartition(".")[2], repr(error.value)) not in inherited:
                yield error


def _network_problems(
    merged: Mapping[str, MergedSection[Any]], object_name: str
) -> Iterator[KoordError]:
    qos = merged[sections.QOS]
    system = merged.get(sections.SYSTEM)
    if system is None:
        system = merge_section(sections.SECTIONS[sections.SYSTEM], None)
    where = _path(sections.QOS, qos.cluster_path)
    yield from bandwidth_problems(qos.cluster, system.cluster, object_name, where)
    for node in qos.nodes:
        # Nodes of the same selector are the same nodes; of others only the cluster's are known.
        same = (s.strategy for s in system.nodes if s.selector == node.selector)
        strategy = next(same, system.cluster)
        where = _path(sections.QOS, node.path)
        yield from bandwidth_problems(node.strategy, strategy, object_name, where)
