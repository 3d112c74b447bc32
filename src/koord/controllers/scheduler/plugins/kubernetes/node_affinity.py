# SPDX-License-Identifier: Apache-2.0
"""NodeAffinity: the nodes that a pod must, or would rather, run on.

Rule: docs/reference/stock-plugins.md#nodeaffinity. A required term that does not parse matches
nothing; a preferred one makes the attempt fail, as in kube-scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from koord.base.errors import KoordError
from koord.controllers.cluster import node_selectors
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.config.args_kube_scheduler import NodeAffinityArgs
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.queue.events import NODE, Action, ClusterEvent, HintedEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.constraints import NodeSelector, PreferredSchedulingTerm
    from koord.api.kinds.node import Node
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.kernels.placement_board import RowBits

REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"
# Kubernetes' validation of nodeAffinity: weights are 1 to 100.
_MOST_WEIGHT = 100

WeightedPredicate = tuple[int, node_selectors.NodePredicate]


class NodeAffinityRequest(NamedTuple):
    """A shape's node affinity, worked out.

    Attributes:
        required: None for nothing.
        names: the only nodes that come into question, None for all.
        preferred: conditions with weights.
        wrong: what is wrong with a preferred term, empty for nothing.
    """

    required: node_selectors.AllOf | None
    names: frozenset[str] | None
    preferred: tuple[WeightedPredicate, ...]
    wrong: str


class NodeAffinity(Plugin):
    """``nodeSelector``, ``affinity.nodeAffinity`` and the profile's ``addedAffinity``.

    Raises:
        KoordError: a term of addedAffinity does not parse.
    """

    name = "NodeAffinity"
    reads = PodField.NODE_AFFINITY
    depends = Aspect.NODE
    applies_by_shape = True
    filter_at_once: ClassVar[bool] = True
    score_at_once: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.DEFAULT

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        super().__init__(args or NodeAffinityArgs(), handle)
        self._added: node_selectors.AnyOf | None = None
        self._added_preferred: tuple[WeightedPredicate, ...] = ()
        added = self.args.added_affinity
        if added is not None:
            self._added = _added(added.required_during_scheduling_ignored_during_execution)
            preferred = added.preferred_during_scheduling_ignored_during_execution
            self._added_preferred, wrong = _preferred(preferred)
            if wrong:
                raise KoordError("NodeAffinityArgs", "addedAffinity", wrong, "a valid term")

    def applies(self, cycle: Cycle) -> bool:
        """To pods with required or preferred affinity; to all where affinity is added."""
        affinity_request = self._affinity_request(cycle.shape)
        return bool(
            affinity_request.required
            or affinity_request.preferred
            or self._added
            or self._added_preferred
        )

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without errors in their terms that name no node."""
        affinity_request = self._affinity_request(shape)
        return (
            () if affinity_request.wrong or affinity_request.names is not None else ("pre_filter",)
        )

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Narrows the nodes to those named by all terms."""
        affinity_request = self._affinity_request(cycle.shape)
        if affinity_request.wrong:
            text = f"{cycle.pod.key}: preferred node affinity: {affinity_request.wrong}"
            return Rejection(self.name, (text,), error=True)
        if affinity_request.names is None:
            return None
        if not affinity_request.names:
            return Rejection(self.name, (CONFLICT,), unresolvable=True)
        cycle.restrict_to(affinity_request.names)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where the node is what the pod and the profile require."""
        table = cycle.table
        required = self._affinity_request(cycle.shape).required
        passes = required.rows(table, rows) if required else np.ones(table.size, np.bool_)[rows]
        return passes if self._added is None else passes & self._added.rows(table, rows)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """The weights of the preferred terms that match."""
        total: NDArray[np.int64] | None = None
        for weight, condition in (
            *self._added_preferred,
            *self._affinity_request(cycle.shape).preferred,
        ):
            part = np.multiply(condition.rows(cycle.table, rows), weight, dtype=np.int64)
            total = part if total is None else np.add(total, part, out=total)
        return np.zeros(cycle.table.size, np.int64)[rows] if total is None else total

    def filter_bits(self, cycle: Cycle) -> RowBits | bool:
        """:meth:`filter` of all rows."""
        required = self._affinity_request(cycle.shape).required
        if self._added is not None:
            both = [self._added] if required is None else [self._added, required]
            return node_selectors.AllOf(both).bits(cycle.table)
        return True if required is None else required.bits(cycle.table)

    def score_bits(self, cycle: Cycle) -> Sequence[tuple[int, RowBits]] | None:
        """:meth:`score` as the terms that match; None for weights that no API server lets in."""
        found = []
        preferred = *self._added_preferred, *self._affinity_request(cycle.shape).preferred
        for weight, condition in preferred:
            if not 0 < weight <= _MOST_WEIGHT:
                return None
            holds = condition.bits(cycle.table)
            if holds is True:
                holds = ~np.zeros((len(cycle.table.open) + 63) // 64, np.uint64)
            if holds is not False:
                found.append((weight, holds))
        return found

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Whose requirement is not met: the profile's, then the pod's."""
        if self._added is None:
            allowed = np.ones(len(rows), np.bool_)
        else:
            allowed = self._added.rows(cycle.table, rows)
        reasons = [REASON if ok else ENFORCED for ok in allowed.tolist()]
        return [Rejection(self.name, (reason,), unresolvable=True) for reason in reasons]

    def events(self) -> Sequence[HintedEvent]:
        """Nodes that come, or come to match."""
        actions = Action.ADD | Action.UPDATE_NODE_LABEL
        return (HintedEvent(ClusterEvent(NODE, actions), self._now_matches, per_shape=True),)

    def _now_matches(self, info: PodInfo, old: Node | None, new: Node | None) -> bool:
        return (
            new is not None and self._matches(info, new) and not (old and self._matches(info, old))
        )

    def _matches(self, info: PodInfo, node: Node) -> bool:
        required = self._affinity_request(info.shape).required
        enforced = self._added is None or self._added.node(node)
        return enforced and (required is None or required.node(node))

    def _affinity_request(self, shape: PodShape) -> NodeAffinityRequest:
        affinity_request: NodeAffinityRequest | None = shape.memo.get(self.name)
        if affinity_request is None:
            affinity_request = shape.memo[self.name] = _affinity_request(shape)
        return affinity_request


def _affinity_request(shape: PodShape) -> NodeAffinityRequest:
    spec = shape.pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None:
        return NodeAffinityRequest(node_selectors.required(spec), None, (), "")
    preferred, wrong = _preferred(affinity.preferred_during_scheduling_ignored_during_execution)
    names = _names(affinity.required_during_scheduling_ignored_during_execution)
    return NodeAffinityRequest(node_selectors.required(spec), names, preferred, wrong)


def _preferred(
    terms: Sequence[PreferredSchedulingTerm],
) -> tuple[tuple[WeightedPredicate, ...], str]:
    weighted: list[WeightedPredicate] = []
    for term in terms:
        made = node_selectors.term(term.preference) if term.weight else None
        if isinstance(made, str):
            return (), made
        if made is not None:
            weighted.append((term.weight, made))
    return tuple(weighted), ""


def _names(selector: NodeSelector | None) -> frozenset[str] | None:
    """The nodes that a selector's terms name; None if some term names none."""
    if selector is None or not selector.node_selector_terms:
        return None
    names: frozenset[str] = frozenset()
    for term in selector.node_selector_terms:
        named = [
            frozenset(requirement.values)
            for requirement in term.match_fields
            if requirement.key == node_selectors.NAME_FIELD and requirement.operator == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names


def _added(selector: NodeSelector | None) -> node_selectors.AnyOf | None:
    if selector is None:
        return None
    for term in selector.node_selector_terms:
        made = node_selectors.term(term)
        if isinstance(made, str):
            raise KoordError("NodeAffinityArgs", "addedAffinity", made, "a valid term")
    return node_selectors.terms(selector)
