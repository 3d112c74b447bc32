# SPDX-License-Identifier: Apache-2.0
"""A section of slo-controller-config as it is taken: what comes of it, what is wrong with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.sloconfig import sections
from koord.api.sloconfig.checks import value_problems
from koord.api.sloconfig.merge import MergedSection, merge_section, selector_problem
from koord.api.sloconfig.rules import IN_FORCE, PAIRS, problems
from koord.api.sloconfig.substitutes import Substitute, bounded
from koord.api.sloconfig.unknown import Unknown, unknown_fields
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.sloconfig.sections import Section, SectionConfig
    from koord.api.sloconfig.strategies import ColocationStrategy

_MOST_MISFITS = 20
"""Values of a wrong type that are told of in one section."""
_PATH_NAMES = re.compile(r"[^.\[\]]+").findall
# Of two values that are compared, one is not judged where the other is of a wrong type.
_PARTNERS = {greater: lesser for pairs in PAIRS.values() for lesser, greater in pairs}


class Reading(NamedTuple):
    """A section.

    Args:
        merged: both levels, as they may be in force; None where the section may not. A node
            strategy that is not valid is the cluster's.
        errors: why the section may not be in force; empty where it may.
        selector_errors: selectors that are absent or cannot be evaluated: they match no node.
        node_errors: by path in the section, why a node strategy is not the one that is written.
        substitutes: values in the place of which others are taken.
        unknown: names without effect.
    """

    merged: MergedSection[Any] | None
    errors: list[KoordError]
    selector_errors: list[KoordError]
    node_errors: dict[str, KoordError]
    substitutes: list[Substitute]
    unknown: list[Unknown]


def missing(data: Mapping[str, str] | None, key: str) -> bool:
    """Whether a section is absent, so that its defaults hold."""
    text = (data or {}).get(key)
    # Only the co-location section takes empty text for a missing one; elsewhere it is bad JSON.
    return text is None or (key == sections.COLOCATION and not text)


def read(section: Section, text: str, object_name: str, *, zero_bandwidth: bool = False) -> Reading:
    """Reads a section that is there.

    Args:
        section: which.
        text: its JSON.
        object_name: of the ConfigMap, for errors.
        zero_bandwidth: see :func:`koord.api.sloconfig.merge.merge_section`.
    """
    try:
        top = sections.document(section, text, object_name)
    except KoordError as error:
        return Reading(None, [error], [], {}, [], [])
    unknown = unknown_fields(section, top)
    written, misfits = _typed(section, top, object_name)
    if written is None:
        return Reading(None, misfits, [], {}, [], unknown)
    substitutes = bound(section, written)
    merged = merge_section(section, written, zero_bandwidth=zero_bandwidth)
    wrong, node_errors = _value_errors(section.key, merged, object_name)
    unjudged = {name for each in misfits for name in (_last(each), _PARTNERS.get(_last(each)))}
    errors = [*misfits, *(each for each in wrong if _last(each) not in unjudged)]
    selector_errors = list(_selector_errors(section.key, merged, object_name))
    return Reading(
        None if errors else merged, errors, selector_errors, node_errors, substitutes, unknown
    )


def _typed(
    section: Section, top: dict[str, Any], object_name: str
) -> tuple[SectionConfig[Any] | None, list[KoordError]]:
    """The section without values of a wrong type, and what is wrong with these; None where nothing
    can be said of the rest.
    """
    errors: list[KoordError] = []
    while len(errors) < _MOST_MISFITS:
        try:
            return sections.typed(section, top, object_name), errors
        except KoordError as error:
            errors.append(error.copy())
            if not _removed(top, error.field.removeprefix(f"data.{section.key}.")):
                break
    return None, errors


def _removed(top: dict[str, Any], path: str) -> bool:
    """Whether a field could be taken out; items of lists could not, for the others' places."""
    names = _PATH_NAMES(path)
    part: Any = top
    for name in names[:-1]:
        key = _key(part, name)
        if key is None:
            return False
        part = part[key]
    last = _key(part, names[-1]) if names else None
    if not isinstance(part, dict) or last is None:
        return False
    del part[last]
    return True


def _key(part: Any, name: str) -> Any:
    """How a name of a path is spelled in a part of a document; None where it is not there."""
    if isinstance(part, list):
        return int(name) if name.isdecimal() and int(name) < len(part) else None
    if not isinstance(part, dict):
        return None
    return next((key for key in part if key.casefold() == name.casefold()), None)


def _last(error: KoordError) -> str:
    return error.field.rpartition(".")[2]


def bound(section: Section, written: SectionConfig[Any]) -> list[Substitute]:
    """Puts what is taken in its place, see :func:`koord.api.sloconfig.substitutes.bounded`.

    Args:
        section: which.
        written: its levels before they are merged, so that each value is found where it
            stands; changed in place.
    """
    where = f"data.{section.key}"
    written.cluster, found = bounded(written.cluster, f"{where}.{written.cluster_path}".rstrip("."))
    for node in written.nodes:
        node.strategy, more = bounded(node.strategy, f"{where}.{node.path}")
        found += more
    return found


def colocation_problems(
    strategy: ColocationStrategy, object_name: str, where: str
) -> Iterator[KoordError]:
    """What keeps a co-location strategy from being in force; nothing if it may be.

    Args:
        strategy: of the cluster, of a node, or what a node's annotation sets.
        object_name: where it was found, for errors.
        where: the path at which it stands.
    """
    yield from problems(strategy, object_name, where, IN_FORCE)
    if strategy.metric_memory_collect_policy == "":
        field = f"{where}.metricMemoryCollectPolicy"
        yield KoordError(object_name, field, "", "the name of a policy")


def _selector_errors(
    key: str, merged: MergedSection[Any], object_name: str
) -> Iterator[KoordError]:
    for node in merged.nodes:
        field = f"data.{key}.{node.path}.nodeSelector"
        if node.selector is None:
            yield KoordError(object_name, field, None, "a label selector")
        elif (wrong := selector_problem(node, object_name, field)) is not None:
            yield wrong


def _value_errors(
    key: str, merged: MergedSection[Any], object_name: str
) -> tuple[list[KoordError], dict[str, KoordError]]:
    """What keeps the section from being in force, and what only one of its node strategies."""
    if key != sections.COLOCATION:
        return list(value_problems(key, merged, object_name, IN_FORCE)), {}
    where = f"data.{key}"
    errors = list(colocation_problems(merged.cluster, object_name, where))
    node_errors = {}
    for node in [] if errors else merged.nodes:
        path = f"{where}.{node.path}"
        wrong = next(colocation_problems(node.strategy, object_name, path), None)
        if wrong is not None:
            node.strategy = merged.cluster
            node_errors[node.path] = wrong
    return errors, node_errors
