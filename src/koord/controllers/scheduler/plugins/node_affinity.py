# SPDX-License-Identifier: Apache-2.0
"""NodeAffinity: the nodes that a pod must, or would rather, run on.

Rule: docs/reference/stock-plugins.md#nodeaffinity. A required term that does not parse matches
nothing; a preferred one makes the attempt fail, as in kube-scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from koord.base.errors import KoordError
from koord.controllers.cluster import selection
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.config.args_stock import NodeAffinityArgs
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

REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"

Weighted = tuple[int, selection.Condition]


class Wishes(NamedTuple):
    """A shape's node affinity, worked out.

    Attributes:
        required: None for nothing.
        names: the only nodes that come into question, None for all.
        preferred: conditions with weights.
        wrong: what is wrong with a preferred term, empty for nothing.
    """

    required: selection.All | None
    names: frozenset[str] | None
    preferred: tuple[Weighted, ...]
    wrong: str


class NodeAffinity(Plugin):
    """``nodeSelector``, ``affinity.nodeAffinity`` and the profile's ``addedAffinity``.

    Raises:
        KoordError: a term of addedAffinity does not parse.
    """

    name = "NodeAffinity"
    depends = Aspect.NODE
    applies_by_shape = True
    normalization: ClassVar[Normalization] = Normalization.DEFAULT

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        super().__init__(args or NodeAffinityArgs(), handle)
        self._added: selection.Any | None = None
        self._added_preferred: tuple[Weighted, ...] = ()
        added = self.args.added_affinity
        if added is not None:
            self._added = _added(added.required_during_scheduling_ignored_during_execution)
            wished = added.preferred_during_scheduling_ignored_during_execution
            self._added_preferred, wrong = _preferred(wished)
            if wrong:
                raise KoordError("NodeAffinityArgs", "addedAffinity", wrong, "a valid term")

    def applies(self, cycle: Cycle) -> bool:
        """To pods that wish or must; to all where affinity is added."""
        wishes = self._wishes(cycle.shape)
        return bool(wishes.required or wishes.preferred or self._added or self._added_preferred)

    def idle_at(self, shape: PodShape) -> Collection[str]:
        """No node is named, and nothing is wrong."""
        wishes = self._wishes(shape)
        return () if wishes.wrong or wishes.names is not None else ("pre_filter",)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Narrows the nodes to those named by all terms."""
        wishes = self._wishes(cycle.shape)
        if wishes.wrong:
            text = f"{cycle.pod.key}: preferred node affinity: {wishes.wrong}"
            return Rejection(self.name, (text,), error=True)
        if wishes.names is None:
            return None
        if not wishes.names:
            return Rejection(self.name, (CONFLICT,), unresolvable=True)
        found = [cycle.table.row(name) for name in sorted(wishes.names)]
        cycle.restrict(np.array([row for row in found if row is not None], np.intp))
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where the node is what the pod and the profile require."""
        table = cycle.table
        required = self._wishes(cycle.shape).required
        passes = required.rows(table, rows) if required else np.ones(table.size, np.bool_)[rows]
        return passes if self._added is None else passes & self._added.rows(table, rows)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """The weights of the preferred terms that match."""
        total = np.zeros(cycle.table.size, np.int64)[rows]
        for weight, condition in (*self._added_preferred, *self._wishes(cycle.shape).preferred):
            total += weight * condition.rows(cycle.table, rows)
        return total

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
        required = self._wishes(info.shape).required
        enforced = self._added is None or self._added.node(node)
        return enforced and (required is None or required.node(node))

    def _wishes(self, shape: PodShape) -> Wishes:
        wishes: Wishes | None = shape.memo.get(self.name)
        if wishes is None:
            wishes = shape.memo[self.name] = _wishes(shape)
        return wishes


def _wishes(shape: PodShape) -> Wishes:
    spec = shape.pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None:
        return Wishes(selection.required(spec), None, (), "")
    preferred, wrong = _preferred(affinity.preferred_during_scheduling_ignored_during_execution)
    names = _names(affinity.required_during_scheduling_ignored_during_execution)
    return Wishes(selection.required(spec), names, preferred, wrong)


def _preferred(wished: Sequence[PreferredSchedulingTerm]) -> tuple[tuple[Weighted, ...], str]:
    found: list[Weighted] = []
    for each in wished:
        made = selection.term(each.preference) if each.weight else None
        if isinstance(made, str):
            return (), made
        if made is not None:
            found.append((each.weight, made))
    return tuple(found), ""


def _names(selector: NodeSelector | None) -> frozenset[str] | None:
    """The nodes that a selector's terms name; None if some term names none."""
    if selector is None or not selector.node_selector_terms:
        return None
    names: frozenset[str] = frozenset()
    for term in selector.node_selector_terms:
        named = [
            frozenset(requirement.values)
            for requirement in term.match_fields
            if requirement.key == selection.NAME_FIELD and requirement.operator == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names


def _added(selector: NodeSelector | None) -> selection.Any | None:
    if selector is None:
        return None
    for term in selector.node_selector_terms:
        made = selection.term(term)
        if isinstance(made, str):
            raise KoordError("NodeAffinityArgs", "addedAffinity", made, "a valid term")
    return selection.terms(selector)
