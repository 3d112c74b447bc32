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
from koord.controllers.cluster import node_selectors
from koord.controllers.cluster.label_index import PodSelector
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.config.args_kube_scheduler import PodTopologySpreadArgs
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.reserve_pods import ask_without
from koord.controllers.scheduler.plugins.kubernetes.pod_counts import (
    ShapeCache,
    pod_counts,
)
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread import (
    constraints,
    queueing_hints,
)
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.constraints import HARD, SOFT
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.default_selector import (
    DefaultSelectors,
)
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.filtering import (
    EligibleNodes,
    HardConstraintCounts,
    HardConstraints,
)
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.scoring import (
    SoftConstraintCounts,
    SoftConstraints,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.kubernetes.pod_counts import RowCounts
    from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.constraints import (
        SpreadConstraint,
    )
    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.kernels.placement_board import RowBits

NO_MATCH = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{NO_MATCH} (missing required label)"
_SERIAL = count(1)
# For so many lists of label keys it is kept which nodes count.
_ELIGIBLE = 64


class SpreadRequest(NamedTuple):
    """A shape's constraints; ``wrong`` is what cannot be read of them."""

    hard: tuple[SpreadConstraint, ...]
    soft: tuple[SpreadConstraint, ...]
    owners: int
    wrong: str = ""


class SpreadCounts(NamedTuple):
    """What is kept of a shape while labels, taints and constraints stay as they are."""

    serial: int
    key: tuple[Hashable, ...]
    hard: HardConstraints | None
    soft: SoftConstraints | None
    acquired: tuple[Hashable, ...]


class PodTopologySpread(Plugin):
    """Counts pods that match by domain.

    Pods without constraints of their own get the profile's default ones, if something selects them.
    Pods that are being deleted do not count.
    """

    name = "PodTopologySpread"
    depends = Aspect.NODE
    applies_by_shape = True
    filter_at_once: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.SPREAD

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        super().__init__(args or PodTopologySpreadArgs(), handle)
        self._system = self.args.defaulting_type == "System"
        self._check(self.args)
        listed = self.args.default_constraints
        self._defaults = constraints.SYSTEM_DEFAULTS if self._system else tuple(listed)
        self._default_selectors = DefaultSelectors(handle)
        self._pods = pod_counts(handle)
        self._states = ShapeCache(256, self._dropped)
        # By label keys, while no node changes: the nodes that count whatever pod it is.
        self._eligible_version: Hashable = None
        self._eligible_kept: dict[tuple[str, ...], EligibleNodes] = {}
        self._key = f"{self.name}#{next(_SERIAL)}"

    @property
    def reads(self) -> PodField:  # type: ignore[override]
        """The pod's constraints, and what default ones are chosen by."""
        if not self._defaults:
            return PodField.SPREAD
        of_services = PodField.LABELS if self._default_selectors.services else PodField.NONE
        return PodField.SPREAD | PodField.OWNERS | of_services

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without constraints of the kind that a point looks at, default ones included."""
        request = self._request(shape)
        asked = {"pre_filter": request.wrong, "filter": request.hard, "score": request.soft}
        return [point for point, something in asked.items() if not something]

    def applies(self, cycle: Cycle) -> bool:
        """To pods with constraints, their own or default ones."""
        request = self._request(cycle.shape)
        return bool(request.hard or request.soft)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Refuses pods whose constraints cannot be read."""
        wrong = self._request(cycle.shape).wrong
        return Rejection(self.name, (wrong,), error=True) if wrong else None

    def filter_generation(self, cycle: Cycle) -> Hashable:
        """Moves when a domain's answer turns."""
        state = self._state(cycle.shape)
        assert state.hard is not None
        return state.serial, state.hard.log.generation

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

    def filter_bits(self, cycle: Cycle) -> RowBits | bool | None:
        """:meth:`filter` of all rows; not where reservations are left out."""
        if cycle.has_overlay:
            return None
        shape = cycle.shape
        request = self._request(shape)
        if shape not in self._states and self._counts_nothing(request.hard):
            return self._labelled_bits(request.hard)
        hard = self._state(shape).hard
        return True if hard is None else hard.bits()

    def _counts_nothing(self, hard: Sequence[SpreadConstraint]) -> bool:
        """Whether it is plain that no pod matches, so that any domain takes the first one."""
        return all(each.max_skew > 0 and not self._pods.may_match(each.selector) for each in hard)

    def _labelled_bits(self, constraint: Sequence[SpreadConstraint]) -> RowBits | bool:
        """The rows whose nodes have all the labels, as bits."""
        found: RowBits | None = None
        for each in constraint:
            bits = ~self.handle.table.labels.column(each.key).bits(-1)
            found = bits if found is None else found & bits
        return True if found is None else found

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """A label that is missing, which no preemption brings, or too many pods."""
        hard = self._state(cycle.shape).hard
        lacks = [hard is not None and hard.misses_label(row) for row in rows.tolist()]
        return [Rejection(self.name, (NO_LABEL if no else NO_MATCH,), no) for no in lacks]

    def score_generation(self, cycle: Cycle) -> Hashable:
        """Moves with counts and, by the number of domains, with what is feasible."""
        state = self._state(cycle.shape)
        assert state.soft is not None
        return state.serial, state.soft.log.generation, state.soft.weights(cycle)

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

    def events(self) -> Sequence[HintedEvent]:
        """Pods that match and nodes that are domains, as they come, go and change."""
        return queueing_hints.of(lambda info: self._request(info.shape).hard)

    def _request(self, shape: PodShape) -> SpreadRequest:
        request: SpreadRequest | None = shape.memo.get(self._key)
        if request is None or request.owners not in (-1, self._default_selectors.version):
            request = shape.memo[self._key] = self._read(shape)
        return request

    def _read(self, shape: PodShape) -> SpreadRequest:
        own = shape.pod.spec.topology_spread_constraints
        where = f"Pod {shape.namespace}/{shape.pod.metadata.name}"
        try:
            if own:
                hard = constraints.read(own, HARD, shape.labels, where)
                return SpreadRequest(hard, constraints.read(own, SOFT, shape.labels, where), -1)
            version = self._default_selectors.version
            selector = self._default_selectors.selector(shape) if self._defaults else None
            if selector is None:
                return SpreadRequest((), (), version if self._defaults else -1)
            hard = constraints.read(self._defaults, HARD, shape.labels, where, selector)
            soft = constraints.read(self._defaults, SOFT, shape.labels, where, selector)
            return SpreadRequest(hard, soft, version)
        except KoordError as error:
            return SpreadRequest((), (), -1, str(error))

    def _state(self, shape: PodShape) -> SpreadCounts:
        table = self.handle.table
        request = self._request(shape)
        key = (table.labels.version, table.taints.version, table.layout, request.hard, request.soft)
        state: SpreadCounts | None = self._states.get(shape)
        if state is None or (state.key is not key and state.key != key):
            self._states.drop(shape)
            state = self._build(shape, request, key)
            self._states.put(shape, state)
        if state.hard is not None:
            state.hard.sync(self._pods.changes)
        if state.soft is not None:
            state.soft.sync(self._pods.changes)
        return state

    def _build(
        self, shape: PodShape, request: SpreadRequest, key: tuple[Hashable, ...]
    ) -> SpreadCounts:
        used: list[Hashable] = []
        hard = soft = None
        if request.hard:
            hard = HardConstraints(
                [self._hard(shape, each, request.hard, used) for each in request.hard]
            )
        if request.soft:
            labelled = self._labelled(request.soft)
            if not shape.pod.spec.topology_spread_constraints and self._system:
                # System defaults rate nodes without a zone too, by what labels they have.
                labelled = np.ones_like(labelled)
            parts = [self._soft(shape, each, labelled, used) for each in request.soft]
            soft = SoftConstraints(parts, labelled)
        return SpreadCounts(next(_SERIAL), key, hard, soft, tuple(used))

    def _labelled(self, constraint: Sequence[SpreadConstraint]) -> NDArray[np.bool_]:
        """By row, whether the node has all the labels."""
        table = self.handle.table
        found = np.ones(len(table.open), np.bool_)
        for each in constraint:
            found &= table.labels.column(each.key).ids >= 0
        return found

    def _hard(
        self,
        shape: PodShape,
        constraint: SpreadConstraint,
        every: Sequence[SpreadConstraint],
        used: list[Hashable],
    ) -> HardConstraintCounts:
        column = self.handle.table.labels.column(constraint.key)
        eligible = self._eligible_nodes(shape, constraint, every)
        pods = self._acquire(shape, constraint, used)
        return HardConstraintCounts(
            constraint, constraint.matches(shape.labels), column, eligible, pods
        )

    def _eligible_nodes(
        self, shape: PodShape, constraint: SpreadConstraint, every: Sequence[SpreadConstraint]
    ) -> EligibleNodes:
        """The nodes that count for one of a shape's constraints; often the same for all shapes."""
        table = self.handle.table
        version = (table.labels.version, table.layout, table.nodes_version)
        if version != self._eligible_version or len(self._eligible_kept) >= _ELIGIBLE:
            self._eligible_version = version
            self._eligible_kept.clear()
        spec = shape.pod.spec
        own = constraint.honors_taints or (
            constraint.honors_affinity and node_selectors.required(spec) is not None
        )
        key = (constraint.key, *(each.key for each in every))
        found = None if own else self._eligible_kept.get(key)
        if found is None:
            rows = self._eligible(shape, constraint, self._labelled(every))
            found = EligibleNodes(rows, table.labels.column(constraint.key))
            if not own:
                self._eligible_kept[key] = found
        return found

    def _soft(
        self,
        shape: PodShape,
        constraint: SpreadConstraint,
        labelled: NDArray[np.bool_],
        used: list[Hashable],
    ) -> SoftConstraintCounts:
        column = self.handle.table.labels.column(constraint.key)
        eligible = self._eligible(shape, constraint, labelled)
        return SoftConstraintCounts(
            constraint, column, eligible, self._acquire(shape, constraint, used)
        )

    def _eligible(
        self, shape: PodShape, constraint: SpreadConstraint, labelled: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """By row, whether its node counts for a constraint."""
        table = self.handle.table
        found = labelled & table.open
        size = table.size
        required = node_selectors.required(shape.pod.spec) if constraint.honors_affinity else None
        if required is not None:
            found[:size] &= required.rows(table, slice(0, size))
        if constraint.honors_taints:
            tolerations = shape.pod.spec.tolerations
            admits = [
                untolerated(taints, tolerations, KEEPS_OUT) is None for taints in table.taints.lists
            ]
            found &= np.array(admits, np.bool_)[table.taints.ids]
        return found

    def _acquire(
        self, shape: PodShape, constraint: SpreadConstraint, used: list[Hashable]
    ) -> Sequence[tuple[RowCounts, int]]:
        key = (shape.namespace, constraint.selector_key)
        used.append(key)
        selector = PodSelector(constraint.selector, (shape.namespace,))
        return self._pods.acquire(key, selector, terminating=False)

    def _dropped(self, state: SpreadCounts) -> None:
        for key in state.acquired:
            self._pods.release(key, terminating=False)

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
