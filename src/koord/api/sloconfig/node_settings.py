# SPDX-License-Identifier: Apache-2.0
"""What a node itself says of its co-location: an annotation, and labels that override it.

The same fields as in colocation-config get the same treatment: shares count as 100 at most, what is
negative or malformed is not in effect, as if it were not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from koord.api import codec
from koord.api.casefold import fold_keys
from koord.api.protocol import annotation, keys, nodes
from koord.api.sloconfig.overlay import overlay
from koord.api.sloconfig.reading import colocation_problems
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.api.sloconfig.substitutes import WHOLE, Substitute, bounded
from koord.api.sloconfig.unknown import Unknown, unknown_in
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.api.kinds.node import Node

RATIO_LABELS = {
    keys.CPU_RECLAIM_RATIO: "cpu_reclaim_threshold_percent",
    keys.MEMORY_RECLAIM_RATIO: "memory_reclaim_threshold_percent",
    keys.MID_STATIC_CPU_RESERVED_RATIO: "mid_static_cpu_reserved_percent",
    keys.MID_STATIC_MEMORY_RESERVED_RATIO: "mid_static_memory_reserved_percent",
}
"""Node label to the percentage of ColocationStrategy that it overrides."""
RATIO = "a number from 0 to 1"


class AnnotationReading(NamedTuple):
    """The annotation ``colocation-strategy``.

    Args:
        strategy: what it sets; None where it is absent or not in effect.
        errors: why it is not in effect.
        substitutes: values in the place of which others are taken.
        unknown: names without effect.
    """

    strategy: ColocationStrategy | None
    errors: list[KoordError]
    substitutes: list[Substitute]
    unknown: list[Unknown]


class LabelReading(NamedTuple):
    """The ratio labels.

    Args:
        percents: by field of ColocationStrategy.
        errors: by label, why one is not in effect.
        substitutes: by label, one above 1.
    """

    percents: dict[str, int]
    errors: dict[str, KoordError]
    substitutes: dict[str, Substitute]


def read_annotation(node: Node) -> AnnotationReading:
    """What a node's annotation says; all of it, or nothing."""
    text = node.metadata.annotations.get(keys.COLOCATION_STRATEGY)
    if text is None:  # on nearly every node
        return AnnotationReading(None, [], [], [])
    where, unknown = annotation.field_of(keys.COLOCATION_STRATEGY), list[Unknown]()
    try:
        parsed = codec.parse_json(text, node.title, where)
        document: Any = codec.without_nulls({} if parsed is None else parsed, node.title, where)
        unknown = unknown_in(document, ColocationStrategy, where)
        folded = fold_keys(document, ColocationStrategy)
        written = codec.convert(folded, ColocationStrategy, node.title, where)
    except KoordError as error:
        return AnnotationReading(None, [error], [], unknown)
    strategy, substitutes = bounded(written, where)
    errors = list(colocation_problems(strategy, node.title, where))
    return AnnotationReading(None if errors else strategy, errors, substitutes, unknown)


def read_labels(node: Node) -> LabelReading:
    """What a node's ratio labels say, each by itself."""
    found = LabelReading({}, {}, {})
    for key, field in RATIO_LABELS.items():
        text = node.metadata.labels.get(key)
        if text is None:
            continue
        percent = nodes.ratio_label_percent(node, key)
        if percent is None:
            found.errors[key] = KoordError(node.title, label_field(key), text, RATIO)
            continue
        if percent > WHOLE:
            found.substitutes[key] = Substitute(label_field(key), text, RATIO, 1)
        found.percents[field] = min(percent, WHOLE)
    return found


def label_field(key: str) -> str:
    """How errors name a label."""
    return f"labels[{key}]"


def colocation(strategy: ColocationStrategy, node: Node) -> ColocationStrategy:
    """The strategy of a node: the configuration's, then its annotation's, then its labels'."""
    own = read_annotation(node).strategy
    merged = overlay(strategy, own) if own is not None else strategy
    percents: dict[str, Any] = dict(read_labels(node).percents)
    return msgspec.structs.replace(merged, **percents)
