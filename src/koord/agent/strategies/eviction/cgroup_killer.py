# SPDX-License-Identifier: Apache-2.0
"""Evicts by ending every process of every container of a pod, and watches until all have ended.

What stands is read from the cgroups, not from memory: after a restart of the agent an eviction that
was under way is found as far as it came.
Rule: docs/reference/evictions.md#killing-on-the-node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.agent.strategies.eviction.api_evictor import FAILURE, SUCCESS
from koord.agent.strategies.eviction.evictor import EvictionState
from koord.base import log

if TYPE_CHECKING:
    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.eviction.api_evictor import PodEventRecorder
    from koord.agent.strategies.eviction.cgroup_processes import CgroupProcesses
    from koord.base.clock import Clock

REPORT_AFTER_SECONDS = 10.0
"""How long killed processes may take to end, say in uninterruptible sleep, before it is told."""
SETTLED_SECONDS = 5.0
"""How long a pod that has gone still counts: until its usage has left the newest samples."""

_LOG = log.get("agent.eviction")


@dataclass(slots=True)
class _KilledPod:
    pod: PodState
    directories: tuple[str, ...]
    message: str
    begun_seconds: float
    gone_seconds: float | None = None
    reported: bool = False


class CgroupKiller:
    """An evictor; see :class:`koord.agent.strategies.eviction.evictor.Evictor`.

    Args:
        processes: of the machine's hierarchy.
        recorder: where events go.
        clock: for how long things take.
    """

    def __init__(
        self, processes: CgroupProcesses, recorder: PodEventRecorder, clock: Clock
    ) -> None:
        self._processes = processes
        self._recorder = recorder
        self._clock = clock
        self._cases: dict[str, _KilledPod] = {}

    def evict(self, pod: PodState, feature: str, message: str) -> EvictionState:
        """Kills the pod's processes; a pod without containers is refused, for nothing would go."""
        del feature
        directories = tuple(each.directory for each in pod.containers if each.directory)
        case = self._cases.get(pod.uid)
        if case is not None and case.directories == directories:
            return self._look(case)
        if not directories:
            return EvictionState.REFUSED
        now = self._clock.monotonic_seconds()
        case = _KilledPod(pod, directories, message, now)
        self._cases[pod.uid] = case
        if not self._left(case):
            case.gone_seconds = now
            return EvictionState.GONE
        self._kill(case)
        return EvictionState.STARTED

    def fate(self, uid: str) -> EvictionState | None:
        """How it stands; None where none was begun, or all had ended a while ago."""
        case = self._cases.get(uid)
        if case is None:
            return None
        fate = self._look(case)
        now = self._clock.monotonic_seconds()
        if case.gone_seconds is not None and now - case.gone_seconds > SETTLED_SECONDS:
            del self._cases[uid]
            return None
        return fate

    def watch(self) -> None:
        """Looks at every eviction under way; kills again what is left, tells what takes long."""
        for uid in list(self._cases):
            self.fate(uid)

    def _look(self, case: _KilledPod) -> EvictionState:
        if case.gone_seconds is not None:
            return EvictionState.GONE
        now = self._clock.monotonic_seconds()
        if not self._left(case):
            case.gone_seconds = now
            self._recorder.event(case.pod.pod, "Warning", SUCCESS, case.message)
            return EvictionState.GONE
        self._kill(case)
        if now - case.begun_seconds > REPORT_AFTER_SECONDS and not case.reported:
            case.reported = True
            self._report(case)
        return EvictionState.UNDER_WAY

    def _left(self, case: _KilledPod) -> bool:
        return any(self._processes.alive(directory) for directory in case.directories)

    def _kill(self, case: _KilledPod) -> None:
        for directory in case.directories:
            try:
                self._processes.kill(directory)
            except OSError as error:
                told = log.fields(pod=case.pod.key, error=str(error))
                _LOG.warning("processes not killed", extra=told)

    def _report(self, case: _KilledPod) -> None:
        left = [each for each in case.directories if self._processes.alive(each)]
        _LOG.warning("containers still run", extra=log.fields(pod=case.pod.key, cgroups=left))
        message = f"{case.message}: {len(left)} containers still run; trying on"
        self._recorder.event(case.pod.pod, "Warning", FAILURE, message)
