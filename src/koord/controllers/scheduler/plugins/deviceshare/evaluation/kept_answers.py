# SPDX-License-Identifier: Apache-2.0
"""What numbers of cards say of all nodes, kept for the requests of devices that came last.

Pods that differ in all else often ask for the same of cards, a half or a whole one. Rows that have
changed since are asked about again, as a board's are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from koord.controllers.cluster.bounded_table import BoundedTable
from koord.controllers.scheduler.framework.changed_rows import ChangedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.changed_rows import Rows
    from koord.controllers.scheduler.plugins.deviceshare.evaluation.node_evaluator import (
        DeviceNodeEvaluator,
    )
    from koord.controllers.scheduler.plugins.deviceshare.evaluation.scoring import DeviceScorer
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest
    from koord.controllers.scheduler.plugins.deviceshare.state.cycle_state import DeviceCycleState

    RequestKey = tuple[tuple[object, ...], ...]

MANY: Final = 64
"""Fewer rows than this are asked about by themselves."""
_REQUESTS = 16


class _Answers:
    """Of one request, by row, as of a version of the table."""

    __slots__ = ("fits", "scores", "version")

    def __init__(self, rows: int) -> None:
        self.fits = np.zeros(rows, np.bool_)
        self.scores = np.zeros(rows, np.int64)
        self.version = -1


class KeptDeviceAnswers:
    """The answers for some requests, brought up to date when they are asked for.

    Args:
        table: the nodes.
        depends: on which aspects of a row answers depend.
        evaluator, scorer: give them.
    """

    def __init__(
        self, table: NodeTable, depends: int, evaluator: DeviceNodeEvaluator, scorer: DeviceScorer
    ) -> None:
        self._table, self._depends = table, depends
        self._evaluator, self._scorer = evaluator, scorer
        self._by_request: BoundedTable[RequestKey, _Answers] = BoundedTable(_REQUESTS, _REQUESTS)

    def __len__(self) -> int:
        return len(self._by_request)

    def fits(self, cycle_state: DeviceCycleState, rows: Rows) -> NDArray[np.bool_] | None:
        """What :meth:`DeviceNodeEvaluator.passes` says of many rows; not to be changed.

        Returns:
            None where answers are not kept for such a pod.
        """
        answers = self._of(cycle_state, rows)
        return None if answers is None else answers.fits[rows]

    def scores(self, cycle_state: DeviceCycleState, rows: Rows) -> NDArray[np.int64] | None:
        """The same of :meth:`DeviceScorer.score`."""
        answers = self._of(cycle_state, rows)
        return None if answers is None else answers.scores[rows]

    def _of(self, cycle_state: DeviceCycleState, rows: Rows) -> _Answers | None:
        size = self._table.size
        asked = len(range(*rows.indices(size))) if isinstance(rows, slice) else len(rows)
        if asked < MANY or not _is_plain(cycle_state):
            return None
        key = _key(cycle_state.request)
        answers = self._by_request.get(key)
        if answers is None or len(answers.fits) != size:
            answers = _Answers(size)
            self._by_request.put(key, answers, 1)
        self._update(answers, cycle_state)
        return answers

    def _update(self, answers: _Answers, cycle_state: DeviceCycleState) -> None:
        table = self._table
        before, answers.version = answers.version, table.version
        if before == answers.version:
            return
        changed = ChangedRows(table, table.changed_rows(before) if before >= 0 else None)
        due = np.arange(table.size, dtype=np.intp) if changed.all else changed.rows(self._depends)
        if due is not None:
            answers.fits[due] = self._evaluator.passes(cycle_state, due)
            answers.scores[due] = self._scorer.score(cycle_state, due)


def _is_plain(cycle_state: DeviceCycleState) -> bool:
    """Whether amounts of devices say all that the pod and its attempt have to do with answers."""
    request = cycle_state.request
    told = cycle_state.templates or cycle_state.designated or cycle_state.by_labels
    more = request.hints or request.joint or request.partition or request.isolation
    return request.by_count and not (told or more or cycle_state.reserved)


def _key(request: DeviceRequest) -> RequestKey:
    return tuple((kind, *amounts.items()) for kind, amounts in request.requests.items())
