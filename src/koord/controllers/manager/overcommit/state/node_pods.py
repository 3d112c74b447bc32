# SPDX-License-Identifier: Apache-2.0
"""The pods on every row, matched with what the row's last report says of them.

A report names pods, not their uids. It speaks of the pod that had the name when it came; a pod that
takes the name of another afterwards is not measured yet, and what was measured is still there.
"""

from __future__ import annotations

from operator import add, sub
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.manager.overcommit.objects import pod_terms
from koord.controllers.manager.overcommit.objects.pod_term_cache import PodTermCache
from koord.controllers.manager.overcommit.objects.pod_terms import PodFlag
from koord.controllers.manager.overcommit.objects.strategy_columns import CalculatePolicy
from koord.controllers.manager.overcommit.state.pod_columns import PodColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from koord.api.kinds.nodemetric import PodMetricInfo
    from koord.api.kinds.pod import Pod
    from koord.controllers.manager.overcommit.amounts import AmountColumns
    from koord.controllers.manager.overcommit.objects.pod_terms import PodTerm, PodTerms


_HIGH = int(PodFlag.HIGH)
# What each policy counts, by its place in what :func:`pods.claimed` returns.
_REQUEST, _USED, _LARGER = 0, 2, 4
_COUNTED_BY: dict[int, int] = {
    CalculatePolicy.USAGE: _USED,
    CalculatePolicy.REQUEST: _REQUEST,
    CalculatePolicy.MAX_USAGE_REQUEST: _LARGER,
    CalculatePolicy.REQUEST_RATIO: _REQUEST,
}


class CountedPod(NamedTuple):
    """A pod that counts: where, in which slot, and its own row of columns, without a metric."""

    row: int
    slot: int
    own: PodTerm
    uid: str


class CountedTerm(NamedTuple):
    """What counts on a row under one name, for who explains it."""

    key: str
    term: PodTerm


class _ReportedPods:
    """Pods, metrics and dangling metrics by namespace and name.

    Attributes:
        spoken_of: the uid of the pod that the report speaks of, where one has had the name.
        low: names of batch and free pods that went, while reports speak of them still.
    """

    __slots__ = ("dangling", "low", "metrics", "pods", "spoken_of")

    def __init__(self) -> None:
        self.pods: dict[str, CountedPod] = {}
        self.metrics: Mapping[str, PodMetricInfo] = {}
        self.dangling: dict[str, int] = {}
        self.spoken_of: dict[str, str] = {}
        self.low: set[str] = set()

    def is_measured(self, key: str, counted: CountedPod) -> bool:
        """Whether the report speaks of a pod."""
        return key in self.metrics and self.spoken_of.get(key) == counted.uid

    @property
    def empty(self) -> bool:
        return not self.pods and not self.metrics


class NodePods:
    """Pods and metrics as columns under deltas.

    Args:
        changed: is told the row of every change.
    """

    def __init__(self, changed: Callable[[int], None]) -> None:
        self._changed = changed
        self._slots = PodColumns()
        self._rows: list[_ReportedPods] = []
        self._row_of: dict[str, int] = {}
        self._terms = PodTermCache()
        self._freed: dict[int, list[int]] = {}

    def open(self, row: int) -> None:
        """There is one more row."""
        assert row == len(self._rows), "rows open in order"
        self._rows.append(_ReportedPods())

    def is_empty(self, row: int) -> bool:
        """Whether neither a pod nor a metric is there."""
        return self._rows[row].empty

    def put(self, pod: Pod, row: int | None) -> None:
        """A pod is new or has changed.

        Args:
            pod: its state.
            row: of its node; None for a pod that does not count, see :func:`pods.counts`.
        """
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        known = self._known(key)
        counted = None if row is None else (row, self._terms.of(pod), pod.metadata.uid)
        if known is None:
            if counted is not None:
                self._add(key, *counted)
        elif (known.row, known.own, known.uid) != counted:
            self._replace(key, known, counted)

    def drop(self, pod: Pod) -> None:
        """A pod is gone; one that took its name since stays."""
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        known = self._known(key)
        if known is not None and known.uid == pod.metadata.uid:
            self._replace(key, known, None)

    def report(self, row: int, metrics: Mapping[str, PodMetricInfo]) -> None:
        """A row has a new report, which speaks of the pods that are there now."""
        here = self._rows[row]
        gone = {key: pod_terms.usage(here.metrics[key]) for key in here.dangling}
        for slot in here.dangling.values():
            self._slots.drop(slot)
        here.dangling.clear()
        waiting = [
            (key, counted) for key, counted in here.pods.items()
            if not here.is_measured(key, counted)
        ]  # fmt: skip
        here.metrics = metrics
        here.spoken_of = {key: here.pods[key].uid for key in metrics if key in here.pods}
        here.low &= metrics.keys()
        for key, counted in here.pods.items():
            self._slots.set(counted.slot, self._term(here, key, counted))
        for key, counted in waiting:
            if here.is_measured(key, counted) and counted.own.flags & _HIGH:
                self._free_usage(row, counted.own.request)
        for key in metrics:
            self._dangle(row, key)
        for key in gone.keys() - here.dangling.keys():
            self._free_usage(row, gone[key])
        self._changed(row)

    def terms(self, rows: NDArray[np.intp], size: int) -> PodTerms:
        """The columns of some rows, numbered by their place in the list, or of all ``size``."""
        if len(rows) == size:
            return self._slots.all()
        slots: list[int] = []
        nodes: list[int] = []
        for at, row in enumerate(rows.tolist()):
            before = len(slots)
            here = self._rows[row]
            slots += [counted.slot for counted in here.pods.values()]
            slots += here.dangling.values()
            nodes += [at] * (len(slots) - before)
        return self._slots.some(slots, nodes)

    def of(self, row: int) -> Iterator[CountedTerm]:
        """What counts on a row, pods first, each in the order of names."""
        here = self._rows[row]
        for key in sorted(here.pods):
            yield CountedTerm(key, self._term(here, key, here.pods[key]))
        for key in sorted(here.dangling):
            term = pod_terms.dangling(here.metrics[key])
            assert term is not None, "those without a term are not kept"
            yield CountedTerm(key, term)

    def give_back(self, allowance: AmountColumns, policy: NDArray[np.int64]) -> None:
        """Adds to a column what pods have freed since the last time, by row.

        Args:
            allowance: int64 ``[2, rows]``.
            policy: of the same shape, by which nothing counts as freed that the policy does not
                count.
        """
        for row, freed in self._freed.items():
            for resource, by in enumerate(policy[:, row].tolist()):
                allowance[resource, row] += freed[_COUNTED_BY[by] + resource]
        self._freed.clear()

    def _free(self, row: int, amounts: Iterable[int]) -> None:
        """Pods take less than before by so much, as :func:`pods.claimed`; below 0 it is more."""
        freed = self._freed.get(row, [0] * 6)
        self._freed[row] = [old + max(new, 0) for old, new in zip(freed, amounts, strict=True)]

    def _free_usage(self, row: int, amounts: tuple[int, int]) -> None:
        """The same of what only policies count that go by usage."""
        self._free(row, (0, 0, *amounts, *amounts))

    def _taken(self, row: int, key: str) -> list[int]:
        """What a name takes on a row, dangling metric included, as :func:`pods.claimed`."""
        here, taken = self._rows[row], [0] * 6
        if key in here.pods:
            taken = _plus(taken, self._term(here, key, here.pods[key]))
        if key in here.dangling:
            term = pod_terms.dangling(here.metrics[key])
            assert term is not None, "those without a term are not kept"
            taken = _plus(taken, term)
        return taken

    def _replace(self, key: str, known: CountedPod, new: tuple[int, PodTerm, str] | None) -> None:
        """A pod goes, or gives way to what it has become, and frees what it does not take on."""
        before = self._taken(known.row, key)
        self._forget(key, known)
        if new is not None:
            self._add(key, *new)
        self._free(known.row, map(sub, before, self._taken(known.row, key)))

    def _known(self, key: str) -> CountedPod | None:
        row = self._row_of.get(key)
        return None if row is None else self._rows[row].pods[key]

    def _add(self, key: str, row: int, own: PodTerm, uid: str) -> None:
        here = self._rows[row]
        if key in here.metrics:
            here.spoken_of.setdefault(key, uid)
        counted = CountedPod(row, -1, own, uid)
        term = self._term(here, key, counted)
        here.pods[key] = counted._replace(slot=self._slots.add(row, term))
        self._row_of[key] = row
        self._dangle(row, key)
        self._changed(row)

    def _forget(self, key: str, known: CountedPod) -> None:
        here = self._rows[known.row]
        if here.is_measured(key, known):
            high = known.own.flags & _HIGH
            (here.low.discard if high else here.low.add)(key)
        self._slots.drop(known.slot)
        del here.pods[key], self._row_of[key]
        self._dangle(known.row, key)
        self._changed(known.row)

    def _term(self, reported: _ReportedPods, key: str, counted: CountedPod) -> PodTerm:
        if not reported.is_measured(key, counted):
            return counted.own
        return pod_terms.measured(counted.own, pod_terms.usage(reported.metrics[key]))

    def _dangle(self, row: int, key: str) -> None:
        """Sees to it that a metric without its pod has a slot, and no other name has one."""
        here = self._rows[row]
        slot = here.dangling.pop(key, None)
        if slot is not None:
            self._slots.drop(slot)
        metric, counted = here.metrics.get(key), here.pods.get(key)
        if metric is None:
            return
        if counted is not None and here.is_measured(key, counted):
            return
        term = pod_terms.dangling(metric)
        if term is not None and (metric.priority or key not in here.low):
            here.dangling[key] = self._slots.add(row, term)


def _plus(taken: Iterable[int], term: PodTerm) -> list[int]:
    return list(map(add, taken, pod_terms.claimed(term)))
