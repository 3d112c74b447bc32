# SPDX-License-Identifier: Apache-2.0
"""Which nodes reach a volume: node selectors, topologies, label selectors over the node table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.kinds.constraints import NodeSelectorRequirement
from koord.controllers.cluster import node_selectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.constraints import NodeSelector
    from koord.api.kinds.meta import LabelSelector
    from koord.api.kinds.storage import PersistentVolume, TopologySelectorTerm
    from koord.controllers.cluster.node_table import NodeTable

    Mask = NDArray[np.bool_]


def rows_of_volume(table: NodeTable, volume: PersistentVolume) -> Mask:
    """By row: whether the node reaches a volume."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return np.ones(table.size, np.bool_)
    return _rows_of_node_selector(table, affinity.required)


def rows_of_local_volume(table: NodeTable, volume: PersistentVolume) -> NDArray[np.intp] | None:
    """The rows of a volume that belongs to a few nodes, such as a local disk; else None."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    terms = affinity.required.node_selector_terms
    if len(terms) != 1 or terms[0].match_fields:
        return None
    return _few(table, terms[0].match_expressions)


def _rows_of_node_selector(table: NodeTable, selector: NodeSelector) -> Mask:
    """By row: whether a node selector takes the node."""
    found = np.zeros(table.size, np.bool_)
    for each in selector.node_selector_terms:
        rows = _few(table, each.match_expressions) if not each.match_fields else None
        if rows is not None:
            found[rows] = True
            continue
        term = node_selectors.term(each)
        if term is not None and not isinstance(term, str):
            found |= term.rows(table, slice(0, table.size))
    return found


def rows_of_topologies(table: NodeTable, terms: Sequence[TopologySelectorTerm]) -> Mask:
    """By row: whether some term takes the node; all nodes where there are none."""
    if not terms:
        return np.ones(table.size, np.bool_)
    found = np.zeros(table.size, np.bool_)
    for term in terms:
        if not term.match_label_expressions:
            continue
        mask = np.ones(table.size, np.bool_)
        for requirement in term.match_label_expressions:
            mask &= node_selectors.LabelPredicate(requirement.key, "In", requirement.values).rows(
                table, slice(0, table.size)
            )
        found |= mask
    return found


def rows_of_label_selector(table: NodeTable, selector: LabelSelector | None) -> Mask:
    """By row: whether a label selector takes the node; none where it is absent or malformed."""
    if selector is None:
        return np.zeros(table.size, np.bool_)
    mask = np.ones(table.size, np.bool_)
    everywhere = slice(0, table.size)
    for condition in node_selectors.equal_labels(selector.match_labels):
        mask &= condition.rows(table, everywhere)
    for each in selector.match_expressions:
        requirement = NodeSelectorRequirement(each.key, each.operator, each.values)
        made = node_selectors.label_predicate(requirement)
        if isinstance(made, str) or each.operator in ("Gt", "Lt"):
            return np.zeros(table.size, np.bool_)
        mask &= made.rows(table, everywhere)
    return mask


def _few(
    table: NodeTable, requirements: Sequence[NodeSelectorRequirement]
) -> NDArray[np.intp] | None:
    """The rows of a term that is one label's few values, such as a host's name; else None."""
    if len(requirements) != 1 or requirements[0].operator != "In":
        return None
    key, values = requirements[0].key, requirements[0].values
    if not values or len(values) > 4:
        return None
    if isinstance(node_selectors.label_predicate(requirements[0]), str):
        return None
    column = table.labels.column(key)
    return np.concatenate(
        [column.rows(column.number(v)) for v in values if column.number(v) >= 0]
        or [np.zeros(0, np.intp)]
    )
