# SPDX-License-Identifier: Apache-2.0
"""Moves that make idle GPUs usable, as few as possible: a search over all pods and all nodes.

What a move gains is by how much the fragmentation amount falls (Weng et al., "Beware of
Fragmentation", USENIX ATC 2023), on the node that is left and on the one that takes the pod. Both
parts are kept as columns, and of these only two rows change with a move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.kernels.placement import OUT, Placement, Placer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.kernels.devices import Fragmentation, PodShape
    from koord.kernels.placement import NodeTable

LOOK_AHEAD_BELOW_MILLI = 100.0
"""A move that gains less than a tenth of a GPU is chosen by what the next one gains with it."""
BREADTH = 6
"""So many moves are looked at then."""
_LEAST_MILLI = 1e-6


@dataclass(frozen=True, slots=True)
class PodKind:
    """Pods that ask for the same.

    Attributes:
        shape: its id in the node table.
        asks: the same as fragmentation sees it.
    """

    shape: int
    asks: PodShape


@dataclass(frozen=True, slots=True)
class MovablePod:
    """A pod on its node.

    Attributes:
        kind: index of what it asks for.
        placement: committed to the node table.
    """

    kind: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class DefragmentingMove:
    """One move.

    Attributes:
        pod: its index.
        source: where it was.
        target: where it goes.
        gain_milli: by how much the fragmentation amount of all nodes falls; a move may raise it
            where the next one makes up for it.
        requires: indices of earlier moves off the node that it goes to, without which there may be
            no room.
    """

    pod: int
    source: Placement
    target: Placement
    gain_milli: float
    requires: tuple[int, ...] = ()


class _PossibleMove(NamedTuple):
    pod: int
    row: int
    gain: float


class Defragmentation:
    """Plans moves on a node table, which is as they leave it afterwards.

    Args:
        table: the nodes, with all pods on them.
        models: of the GPUs, by row.
        kinds: what pods ask for.
        pods: those that may move, each once.
        fragmentation: knows the typical pods.

    Attributes:
        moves: planned so far.
    """

    def __init__(
        self,
        table: NodeTable,
        models: Sequence[str],
        kinds: Sequence[PodKind],
        pods: Sequence[MovablePod],
        fragmentation: Fragmentation,
    ) -> None:
        self._table, self._models = table, models
        self._kinds, self._fragmentation = kinds, fragmentation
        self._placer = Placer(table, "fgd", fragmentation=fragmentation)
        self._at = [pod.placement for pod in pods]
        self._kind = np.array([pod.kind for pod in pods], np.intp)
        self._row = np.array([place.row for place in self._at], np.intp)
        self.moves: list[DefragmentingMove] = []
        self._moved: set[int] = set()
        self._on: list[set[int]] = [set() for _ in models]
        for index, place in enumerate(self._at):
            self._on[place.row].add(index)
        # By pod what its leaving gains, and by kind and row what an arrival does.
        self._leaving = np.full(len(pods), -np.inf)
        self._arriving = np.full((len(kinds), len(models)), -np.inf)
        self._rate(range(len(models)))

    def amount_milli(self) -> float:
        """The fragmentation amount of all nodes."""
        return float(sum(self._amount(row) for row in range(len(self._models))))

    def plan(self, count: int) -> None:
        """Adds so many moves at most; fewer where no further one gains anything.

        No pod moves twice.
        """
        for _ in range(count):
            best = self._next()
            if best is None:
                return
            source, target = self._at[best.pod], self._target(best)
            self._moved.add(best.pod)
            self._put(best.pod, target)
            requires = tuple(
                index for index, move in enumerate(self.moves) if move.source.row == target.row
            )
            move = DefragmentingMove(best.pod, source, target, best.gain, requires)
            self.moves.append(move)

    def _next(self) -> _PossibleMove | None:
        """The best move; where it gains little, the first of the best two."""
        candidates = self._candidates(BREADTH)
        if not candidates or candidates[0].gain >= LOOK_AHEAD_BELOW_MILLI:
            return candidates[0] if candidates else None
        best, most = None, _LEAST_MILLI
        for each in candidates:
            gain = each.gain + max(self._gain_after(each), 0.0)
            if gain > most + _LEAST_MILLI:
                best, most = each, gain
        return best

    def _gain_after(self, first: _PossibleMove) -> float:
        """What the best move gains once another is done."""
        source = self._at[first.pod]
        self._moved.add(first.pod)
        self._put(first.pod, self._target(first))
        after = self._candidates(1)
        self._moved.discard(first.pod)
        self._put(first.pod, source)
        return after[0].gain if after else 0.0

    def _candidates(self, count: int) -> list[_PossibleMove]:
        """The best moves of pods that differ in kind, node or GPUs; the lowest pod among equals."""
        first = self._arriving.argmax(axis=1)
        others = self._arriving.copy()
        kinds = np.arange(len(self._kinds))
        others[kinds, first] = -np.inf
        second = others.argmax(axis=1)
        rows = np.where(first[self._kind] == self._row, second[self._kind], first[self._kind])
        gains = self._leaving + self._arriving[self._kind, rows]
        # A pod's own node may be the only one that takes it.
        gains[rows == self._row] = -np.inf
        if count == 1:
            pod = int(gains.argmax())
            best = _PossibleMove(pod, int(rows[pod]), float(gains[pod]))
            return [best] if best.gain > -np.inf else []
        return self._distinct(gains, rows, count)

    def _distinct(
        self, gains: NDArray[np.float64], rows: NDArray[np.intp], count: int
    ) -> list[_PossibleMove]:
        found: list[_PossibleMove] = []
        seen = set()
        for pod in np.argsort(-gains, kind="stable").tolist():
            if gains[pod] == -np.inf or len(found) == count:
                break
            key = int(self._kind[pod]), self._at[pod].row, self._at[pod].gpus
            if key not in seen:
                seen.add(key)
                found.append(_PossibleMove(pod, int(rows[pod]), float(gains[pod])))
        return found

    def _target(self, move: _PossibleMove) -> Placement:
        kind = self._kinds[self._kind[move.pod]]
        gpus = self._placer.choose_gpus(kind.shape, move.row) if kind.asks.gpu_count else ()
        return Placement(move.row, kind.shape, tuple(gpus))

    def _put(self, pod: int, place: Placement) -> None:
        """Moves a pod, and rates both nodes anew."""
        before = self._at[pod]
        self._table.remove(before)
        self._table.commit(place)
        self._on[before.row].discard(pod)
        self._on[place.row].add(pod)
        self._at[pod], self._row[pod] = place, place.row
        self._rate((before.row, place.row))

    def _rate(self, rows: Sequence[int]) -> None:
        index = np.array(rows, np.int64)
        for number, kind in enumerate(self._kinds):
            fits = self._placer.rate(kind.shape, index) != OUT
            self._arriving[number, index] = -np.inf
            for row in index[fits].tolist():
                self._arriving[number, row] = self._arrival(kind, row)
        for row in rows:
            self._rate_leaving(row)

    def _rate_leaving(self, row: int) -> None:
        now, known = self._amount(row), dict[tuple[int, tuple[int, ...]], float]()
        for pod in self._on[row]:
            kind = int(self._kind[pod])
            key = kind, self._at[pod].gpus
            if key not in known:
                known[key] = now - self._amount(row, self._kinds[kind].asks, key[1], -1)
            self._leaving[pod] = -np.inf if pod in self._moved else known[key]

    def _arrival(self, kind: PodKind, row: int) -> float:
        gpus = self._placer.choose_gpus(kind.shape, row) if kind.asks.gpu_count else ()
        return self._amount(row) - self._amount(row, kind.asks, gpus, 1)

    def _amount(
        self,
        row: int,
        asks: PodShape | None = None,
        gpus: Sequence[int] = (),
        times: int = 0,
    ) -> float:
        """The fragmentation amount of a node, with a pod more or less on these GPUs."""
        cpu_milli, free = int(self._table.free("cpu")[row]), self._table.gpus_free(row)
        if asks is not None:
            cpu_milli -= times * asks.cpu_milli
            for minor in gpus:
                free[minor] -= times * asks.gpu_milli
        return self._fragmentation.amount(cpu_milli, free, self._models[row])
