# SPDX-License-Identifier: Apache-2.0
"""Which node has room for a pod: free amounts as columns, changed by deltas.

A row is a node, a column a resource. What besides room decides (conditions, taints, selectors,
affinity) is kept by shape, that is for all pods that say the same, and only the row of a node that
changed is looked at again.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koord.api import codec
from koord.api.requests import PODS, Amounts, offered
from koord.api.tolerations import untolerated
from koord.controlplane.controllers.base import constraints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import PodSpec

_FITS, _NOT_SCHEDULABLE, _NOT_SELECTED, _TAINTED, _NO_NODE = range(5)
_REASONS = {
    _NOT_SCHEDULABLE: "node(s) were unschedulable",
    _NOT_SELECTED: "node(s) didn't match Pod's node affinity/selector",
    _TAINTED: "node(s) had untolerated taint(s)",
}
# Shapes whose verdicts are kept; a DaemonSet has one for every node.
_SHAPES = 4096
_FIRST_ROWS = 64


class FreeResources:
    """The free amounts of all nodes, and which pods took the rest."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._nodes: list[Node | None] = []
        self._names: list[str] = []
        self._spare: list[int] = []
        self._order: NDArray[np.intp] | None = None
        self._free: dict[str, NDArray[np.int64]] = {PODS: np.zeros(_FIRST_ROWS, np.int64)}
        self._offered: list[Amounts] = []
        self._shapes: OrderedDict[bytes, tuple[PodSpec, NDArray[np.int8]]] = OrderedDict()
        # By uid: where a pod is and what it takes, whether or not the node is known.
        self._pods: dict[str, tuple[str, Amounts]] = {}
        self._used: dict[str, Amounts] = {}

    def __len__(self) -> int:
        return len(self._names)

    def put_node(self, node: Node) -> None:
        """Adds a node, or takes over its new state."""
        name = node.metadata.name
        row = self._rows.get(name)
        if row is None:
            row = self._new_row(name)
        self._nodes[row] = node
        offer = offered(node)
        for resource in self._offered[row].keys() | offer.keys():
            used = self._used.get(name, {}).get(resource, 0)
            self._column(resource)[row] = offer.get(resource, 0) - used
        self._offered[row] = offer
        for spec, verdicts in self._shapes.values():
            verdicts[row] = _fit_code(spec, node)

    def remove_node(self, name: str) -> None:
        """Forgets a node; its pods stay known, should it come back."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self._names.remove(name)
        self._spare.append(row)
        self._order = None
        self._nodes[row] = None
        self._offered[row] = {}
        for column in self._free.values():
            column[row] = 0
        for _, verdicts in self._shapes.values():
            verdicts[row] = _NO_NODE

    def put_pod(self, uid: str, node: str, amounts: Amounts) -> None:
        """A pod takes room on a node, known or not; the same pod again replaces itself."""
        known = self._pods.get(uid)
        if known == (node, amounts):
            return
        self.remove_pod(uid)
        self._pods[uid] = (node, amounts)
        self._charge(node, amounts, 1)

    def remove_pod(self, uid: str) -> bool:
        """A pod takes no room any more; whether it took some."""
        known = self._pods.pop(uid, None)
        if known is not None:
            self._charge(*known, -1)
        return known is not None

    def find(self, spec: PodSpec, amounts: Amounts) -> str | None:
        """The first node by name that has room for a pod and accepts it; None for none."""
        order = self._ordered()
        if not len(order):
            return None
        mask = self._fit_codes(spec)[order] == _FITS
        for resource, asked in amounts.items():
            column = self._free.get(resource)
            if column is None:
                return None
            mask &= column[order] >= asked
        first = int(mask.argmax())
        return self._names[first] if mask[first] else None

    def explain(self, spec: PodSpec, amounts: Amounts) -> str:
        """Why :meth:`find` gives none: how many nodes fail for what."""
        order = self._ordered()
        reasons: Counter[str] = Counter()
        verdicts = self._fit_codes(spec)[order]
        for code, text in _REASONS.items():
            reasons[text] += int((verdicts == code).sum())
        accepting = verdicts == _FITS
        for resource, asked in amounts.items():
            column = self._free.get(resource)
            lacking = accepting if column is None else accepting & (column[order] < asked)
            text = "Too many pods" if resource == PODS else f"Insufficient {resource}"
            reasons[text] += int(lacking.sum())
        told = ", ".join(sorted(f"{count} {text}" for text, count in reasons.items() if count))
        head = f"0/{len(order)} nodes are available"
        return f"{head}: {told}." if told else f"{head}."

    def free(self, node: str) -> Amounts:
        """What is left on a node; negative where it is overcommitted."""
        row = self._rows[node]
        return {name: int(column[row]) for name, column in self._free.items()}

    def _new_row(self, name: str) -> int:
        row = self._spare.pop() if self._spare else len(self._nodes)
        if row == len(self._nodes):
            self._nodes.append(None)
            self._offered.append({})
        self._rows[name] = row
        insort(self._names, name)
        self._order = None
        if row >= len(self._free[PODS]):
            self._grow()
        for resource, used in self._used.get(name, {}).items():
            self._column(resource)[row] = -used
        return row

    def _grow(self) -> None:
        self._free = {
            name: np.concatenate([column, np.zeros_like(column)])
            for name, column in self._free.items()
        }
        for key, (spec, verdicts) in self._shapes.items():
            more = np.full_like(verdicts, _NO_NODE)
            self._shapes[key] = (spec, np.concatenate([verdicts, more]))

    def _column(self, resource: str) -> NDArray[np.int64]:
        column = self._free.get(resource)
        if column is None:
            column = self._free[resource] = np.zeros_like(self._free[PODS])
        return column

    def _charge(self, node: str, amounts: Amounts, sign: int) -> None:
        used = self._used.setdefault(node, {})
        row = self._rows.get(node)
        for resource, taken in amounts.items():
            used[resource] = used.get(resource, 0) + sign * taken
            if not used[resource]:
                del used[resource]
            if row is not None:
                self._column(resource)[row] -= sign * taken
        if not used:
            del self._used[node]

    def _ordered(self) -> NDArray[np.intp]:
        if self._order is None:
            self._order = np.array([self._rows[name] for name in self._names], np.intp)
        return self._order

    def _fit_codes(self, spec: PodSpec) -> NDArray[np.int8]:
        key = _shape(spec)
        known = self._shapes.get(key)
        if known is not None:
            self._shapes.move_to_end(key)
            return known[1]
        verdicts = np.full(len(self._free[PODS]), _NO_NODE, np.int8)
        for row, node in enumerate(self._nodes):
            if node is not None:
                verdicts[row] = _fit_code(spec, node)
        self._shapes[key] = (spec, verdicts)
        if len(self._shapes) > _SHAPES:
            self._shapes.popitem(last=False)
        return verdicts


def _shape(spec: PodSpec) -> bytes:
    """What of a pod decides which nodes accept it."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    parts = [spec.node_selector, required, spec.tolerations]
    return msgspec.json.encode(codec.to_document(parts), order="sorted")


def _fit_code(spec: PodSpec, node: Node) -> int:
    effects = (constraints.NO_SCHEDULE, constraints.NO_EXECUTE)
    tolerations = spec.tolerations
    if node.spec.unschedulable:
        cordon = constraints.unschedulable_taint()
        if untolerated((cordon,), tolerations, effects):
            return _NOT_SCHEDULABLE
    if not constraints.selects(spec, node):
        return _NOT_SELECTED
    if untolerated(node.spec.taints, tolerations, effects):
        return _TAINTED
    ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
    if ready is None or ready.status != "True":
        # The taint that says so comes a moment later; daemons tolerate it.
        silent = constraints.not_ready_taint()
        if untolerated((silent,), tolerations, effects):
            return _NOT_SCHEDULABLE
    return _FITS
