# SPDX-License-Identifier: Apache-2.0
"""The plugin InterPodAffinity.

Rule: docs/reference/stock-plugins.md#interpodaffinity.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from koord.api.kinds.cluster import Namespace
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.config.args_kube_scheduler import InterPodAffinityArgs
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.reserve_pods import ask_without
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity import queueing_hints
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.affinity_terms import (
    NO_TERMS,
    AffinityTerms,
    read,
)
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.existing_terms import (
    ExistingTerms,
)
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.term_states import TermStates
from koord.controllers.scheduler.plugins.kubernetes.pod_counts import pod_counts

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodBatch, PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.term_counts import (
        TermCounts,
    )
    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.kernels.placement_board import RowBits

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_SERIAL = count(1)
# As a plain int: to look a member up in its class takes longer.
_POD_AFFINITY = int(PodField.POD_AFFINITY)


class InterPodAffinityRequest(NamedTuple):
    """A shape's terms, or what is wrong with them."""

    terms: AffinityTerms
    wrong: str = ""


class InterPodAffinity(Plugin):
    """Counts pods by the terms that match them and by the terms they carry, as they come and go.

    Raises:
        KoordError: an argument is not what it should be.
    """

    name = "InterPodAffinity"
    reads = PodField.POD_AFFINITY
    answers_read = PodField.ALL
    restores_from: ClassVar[tuple[str, ...]] = ()
    listens_by_shape: ClassVar[bool] = False
    depends = Aspect.NODE
    filter_at_once: ClassVar[bool] = True
    score_at_once: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.MIN_MAX

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        super().__init__(args or InterPodAffinityArgs(), handle)
        weight = self.args.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            field = "hardPodAffinityWeight"
            raise KoordError("InterPodAffinityArgs", field, weight, "0 to 100")
        self._key = f"{self.name}#{next(_SERIAL)}"
        self._pods = pod_counts(handle)
        self._existing_terms = ExistingTerms(
            weight,
            f"{self._key} carried",
            lambda shape: self._request(shape).terms,
            self._labels_of,
            handle.table.advance_generation,
        )
        self._states = TermStates(
            handle.table,
            self._pods,
            self._existing_terms,
            lambda shape: self._request(shape).terms,
            self._labels_of,
            self.args.ignore_preferred_terms_of_existing_pods,
        )
        self._namespaces = handle.view(Namespace)
        self._namespaces.on_change(self._relabelled, self._updated, self._relabelled)

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without terms, as long as no pod on a node has any."""
        request = self._request(shape)
        if request.wrong:
            return ()
        if request.terms or self._existing_terms:
            return ("pre_filter",)
        return ("pre_filter", "filter", "score")

    def applies(self, cycle: Cycle) -> bool:
        """To pods with terms, or that terms of pods on nodes match."""
        state = self._states.of(cycle.shape)
        return state is not None and (state.filters or bool(state.scores))

    def filter_applies(self, cycle: Cycle) -> bool:
        """Where a required term matches."""
        state = self._states.of(cycle.shape)
        return state is not None and state.filters

    def score_applies(self, cycle: Cycle) -> bool:
        """Where a weighted term matches."""
        state = self._states.of(cycle.shape)
        return state is not None and bool(state.scores)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Refuses pods whose terms cannot be read."""
        wrong = self._request(cycle.shape).wrong
        text = f"parsing pod: {wrong}"
        return Rejection(self.name, (text,), unresolvable=True) if wrong else None

    def filter_generation(self, cycle: Cycle) -> Hashable:
        """Moves when a domain gets its first pod or loses its last."""
        state = self._cycle_state(cycle)
        return state.serial, state.filter_log.generation

    def filter_stale_rows(self, cycle: Cycle, since: tuple[int, int]) -> NDArray[np.intp] | None:
        """The rows of domains that got their first pod or lost their last."""
        state = self._cycle_state(cycle)
        return state.filter_log.rows(since[1]) if since[0] == state.serial else None

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where all rules hold."""
        return ask_without(self.handle, cycle, rows, self._passes)

    def _passes(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        return self._cycle_state(cycle).passes(rows)

    def filter_bits(self, cycle: Cycle) -> RowBits | bool | None:
        """:meth:`filter` of all rows; not where reservations are left out."""
        return None if cycle.has_overlay else self._cycle_state(cycle).bits()

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """The first rule that is broken. Preemption cannot bring pods to be near to."""
        state = self._cycle_state(cycle)
        affinity = state.meets_affinity(rows).tolist()
        rejections = []
        for row, meets_affinity in zip(rows.tolist(), affinity, strict=True):
            at = slice(row, row + 1)
            if not meets_affinity:
                rejections.append(Rejection(self.name, (AFFINITY,), unresolvable=True))
            elif any(presence.at(at)[0] for presence in state.anti_affinity.values()):
                rejections.append(Rejection(self.name, (ANTI_AFFINITY,)))
            else:
                rejections.append(Rejection(self.name, (EXISTING,)))
        return rejections

    def score_generation(self, cycle: Cycle) -> Hashable:
        """Moves with the weights in any domain."""
        state = self._cycle_state(cycle)
        return state.serial, state.score_log.generation

    def score_stale_rows(self, cycle: Cycle, since: tuple[int, int]) -> NDArray[np.intp] | None:
        """The rows of domains whose weights have changed."""
        state = self._cycle_state(cycle)
        return state.score_log.rows(since[1]) if since[0] == state.serial else None

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """The weights of pods near by."""
        return self._cycle_state(cycle).raw(rows)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts by the terms that it carries."""
        if pod.shape.fields & _POD_AFFINITY:
            self._existing_terms.pod_added(row, pod)

    def pods_added(self, arrivals: Sequence[PodBatch]) -> None:
        """Counts many."""
        self._existing_terms.pods_added(arrivals)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse."""
        if pod.shape.fields & _POD_AFFINITY:
            self._existing_terms.pod_removed(row, pod)

    def restore(self, pod: PodInfo) -> None:
        """Nothing is written on pods."""

    def events(self) -> Sequence[HintedEvent]:
        """Pods that match and nodes that are domains, as they come, go and change."""
        return queueing_hints.of(lambda info: self._request(info.shape).terms, self._labels_of)

    def _cycle_state(self, cycle: Cycle) -> TermCounts:
        state = self._states.of(cycle.shape)
        if state is None:
            # Asked though it does not apply: by a what-if that brought the terms.
            state = self._states.empty()
        return state

    def _request(self, shape: PodShape) -> InterPodAffinityRequest:
        request: InterPodAffinityRequest | None = shape.memo.get(self._key)
        if request is None:
            try:
                request = InterPodAffinityRequest(read(shape))
            except KoordError as error:
                request = InterPodAffinityRequest(NO_TERMS, str(error))
            shape.memo[self._key] = request
        return request

    def _labels_of(self, name: str) -> Mapping[str, str]:
        namespace = self._namespaces.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    def _updated(self, old: Namespace, new: Namespace) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._relabelled(new)

    def _relabelled(self, namespace: Namespace, unknown: bool = False) -> None:
        """Which pods a namespaceSelector means may have changed: all is worked out anew."""
        self._states.clear()
