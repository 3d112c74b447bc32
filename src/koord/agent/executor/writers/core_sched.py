# SPDX-License-Identifier: Apache-2.0
"""Which containers may share a core: one cookie a group, given to every process of its containers.

Rule: docs/reference/hooks.md#cookies. What a group's cookie is, is remembered; after a restart it
is found again on the processes themselves, and never taken over from another group.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.agent.executor.target import CORE_SCHED, Target, Value
from koord.agent.executor.writers.target_writer import CGROUP_GONE_ERRNOS
from koord.kernels.cgroup import Outcome, Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.writers.core_sched_cookies import Cookies
    from koord.agent.executor.writers.target_writer import WriteRequest

FORGET_SECONDS = 300.0
_UNCHANGED = Written(Outcome.UNCHANGED, 0, "")
_WRITTEN = Written(Outcome.WRITTEN, 0, "")


@dataclass
class _CookieGroup:
    cookie: int
    pids: set[int] = field(default_factory=set)
    seen_seconds: float = 0.0


class CoreSchedWriter:
    """Assigns, adds and clears cookies.

    Args:
        cookies: the kernel's side.
        processes: process ids of a cgroup directory; raises OSError where it is gone.
    """

    def __init__(self, cookies: Cookies, processes: Callable[[str], list[int]]) -> None:
        self._cookies, self._processes = cookies, processes
        self._groups: dict[str, _CookieGroup] = {}
        self._group_of: dict[str, str] = {}

    def takes(self, resource: str) -> bool:
        """Whether it is core scheduling."""
        return resource == CORE_SCHED

    def refusal(self, target: Target, value: Value) -> str:
        """No container."""
        return "" if target.directory else "a cgroup directory other than the root"

    def held(self, target: Target) -> Value:
        """Nothing: a container has no group but the one that koord gives it."""
        return ""

    def gone(self, target: Target) -> bool:
        """Whether the container's cgroup is not there."""
        try:
            self._processes(target.directory)
        except OSError as error:
            return error.errno in CGROUP_GONE_ERRNOS
        return False

    def original(self, target: Target) -> Value:
        """The same."""
        return self.held(target)

    def cookie(self, group: str) -> int:
        """The cookie of a group, 0 for none yet."""
        entry = self._groups.get(group)
        return entry.cookie if entry else 0

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        """Containers that leave a group first, so that none keeps a cookie of the old one."""
        results: dict[int, Written] = {}
        for i in sorted(range(len(requests)), key=lambda i: not requests[i].giving_back):
            results[i] = self._one(requests[i], now_seconds)
        self._expire(now_seconds)
        return [results[i] for i in range(len(requests))]

    def _one(self, request: WriteRequest, now: float) -> Written:
        directory = request.target.directory
        try:
            pids = self._processes(directory)
            if request.giving_back:
                return self._disable(directory, pids)
            return self._enable(directory, str(request.value), pids, now)
        except OSError as error:
            gone = error.errno in CGROUP_GONE_ERRNOS
            if gone:
                self._group_of.pop(directory, None)
            outcome = Outcome.MISSING if gone else Outcome.FAILED
            return Written(outcome, error.errno or errno.EIO, f"{request.target}: {error}")

    # -- into a group --------------------------------------------------------------------------

    def _enable(self, directory: str, group: str, pids: list[int], now: float) -> Written:
        if not pids:
            return _UNCHANGED
        before = self._group_of.get(directory)
        if before is not None and before != group:
            self._leave(before, pids)
        self._group_of[directory] = group
        entry = self._groups.get(group) or self._adopted(group, pids)
        if entry is None:
            return self._add(group, pids, now)
        entry.seen_seconds = now
        if entry.pids >= set(pids):
            return _UNCHANGED
        others, readable = self._with_other_cookie(entry.cookie, pids)
        if not others:
            entry.pids |= readable
            return _UNCHANGED
        source = self._sibling(entry, {*others})
        if source is None:
            return self._add(group, pids, now)
        failed = self._cookies.assign(source, others)
        entry.pids |= readable - failed.keys()
        return self._outcome_of(directory, failed)

    def _adopted(self, group: str, pids: list[int]) -> _CookieGroup | None:
        """The group's cookie as an earlier agent left it on these processes."""
        taken = {entry.cookie for entry in self._groups.values()}
        for pid in pids:
            cookie = self._read(pid)
            if cookie and cookie not in taken:
                entry = self._groups[group] = _CookieGroup(cookie, {pid})
                return entry
        return None

    def _with_other_cookie(self, cookie: int, pids: list[int]) -> tuple[list[int], set[int]]:
        read = {pid: self._read(pid) for pid in pids}
        others = [pid for pid, found in read.items() if found not in (None, cookie)]
        return others, {pid for pid, found in read.items() if found is not None}

    def _sibling(self, entry: _CookieGroup, not_these: set[int]) -> int | None:
        for pid in sorted(entry.pids - not_these):
            if self._read(pid) == entry.cookie:
                return pid
            entry.pids.discard(pid)
        return None

    def _add(self, group: str, pids: list[int], now: float) -> Written:
        first, *rest = pids
        self._cookies.create(first)
        cookie = self._cookies.get(first)
        if not cookie:
            return Written(Outcome.FAILED, errno.EINVAL, f"group {group!r}: a cookie of 0")
        failed = self._cookies.assign(first, rest) if rest else {}
        self._groups[group] = _CookieGroup(cookie, set(pids) - failed.keys(), now)
        return self._outcome_of(f"group {group!r}", failed)

    # -- out of a group ------------------------------------------------------------------------

    def _disable(self, directory: str, pids: list[int]) -> Written:
        group = self._group_of.pop(directory, None)
        if group is not None:
            self._leave(group, pids)
        with_cookie = [pid for pid in pids if self._read(pid)]
        if not with_cookie:
            return _UNCHANGED
        return self._outcome_of(directory, self._cookies.clear(with_cookie))

    def _leave(self, group: str, pids: list[int]) -> None:
        if entry := self._groups.get(group):
            entry.pids -= set(pids)
            if not entry.pids:
                del self._groups[group]

    def _expire(self, now: float) -> None:
        for group, entry in list(self._groups.items()):
            if now - entry.seen_seconds > FORGET_SECONDS:
                del self._groups[group]

    def _read(self, pid: int) -> int | None:
        try:
            return self._cookies.get(pid)
        except OSError:
            return None

    @staticmethod
    def _outcome_of(where: str, failed: dict[int, int]) -> Written:
        # A process that ended meanwhile needs no cookie.
        refused = {pid: number for pid, number in failed.items() if number != errno.ESRCH}
        if not refused:
            return _WRITTEN
        pid, number = sorted(refused.items())[0]
        message = f"{where}: {len(refused)} processes were refused, first {pid}"
        return Written(Outcome.FAILED, number, message)
