# SPDX-License-Identifier: Apache-2.0
"""The processes of a cgroup and of those beneath it: who they are, and their end.

Every file is read and written beneath the hierarchy. A process is held by a file descriptor
(pidfd_open(2)) and looked up in its cgroup once more before it is killed, so that a number that was
given to another process in between hits nobody.
"""

from __future__ import annotations

import errno
import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from koord.base import faults
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.kernels.cgroup import Hierarchy

_GONE = (errno.ENOENT, errno.ENODEV)
_FIRST_USER_PID = 2  # 0 is a process of another PID namespace, 1 the host's own


class CgroupProcesses:
    """Looks after the processes of one hierarchy.

    Args:
        hierarchy: where cgroups are.
    """

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy

    def alive(self, directory: str) -> bool:
        """Whether a process is left in a cgroup or beneath it; an unreadable one counts as left."""
        if self._hierarchy.version is Version.V2:
            text = self._text(f"{directory}/cgroup.events")
            if text is not None:
                return b"populated 1" in text.splitlines()
        return any(self._listed(path) for path in self._tree(directory))

    def kill(self, directory: str) -> None:
        """Kills every process in a cgroup and beneath it; what forks meanwhile is for next time.

        Raises:
            OSError: a process may not be killed.
        """
        faults.point("agent.evict.kill")
        if self._kill_at_once(directory):
            return
        for path in self._tree(directory):
            self._kill_listed(path)

    def _kill_at_once(self, directory: str) -> bool:
        path = f"{directory}/cgroup.kill"
        if self._hierarchy.version is not Version.V2 or self._text(path) is None:
            # The file cannot be read where it exists (EINVAL), which _text tells from ENOENT.
            return False
        return self._hierarchy.add_ids(path, [1]).added == 1

    def _kill_listed(self, path: str) -> None:
        with ExitStack() as held:
            handles: dict[int, int] = {}
            for pid in self._listed(path):
                with suppress(ProcessLookupError):
                    handles[pid] = os.pidfd_open(pid)
                    held.callback(os.close, handles[pid])
            for pid in self._listed(path) & handles.keys():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handles[pid], signal.SIGKILL)

    def _listed(self, path: str) -> set[int]:
        text = self._text(path) or b""
        own = os.getpid()
        pids = {int(word) for word in text.split() if word.isdigit()}
        return {pid for pid in pids if pid >= _FIRST_USER_PID and pid != own}

    def _tree(self, directory: str) -> Iterable[str]:
        """The lists of processes of a cgroup and all beneath it, the deepest first."""
        top = self._hierarchy.path_of("cgroup.procs", directory)
        root = Path(self._hierarchy.path, top).parent
        for folder, _, _ in os.walk(root, topdown=False):
            yield f"{Path(folder).relative_to(self._hierarchy.path)}/cgroup.procs"

    def _text(self, path: str) -> bytes | None:
        """A file's text; None where there is none; empty where it cannot be read."""
        try:
            return self._hierarchy.read_text(path)
        except OSError as error:
            return None if error.errno in _GONE else b""
