# SPDX-License-Identifier: Apache-2.0
"""For how long reports of a node have said that its best-effort pods are held down.

Rule: docs/reference/descheduling-plugins.md#starvedpods.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from koord.controllers.descheduler.plugins.starvedpods.satisfaction import BestEffortPod


class Report(NamedTuple):
    """One report: its wall time in seconds, and whether best-effort pods were held down."""

    time: float
    starved: bool


class ReportHistory:
    """The reports of one node.

    Args:
        window_seconds: how far back they are judged.
        longest_gap_seconds: a longer silence begins anew.

    Attributes:
        peaks: by UID of a pod what it has used while the node held nothing down, milli-cores.
    """

    def __init__(self, window_seconds: float, longest_gap_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._longest_gap_seconds = longest_gap_seconds
        self._since = 0.0
        self._reports: deque[Report] = deque()
        self.peaks: dict[str, int] = {}

    def is_new(self, time: float) -> bool:
        """Whether a report of that time has not been counted yet."""
        return not self._reports or time > self._reports[-1].time

    def add(self, report: Report) -> None:
        """Counts a report; later ones come later."""
        last = self._reports[-1].time if self._reports else None
        if last is None or report.time - last > self._longest_gap_seconds:
            self._reports.clear()
            self._since = report.time
        self._reports.append(report)
        while self._reports[0].time <= report.time - self._window_seconds:
            self._reports.popleft()

    def note_peaks(self, pods: Iterable[BestEffortPod], *, held: bool) -> None:
        """Remembers what pods use while nothing holds them down, and forgets pods that are gone."""
        pods = list(pods)
        there = {each.pod.metadata.uid for each in pods}
        self.peaks = {uid: peak for uid, peak in self.peaks.items() if uid in there}
        if held:
            return
        for each in pods:
            uid = each.pod.metadata.uid
            self.peaks[uid] = max(self.peaks.get(uid, 0), each.usage_milli)

    def is_starved(self, now: float) -> bool:
        """Whether two thirds of the reports of a whole window say so, the last one too."""
        recent = [each for each in self._reports if each.time > now - self._window_seconds]
        if not recent or not recent[-1].starved or self._since > now - self._window_seconds:
            return False
        return 3 * sum(each.starved for each in recent) >= 2 * len(recent)


class ReportHistories:
    """The histories of all nodes that report.

    Args:
        window_seconds: see :class:`ReportHistory`.
        longest_gap_seconds: see :class:`ReportHistory`.
    """

    def __init__(self, window_seconds: float, longest_gap_seconds: float) -> None:
        self._bounds = window_seconds, longest_gap_seconds
        self._by_node: dict[str, ReportHistory] = {}

    def __len__(self) -> int:
        return len(self._by_node)

    def of(self, node_name: str) -> ReportHistory:
        """The history of a node; empty at first."""
        if node_name not in self._by_node:
            self._by_node[node_name] = ReportHistory(*self._bounds)
        return self._by_node[node_name]

    def keep(self, node_names: Collection[str]) -> None:
        """Forgets all other nodes."""
        for name in self._by_node.keys() - set(node_names):
            del self._by_node[name]
