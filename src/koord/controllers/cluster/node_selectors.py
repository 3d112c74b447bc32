# SPDX-License-Identifier: Apache-2.0
"""Node selectors over a node table: which rows satisfy a pod's nodeSelector and node affinity.

Every different value of a label is looked at once, not every node. Terms are read as kube-scheduler
reads them (component-helpers, scheduling/corev1/nodeaffinity): a term with a requirement that does
not parse matches nothing, an empty term matches nothing, terms are ORed, requirements ANDed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from koord.api import selectors
from koord.kernels.placement_board import row_bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from koord.api.kinds.constraints import (
        NodeSelector,
        NodeSelectorRequirement,
        NodeSelectorTerm,
    )
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import PodSpec
    from koord.controllers.cluster.node_labels import LabelColumn
    from koord.controllers.cluster.node_table import NodeTable

    Rows = NDArray[np.intp] | slice

NAME_FIELD = selectors.NAME_FIELD
# So many values of a requirement are compared one after the other.
_FEW = 4
_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VALUE = re.compile(rf"({_PART})?")
_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_PART}")
_LONGEST_PREFIX = 253
_LONGEST_KEY = _LONGEST_PREFIX + 1 + 63


class NodePredicate(ABC):
    """Something that holds of a node or does not."""

    @abstractmethod
    def answers(self, table: NodeTable, rows: Rows) -> NDArray[np.bool_] | bool:
        """By row of ``rows``, or what is so of all alike. Arrays are not to be changed."""

    @abstractmethod
    def bits(self, table: NodeTable) -> NDArray[np.uint64] | bool:
        """The same of all rows, as :func:`koord.kernels.placement_board.row_bits`."""

    @abstractmethod
    def node(self, node: Node) -> bool:
        """Of one node, in a table or not."""

    def rows(self, table: NodeTable, rows: Rows) -> NDArray[np.bool_]:
        """By row of ``rows``. Not to be changed."""
        found = self.answers(table, rows)
        return np.full(table.size, found)[rows] if isinstance(found, bool) else found


class LabelPredicate(NodePredicate):
    """A requirement on a label; see :func:`label_predicate`."""

    def __init__(self, key: str, operator: str, values: Iterable[str]) -> None:
        self.key = key
        self.operator = operator
        self.values = frozenset(values)
        # By number of a value in the table's column: whether it will do; the last is "absent".
        self._known: NDArray[np.bool_] | None = None
        self._of: list[str] | None = None

    def holds(self, value: str | None) -> bool:
        """Whether a value, or the lack of one, will do."""
        return selectors.holds(self.operator, self.values, value)

    def answers(self, table: NodeTable, rows: Rows) -> NDArray[np.bool_] | bool:
        """By row of ``rows``; of values that no node has ever had the same for all."""
        column = table.labels.column(self.key)
        if self.operator in (selectors.IN, selectors.NOT_IN) and len(self.values) <= _FEW:
            return self._compare(column, rows)
        known = self._known
        if known is None or self._of is not column.values or len(known) != len(column.values) + 1:
            known = self._known = self._answers(column)
            self._of = column.values
        return known[column.ids[rows]]

    def bits(self, table: NodeTable) -> NDArray[np.uint64] | bool:
        """Of all rows; of few values those of each are joined."""
        column = table.labels.column(self.key)
        if self.operator not in (selectors.IN, selectors.NOT_IN) or len(self.values) > _FEW:
            found = self.answers(table, slice(0, len(column.ids)))
            return found if isinstance(found, bool) else row_bits(found)
        joined: NDArray[np.uint64] | None = None
        for value in self.values:
            number = column.number(value)
            if number >= 0:
                its = column.bits(number)
                joined = its if joined is None else joined | its
        if joined is None:
            return self.operator == selectors.NOT_IN
        return ~joined if self.operator == selectors.NOT_IN else joined

    def _compare(self, column: LabelColumn, rows: Rows) -> NDArray[np.bool_] | bool:
        """By row, whether its value is one of few; no table of all values is made for that.

        A node without the label has a number that no value has.
        """
        numbers = [number for value in self.values if (number := column.number(value)) >= 0]
        if not numbers:
            return self.operator == selectors.NOT_IN
        found: NDArray[np.bool_]
        if isinstance(rows, slice):
            found = column.has(numbers[0])[rows]
            for number in numbers[1:]:
                found = found | column.has(number)[rows]
        else:
            ids = column.ids[rows]
            found = ids == numbers[0]
            for number in numbers[1:]:
                found |= ids == number
        return ~found if self.operator == selectors.NOT_IN else found

    def _answers(self, column: LabelColumn) -> NDArray[np.bool_]:
        """By number of a value, whether it will do; the last is "absent"."""
        if self.operator in (selectors.GREATER, selectors.LESS):
            return np.array([*map(self.holds, column.values), self.holds(None)], np.bool_)
        # Of a node's name there are as many values as nodes: only those that are named are asked.
        others = self.operator in (selectors.NOT_IN, selectors.EXISTS)
        answers = np.full(len(column.values) + 1, others)
        for value in self.values:
            number = column.number(value)
            if number >= 0:
                answers[number] = self.holds(value)
        answers[-1] = self.holds(None)
        return answers

    def node(self, node: Node) -> bool:
        """Of one node."""
        return self.holds(node.metadata.labels.get(self.key))


class NamePredicate(NodePredicate):
    """A requirement on a field; nodes have one, ``metadata.name``. All others are empty."""

    def __init__(self, key: str, value: str, equal: bool) -> None:
        self.key = key
        self.value = value
        self.equal = equal

    def answers(self, table: NodeTable, rows: Rows) -> NDArray[np.bool_] | bool:
        """By row of ``rows``; of a name that no node has, and of other fields, the same for all."""
        if self.key != NAME_FIELD:
            return (self.value == "") == self.equal
        row = table.row(self.value)
        if row is None:
            return not self.equal
        found = np.full(table.size, not self.equal)
        found[row] = self.equal
        return found[rows]

    def bits(self, table: NodeTable) -> NDArray[np.uint64] | bool:
        """Of all rows."""
        found = self.answers(table, slice(0, table.size))
        if isinstance(found, bool):
            return found
        every = np.zeros(len(table.open), np.bool_)
        every[: len(found)] = found
        return row_bits(every)

    def node(self, node: Node) -> bool:
        """Of one node."""
        value = node.metadata.name if self.key == NAME_FIELD else ""
        return (value == self.value) == self.equal


class AllOf(NodePredicate):
    """Every one of some conditions."""

    def __init__(self, conditions: Iterable[NodePredicate]) -> None:
        self.conditions = list(conditions)

    def answers(self, table: NodeTable, rows: Rows) -> NDArray[np.bool_] | bool:
        """By row of ``rows``, or of all alike."""
        found: NDArray[np.bool_] | None = None
        for condition in self.conditions:
            holds = condition.answers(table, rows)
            if holds is False:
                return False
            if not isinstance(holds, bool):
                found = holds if found is None else found & holds
        return True if found is None else found

    def bits(self, table: NodeTable) -> NDArray[np.uint64] | bool:
        """Of all rows."""
        found: NDArray[np.uint64] | None = None
        for condition in self.conditions:
            holds = condition.bits(table)
            if holds is False:
                return False
            if not isinstance(holds, bool):
                found = holds if found is None else found & holds
        return True if found is None else found

    def node(self, node: Node) -> bool:
        """Of one node."""
        return all(condition.node(node) for condition in self.conditions)


class AnyOf(NodePredicate):
    """At least one of some conditions."""

    def __init__(self, conditions: Iterable[NodePredicate]) -> None:
        self.conditions = list(conditions)

    def answers(self, table: NodeTable, rows: Rows) -> NDArray[np.bool_] | bool:
        """By row of ``rows``, or of all alike."""
        found: NDArray[np.bool_] | None = None
        for condition in self.conditions:
            holds = condition.answers(table, rows)
            if holds is True:
                return True
            if not isinstance(holds, bool):
                found = holds if found is None else found | holds
        return False if found is None else found

    def bits(self, table: NodeTable) -> NDArray[np.uint64] | bool:
        """Of all rows."""
        found: NDArray[np.uint64] | None = None
        for condition in self.conditions:
            holds = condition.bits(table)
            if holds is True:
                return True
            if not isinstance(holds, bool):
                found = holds if found is None else found | holds
        return False if found is None else found

    def node(self, node: Node) -> bool:
        """Of one node."""
        return any(condition.node(node) for condition in self.conditions)


def label_predicate(requirement: NodeSelectorRequirement) -> NodePredicate | str:
    """A requirement on a label, or what is wrong with it."""
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if len(key) > _LONGEST_KEY or not _is_label_key(key):
        return f"key: {key!r} is no label key"
    wrong = None
    for value in values:
        if not _VALUE.fullmatch(value):
            wrong = value
            break
    if operator in ("In", "NotIn"):
        if not values:
            return f"values: {operator} needs one or more"
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            return f"values: {operator} takes none"
    elif operator in ("Gt", "Lt"):
        if len(values) != 1 or selectors.integer(values[0]) is None:
            return f"values: {operator} needs one integer"
    else:
        return f"operator: {operator!r} is not known"
    if wrong is not None:
        return f"values: {wrong!r} is no label value"
    return LabelPredicate(key, operator, values)


@lru_cache(maxsize=1024)
def _is_label_key(key: str) -> bool:
    """Whether a label may have a key: of the same few that all pods' terms name."""
    return bool(_KEY.fullmatch(key)) and len(key.rpartition("/")[0]) <= _LONGEST_PREFIX


def field_predicate(requirement: NodeSelectorRequirement) -> NodePredicate | str:
    """A requirement on a field, or what is wrong with it."""
    if requirement.operator not in ("In", "NotIn"):
        return f"operator: {requirement.operator!r} is not one of In and NotIn"
    if len(requirement.values) != 1:
        return "values: a field needs exactly one"
    return NamePredicate(requirement.key, requirement.values[0], requirement.operator == "In")


def term(selector: NodeSelectorTerm) -> NodePredicate | str | None:
    """A term; None for an empty one, which matches nothing; a text for one that does not parse."""
    if not selector.match_expressions and not selector.match_fields:
        return None
    conditions: list[NodePredicate] = []
    for made in (
        *map(label_predicate, selector.match_expressions),
        *map(field_predicate, selector.match_fields),
    ):
        if isinstance(made, str):
            return made
        conditions.append(made)
    return AllOf(conditions)


def terms(selector: NodeSelector) -> AnyOf:
    """A selector; terms that are empty or do not parse match nothing."""
    made = map(term, selector.node_selector_terms)
    return AnyOf(each for each in made if each is not None and not isinstance(each, str))


def equal_labels(wanted: Mapping[str, str]) -> list[NodePredicate]:
    """The conditions of a ``nodeSelector``."""
    return [LabelPredicate(key, "In", (value,)) for key, value in wanted.items()]


def required(spec: PodSpec) -> AllOf | None:
    """What a pod requires of its node by nodeSelector and node affinity; None for nothing."""
    conditions = equal_labels(spec.node_selector)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None:
        selector = affinity.required_during_scheduling_ignored_during_execution
        if selector is not None:
            any_of = terms(selector)
            # Mostly there is one term, all of which is wanted like the rest.
            conditions += any_of.conditions if len(any_of.conditions) == 1 else [any_of]
    if len(conditions) == 1 and isinstance(conditions[0], AllOf):
        return conditions[0]
    return AllOf(conditions) if conditions else None
