# SPDX-License-Identifier: Apache-2.0
"""What is set on each process of a container: its OOM score.

Rule: docs/reference/hooks.md#oomscoreadj; proc(5).
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from koord.agent.executor.target import OOM_SCORE_ADJ, Target, Value
from koord.agent.executor.writers.target_writer import CGROUP_GONE_ERRNOS
from koord.kernels.cgroup import Hierarchy, Outcome, Written
from koord.kernels.cgroup_parse import parse_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.writers.rooted_files import RootedFiles
    from koord.agent.executor.writers.target_writer import WriteRequest

_SCORES = range(-1000, 1001)
_ENDED = (errno.ESRCH, errno.ENOENT)


def processes(cgroups: Hierarchy, directory: str) -> list[int]:
    """Process ids of a cgroup, ascending; those that this namespace cannot see are left out.

    Raises:
        OSError: the cgroup is gone.
    """
    text = cgroups.read_text(cgroups.path_of("cgroup.procs", directory))
    return sorted(pid for pid in parse_ids(text).tolist() if pid > 0)


class OomScoreWriter:
    """Writes ``oom_score_adj`` of every process of a container.

    Args:
        proc: ``/proc``.
        cgroups: where the processes are listed.
    """

    def __init__(self, proc: RootedFiles, cgroups: Hierarchy) -> None:
        self._proc, self._cgroups = proc, cgroups

    def takes(self, resource: str) -> bool:
        """Whether it is the OOM score."""
        return resource == OOM_SCORE_ADJ

    def refusal(self, target: Target, value: Value) -> str:
        """A score outside -1000 to 1000, or no container."""
        if not target.directory:
            return "a cgroup directory other than the root"
        return "" if int(value) in _SCORES else "an integer from -1000 to 1000"

    def held(self, target: Target) -> Value:
        """The score of the oldest process, which the runtime started the container with."""
        for pid in processes(self._cgroups, target.directory):
            try:
                return int(self._proc.read(f"{pid}/oom_score_adj"))
            except OSError as error:
                if error.errno not in _ENDED:
                    raise
        raise OSError(errno.ENOENT, "no process yet", target.directory)

    def gone(self, target: Target) -> bool:
        """Whether the container's cgroup is not there."""
        try:
            processes(self._cgroups, target.directory)
        except OSError as error:
            return error.errno in CGROUP_GONE_ERRNOS
        return False

    def original(self, target: Target) -> Value:
        """The score that the container was started with."""
        return self.held(target)

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        """A process that ends in between is no failure."""
        return [self._one(request) for request in requests]

    def _one(self, request: WriteRequest) -> Written:
        try:
            pids = processes(self._cgroups, request.target.directory)
        except OSError as error:
            return Written(Outcome.MISSING, error.errno or errno.ENOENT, str(error))
        written, failed, first = 0, 0, 0
        for pid in pids:
            try:
                written += self._set(pid, int(request.value))
            except OSError as error:
                if error.errno not in _ENDED:
                    failed, first = failed + 1, first or error.errno or errno.EIO
        if failed:
            why = os.strerror(first)
            message = f"{request.target}: {failed} of {len(pids)} processes were refused: {why}"
            return Written(Outcome.FAILED, first, message)
        return Written(Outcome.WRITTEN if written else Outcome.UNCHANGED, 0, "")

    def _set(self, pid: int, score: int) -> bool:
        path = f"{pid}/oom_score_adj"
        if int(self._proc.read(path)) == score:
            return False
        self._proc.write(path, str(score))
        return True
