# SPDX-License-Identifier: Apache-2.0
"""resctrl groups: the group itself, lines of its schemata, and the cgroups whose threads are in it.

Rules: docs/reference/executor.md#other-targets, docs/reference/cgroup.md#schemata;
Documentation/arch/x86/resctrl.rst.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from koord.agent.executor.target import (
    RESCTRL_GROUP,
    RESCTRL_MEMBERS,
    RESCTRL_SCHEMATA,
    Target,
    Value,
    check_directory,
)
from koord.base.errors import KoordError
from koord.kernels.cgroup import Hierarchy, Outcome, Written
from koord.kernels.cgroup_parse import ids_to_add, parse_ids
from koord.kernels.resctrl import parse_schemata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.writers.rooted_files import RootedFiles
    from koord.agent.executor.writers.target_writer import WriteRequest

POD_GROUP_PREFIX = "koordlet-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LINE = re.compile(r"[A-Z0-9]{2,16}:[0-9a-f=;]{1,4096}")
_RESERVED = frozenset({"info", "mon_data", "mon_groups"})
_UNCHANGED = Written(Outcome.UNCHANGED, 0, "")
_WRITTEN = Written(Outcome.WRITTEN, 0, "")


class ResctrlWriter:
    """Writers of one mounted resctrl tree.

    A group that koord made is removed when nobody claims it any more, and its threads fall back to
    the root group. Lines and members need their group to be claimed as well.

    Args:
        tree: the mount point.
        cgroups: where the threads of members are read.
    """

    def __init__(self, tree: RootedFiles, cgroups: Hierarchy) -> None:
        self._tree, self._cgroups = tree, cgroups

    def takes(self, resource: str) -> bool:
        """Whether it is about resctrl."""
        return resource in (RESCTRL_GROUP, RESCTRL_SCHEMATA, RESCTRL_MEMBERS)

    def refusal(self, target: Target, value: Value) -> str:
        """A name that can be no group's, or a line of another form."""
        name = target.directory
        if not _NAME.fullmatch(name) or name in _RESERVED:
            return "the name of a resctrl group has letters, digits, '.', '_' and '-'"
        if target.resource == RESCTRL_GROUP and value != 1:
            return "a group is claimed with 1"
        if target.resource == RESCTRL_SCHEMATA and not _LINE.fullmatch(str(value)):
            return "one line of schemata such as L3:0=7;1=7;"
        if target.resource == RESCTRL_MEMBERS:
            try:
                check_directory(str(value))
            except KoordError as error:
                return str(error)
            return "" if value else "a cgroup directory other than the root"
        return ""

    def held(self, target: Target) -> Value:
        """1 or 0 for a group, its line, and nothing for members."""
        self._tree.read("schemata")  # not mounted: ENOENT
        if target.resource == RESCTRL_GROUP:
            return int(self._tree.exists(target.directory))
        if target.resource == RESCTRL_MEMBERS:
            return ""
        try:
            return self._line(target)
        except FileNotFoundError:
            return ""

    def original(self, target: Target) -> Value:
        """The same; a pod's group counts as koord's own even where another agent made it."""
        held = self.held(target)
        ours = target.directory.startswith(POD_GROUP_PREFIX)
        return 0 if ours and target.resource == RESCTRL_GROUP else held

    def groups(self) -> list[Target]:
        """Groups of pods that are there already, made by an earlier agent."""
        try:
            names = self._tree.directories()
        except OSError:
            return []
        return [Target(RESCTRL_GROUP, n) for n in names if n.startswith(POD_GROUP_PREFIX)]

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        """Members that leave, then groups, lines, members that join, and groups that go."""
        results: dict[int, Written] = {}
        order = sorted(range(len(requests)), key=lambda i: (_turn(requests[i]), requests[i].target))
        for i in order:
            results[i] = self._one(requests[i])
        return [results[i] for i in range(len(requests))]

    def _one(self, request: WriteRequest) -> Written:
        try:
            if request.target.resource == RESCTRL_GROUP:
                return self._group(request.target.directory, bool(request.value))
            if request.target.resource == RESCTRL_SCHEMATA:
                return self._schemata(request)
            return self._members(request)
        except OSError as error:
            return self._failure(request, error)
        except ValueError as error:
            return Written(Outcome.FAILED, errno.EBADMSG, f"{request.target}: {error}")

    def _failure(self, request: WriteRequest, error: OSError) -> Written:
        number = error.errno or errno.EIO
        if number in (errno.ENOENT, errno.ENODEV):
            return Written(Outcome.MISSING, number, f"{request.target}: {error}")
        if number == errno.ENOSPC and request.target.resource == RESCTRL_GROUP:
            return Written(
                Outcome.FAILED, number, f"{request.target}: {self._group_limit_failure()}"
            )
        return Written(Outcome.FAILED, number, f"{request.target}: {error}{self._status()}")

    def _group(self, name: str, wanted: bool) -> Written:
        there = self._tree.exists(name)
        if there == wanted:
            return _UNCHANGED
        if wanted:
            self._tree.make_directory(name)
        else:
            self._tree.remove_directory(name)
        return _WRITTEN

    def _schemata(self, request: WriteRequest) -> Written:
        group, value = request.target.directory, str(request.value)
        if not value:
            return _UNCHANGED  # The group was not there: it goes, and its lines with it.
        if _holds(value, self._line(request.target)):
            return _UNCHANGED
        self._tree.write(f"{group}/schemata", f"{value}\n")
        said = self._line(request.target)
        if _holds(value, said):
            return _WRITTEN
        return Written(Outcome.FAILED, 0, f"{request.target}: wrote {value!r}, reads {said!r}")

    def _members(self, request: WriteRequest) -> Written:
        group, member = request.target.directory, request.target.field
        inside = self._tree.read(f"{group}/tasks")
        wanted = parse_ids(self._cgroups.read_text(self._cgroups.path_of("tasks", member))).tolist()
        if request.giving_back:
            present = set(parse_ids(inside).tolist())
            moves, place = [tid for tid in wanted if tid in present], "tasks"
        else:
            moves, place = ids_to_add(inside, wanted).tolist(), f"{group}/tasks"
        if not moves:
            return _UNCHANGED
        added = Hierarchy(self._tree.root, self._cgroups.version).add_ids(place, moves)
        if added.failed:
            message = f"{request.target}: {added.failed} of {len(moves)} threads were refused"
            return Written(Outcome.FAILED, added.first_errno, message)
        return _WRITTEN if added.added else _UNCHANGED

    def _line(self, target: Target) -> str:
        for line in self._tree.read(f"{target.directory}/schemata").splitlines():
            if line.strip().split(":", 1)[0] == target.field:
                return line.strip()
        raise ValueError(f"no {target.field} line")

    def _group_limit_failure(self) -> str:
        limits = []
        for table in ("L3", "MB"):
            path = f"info/{table}/num_closids"
            if self._tree.exists(path):
                limits.append(int(self._tree.read(path)))
        most = min(limits, default=0)
        made = len([n for n in self._tree.directories() if n not in _RESERVED])
        return f"no id is left for another group: {made} groups and the root, of {most} ids"

    def _status(self) -> str:
        try:
            status = self._tree.read("info/last_cmd_status").strip()
        except OSError:
            return ""
        return f" ({status})" if status not in ("", "ok") else ""


def _turn(request: WriteRequest) -> int:
    if request.giving_back:
        return {RESCTRL_MEMBERS: 0, RESCTRL_SCHEMATA: 4, RESCTRL_GROUP: 5}[request.target.resource]
    return {RESCTRL_GROUP: 1, RESCTRL_SCHEMATA: 2, RESCTRL_MEMBERS: 3}[request.target.resource]


def _holds(wanted: str, current: str) -> bool:
    return parse_schemata(wanted).holds_in(parse_schemata(current)) and (
        wanted.startswith(("L3:", "MB:")) or wanted.rstrip(";") == current.rstrip(";")
    )
