# SPDX-License-Identifier: Apache-2.0
"""The plugin PodTopologySpread.

Rule: docs/reference/stock-plugins.md#podtopologyspread.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from koord.api.tolerations import KEEPS_OUT, untolerated
from koord.base.errors import KoordError
from koord.controllers.cluster import selection
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.config.args_stock import PodTopologySpreadArgs
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.reserved import ask_without
from koord.controllers.scheduler.plugins.podtopologyspread import constraints, hints
from koord.controllers.scheduler.plugins.podtopologyspread.constraints import HARD, SOFT
from koord.controllers.scheduler.plugins.podtopologyspread.hard import Hard, HardPart
from koord.controllers.scheduler.plugins.podtopologyspread.selected import Owners
from koord.controllers.scheduler.plugins.podtopologyspread.soft import Soft, SoftPart
from koord.controllers.scheduler.plugins.tallies import Kept, PodTallies

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import Arrivals, PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.podtopologyspread.constraints import Constraint
    from koord.controllers.scheduler.plugins.tallies import Tally
    from koord.controllers.scheduler.queue.events import HintedEvent

NO_MATCH = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{NO_MATCH} (missing required label)"
_SERIAL = count(1)


class Wishes(NamedTuple):
    """A shape's constraints; ``wrong`` says what cannot be read of them."""

    hard: tuple[Constraint, ...]
    soft: tuple[Constraint, ...]
    owners: int
    wrong: str = ""


class State(NamedTuple):
    """What is kept of a shape while labels, taints and constraints stay as they are."""

    serial: int
    key: tuple[Hashable, ...]
    hard: Hard | None
    soft: Soft | None
    tallies: tuple[Hashable, ...]


class PodTopologySpread(Plugin):
    """Counts pods that match by domain, as they come and go.

    Pods without constraints of their own get the profile's default ones, if something selects them.
    Pods that are being deleted do not count.
    """

    name = "PodTopologySpread"
    restores_from: ClassVar[tuple[str, ...]] = ()
    told_by_shape: ClassVar[bool] = False
    depends = Aspect.NODE
    applies_by_shape = True
    normalization: ClassVar[Normalization] = Normalization.SPREAD

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        super().__init__(args or PodTopologySpreadArgs(), handle)
        self._system = self.args.defaulting_type == "System"
        self._check(self.args)
        listed = self.args.default_constraints
        self._defaults = constraints.SYSTEM_DEFAULTS if self._system else tuple(listed)
        self._owners = Owners(handle)
        self._pods = PodTallies(counts_terminating=False)
        self._states = Kept(256, self._dropped)
        self._key = f"{self.name}#{next(_SERIAL)}"

    def idle_at(self, shape: PodShape) -> Collection[str]:
        """Pods without constraints of the kind that a point looks at, default ones included."""
        wishes = self._wishes(shape)
        asked = {"pre_filter": wishes.wrong, "filter": wishes.hard, "score": wishes.soft}
        return [point for point, something in asked.items() if not something]

    def applies(self, cycle: Cycle) -> bool:
        """To pods with constraints, their own or default ones."""
        wishes = self._wishes(cycle.shape)
        return bool(wishes.hard or wishes.soft)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Refuses pods whose constraints cannot be read."""
        wrong = self._wishes(cycle.shape).wrong
        return Rejection(self.name, (wrong,), error=True) if wrong else None

    def filter_stamp(self, cycle: Cycle) -> Hashable:
        """Moves when a domain's answer turns."""
        state = self._state(cycle.shape)
        assert state.hard is not None
        return state.serial, state.hard.log.stamp

    def filter_stale_rows(self, cycle: Cycle, since: tuple[int, int]) -> NDArray[np.intp] | None:
        """The rows of domains whose answer has turned."""
        state = self._state(cycle.shape)
        if state.hard is None or since[0] != state.serial:
            return None
        return state.hard.log.rows(since[1])

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where all constraints hold with the pod."""
        return ask_without(self.handle, cycle, rows, self._passes)

    def _passes(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        hard = self._state(cycle.shape).hard
        return hard.passes(rows) if hard is not None else np.ones(cycle.table.size, np.bool_)[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """A label that is missing, which no preemption brings, or too many pods."""
        hard = self._state(cycle.shape).hard
        lacks = [hard is not None and hard.lacks_label(row) for row in rows.tolist()]
        return [Rejection(self.name, (NO_LABEL if no else NO_MATCH,), no) for no in lacks]

    def score_stamp(self, cycle: Cycle) -> Hashable:
        """Moves with counts and, by the number of domains, with what is feasible."""
        state = self._state(cycle.shape)
        assert state.soft is not None
        return state.serial, state.soft.log.stamp, state.soft.weights(cycle)

    def score_stale_rows(
        self, cycle: Cycle, since: tuple[int, int, tuple[float, ...]]
    ) -> NDArray[np.intp] | None:
        """The rows of domains whose count has changed."""
        state = self._state(cycle.shape)
        if state.soft is None or since[0] != state.serial or since[2] != state.soft.weights(cycle):
            return None
        return state.soft.log.rows(since[1])

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """How crowded the row's domains are."""
        soft = self._state(cycle.shape).soft
        assert soft is not None
        return soft.scores(rows, soft.weights(cycle))

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts it."""
        self._pods.pod_added(row, pod)

    def pods_added(self, arrivals: Sequence[Arrivals]) -> None:
        """Counts many."""
        self._pods.pods_added(arrivals)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """Counts it no longer."""
        self._pods.pod_removed(row, pod)

    def restore(self, pod: PodInfo) -> None:
        """Nothing is written on pods."""

    def events(self) -> Sequence[HintedEvent]:
        """Pods that match and nodes that are domains, as they come, go and change."""
        return hints.of(lambda info: self._wishes(info.shape).hard)

    def _wishes(self, shape: PodShape) -> Wishes:
        wishes: Wishes | None = shape.memo.get(self._key)
        if wishes is None or wishes.owners not in (-1, self._owners.version):
            wishes = shape.memo[self._key] = self._read(shape)
        return wishes

    def _read(self, shape: PodShape) -> Wishes:
        own = shape.pod.spec.topology_spread_constraints
        where = f"Pod {shape.namespace}/{shape.pod.metadata.name}"
        try:
            if own:
                hard = constraints.read(own, HARD, shape.labels, where)
                return Wishes(hard, constraints.read(own, SOFT, shape.labels, where), -1)
            version = self._owners.version
            selector = self._owners.selector(shape) if self._defaults else None
            if selector is None:
                return Wishes((), (), version if self._defaults else -1)
            hard = constraints.read(self._defaults, HARD, shape.labels, where, selector)
            soft = constraints.read(self._defaults, SOFT, shape.labels, where, selector)
            return Wishes(hard, soft, version)
        except KoordError as error:
            return Wishes((), (), -1, str(error))

    def _state(self, shape: PodShape) -> State:
        table = self.handle.table
        wishes = self._wishes(shape)
        key = (table.labels.version, table.taints.version, table.layout, wishes.hard, wishes.soft)
        state: State | None = self._states.get(shape)
        if state is None or (state.key is not key and state.key != key):
            self._states.drop(shape)
            state = self._build(shape, wishes, key)
            self._states.put(shape, state)
        if state.hard is not None:
            state.hard.sync(self._pods.moves)
        if state.soft is not None:
            state.soft.sync(self._pods.moves)
        return state

    def _build(self, shape: PodShape, wishes: Wishes, key: tuple[Hashable, ...]) -> State:
        used: list[Hashable] = []
        hard = soft = None
        if wishes.hard:
            labelled = self._labelled(wishes.hard)
            hard = Hard([self._hard(shape, each, labelled, used) for each in wishes.hard])
        if wishes.soft:
            labelled = self._labelled(wishes.soft)
            if not shape.pod.spec.topology_spread_constraints and self._system:
                # System defaults rate nodes without a zone too, by what labels they have.
                labelled = np.ones_like(labelled)
            parts = [self._soft(shape, each, labelled, used) for each in wishes.soft]
            soft = Soft(parts, labelled)
        return State(next(_SERIAL), key, hard, soft, tuple(used))

    def _labelled(self, wished: Sequence[Constraint]) -> NDArray[np.bool_]:
        """By row, whether the node has all the labels."""
        table = self.handle.table
        found = np.ones(len(table.open), np.bool_)
        for each in wished:
            found &= table.labels.column(each.key).ids >= 0
        return found

    def _hard(
        self,
        shape: PodShape,
        wished: Constraint,
        labelled: NDArray[np.bool_],
        used: list[Hashable],
    ) -> HardPart:
        column = self.handle.table.labels.column(wished.key)
        eligible = self._eligible(shape, wished, labelled)
        tally = self._tally(shape, wished, used)
        return HardPart(wished, wished.matches(shape.labels), column, eligible, tally)

    def _soft(
        self,
        shape: PodShape,
        wished: Constraint,
        labelled: NDArray[np.bool_],
        used: list[Hashable],
    ) -> SoftPart:
        column = self.handle.table.labels.column(wished.key)
        eligible = self._eligible(shape, wished, labelled)
        return SoftPart(wished, column, eligible, self._tally(shape, wished, used))

    def _eligible(
        self, shape: PodShape, wished: Constraint, labelled: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """By row, whether its node counts for a constraint."""
        table = self.handle.table
        found = labelled & table.open
        size = table.size
        required = selection.required(shape.pod.spec) if wished.honors_affinity else None
        if required is not None:
            found[:size] &= required.rows(table, slice(0, size))
        if wished.honors_taints:
            tolerations = shape.pod.spec.tolerations
            lets_in = [
                untolerated(taints, tolerations, KEEPS_OUT) is None for taints in table.taints.lists
            ]
            found &= np.array(lets_in, np.bool_)[table.taints.ids]
        return found

    def _tally(self, shape: PodShape, wished: Constraint, used: list[Hashable]) -> Tally:
        namespace = shape.namespace
        key = (namespace, wished.selector_key)
        used.append(key)

        def matches(other: PodShape) -> bool:
            return other.namespace == namespace and wished.matches(other.labels)

        return self._pods.acquire(key, matches, (namespace,))

    def _dropped(self, state: State) -> None:
        for key in state.tallies:
            self._pods.release(key)

    def _check(self, args: PodTopologySpreadArgs) -> None:
        where = "PodTopologySpreadArgs"
        if args.defaulting_type not in ("System", "List"):
            expected = "System or List"
            raise KoordError(where, "defaultingType", args.defaulting_type, expected)
        if args.default_constraints and self._system:
            raise KoordError(where, "defaultConstraints", "some", "none with defaultingType System")
        for index, each in enumerate(args.default_constraints):
            if each.label_selector is not None:
                field = f"defaultConstraints[{index}].labelSelector"
                raise KoordError(where, field, "a selector", "none: it is the pods' own")
            constraints.read([each], each.when_unsatisfiable, {}, where)
