# SPDX-License-Identifier: Apache-2.0
"""Traffic classes of the node's link, and the table that says which packets belong to them.

Rule: docs/reference/hooks.md#tcnetworkqos. Both are koord's as a whole: what was there before is
the kernel's own, so giving back is removing.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple, Protocol

from koord.agent.executor.target import TRAFFIC, Target, Value
from koord.agent.host.traffic.changes import (
    LinkAction,
    LinkChange,
    LinkState,
    QdiscOwner,
    changes_of,
    owner_of,
)
from koord.agent.host.traffic.nftables import CGROUPS, NfTables, PacketTable, table_of
from koord.agent.host.traffic.plan import LS_GROUP, TrafficPlan, handle, plan_of
from koord.agent.host.traffic.socket_cgroups import socket_cgroups
from koord.agent.host.traffic.tc_links import Links, TcLinks
from koord.base.errors import one_line
from koord.kernels.cgroup import Outcome, Written
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.writers.target_writer import WriteRequest
    from koord.kernels.cgroup import Hierarchy

_UNCHANGED = Written(Outcome.UNCHANGED, 0, "")
_WRITTEN = Written(Outcome.WRITTEN, 0, "")
# No such program here, or no such part of the kernel: looked for again once in a long while.
_UNSUPPORTED = frozenset({errno.ENOPKG, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT})


class PacketTables(Protocol):
    """Where koord's table of packets is."""

    def read(self) -> PacketTable | None:
        """As it is; None where there is none. Raises OSError."""
        ...

    def replace(self, table: PacketTable | None) -> None:
        """Another one for it; None removes it. Raises OSError, with nothing changed."""
        ...


class TrafficKernel(NamedTuple):
    """The kernel's two sides."""

    links: Links
    tables: PacketTables


class TrafficWriter:
    """Puts a plan into effect; removes it when nobody claims one.

    Args:
        hierarchy: the cgroup tree of pods.
        kernel: its two sides; this machine's if None.
    """

    def __init__(self, hierarchy: Hierarchy, kernel: TrafficKernel | None = None) -> None:
        self._hierarchy = hierarchy
        self._kernel = kernel or TrafficKernel(TcLinks(), NfTables())
        self._written = ""

    def takes(self, resource: str) -> bool:
        """Whether it is the plan of traffic classes."""
        return resource == TRAFFIC

    def refusal(self, target: Target, value: Value) -> str:
        """A directory, or no plan."""
        try:
            right = not target.directory and bool(plan_of(str(value)).classes)
        except ValueError:
            right = False
        return "" if right else "a plan of traffic classes, and no directory"

    def held(self, target: Target) -> Value:
        """The plan that is in effect by koord's doing; empty for none, or for less than all."""
        return self._written

    def original(self, target: Target) -> Value:
        """None: another's qdisc is left alone, and the kernel's own comes back by itself."""
        return ""

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        """What already is as the plan wants it is left alone."""
        return [self._one(request) for request in requests]

    def _one(self, request: WriteRequest) -> Written:
        self._written = ""
        try:
            written = self._effect(plan_of(str(request.value)))
        except OSError as error:
            return _failed(request, error)
        if written.outcome is not Outcome.FAILED:
            self._written = str(request.value)
        return written

    def _effect(self, plan: TrafficPlan) -> Written:
        links = self._kernel.links.read()
        uplink = next((link for link in links if link.uplink), None)
        if plan.classes:
            if uplink is None:
                return Written(Outcome.FAILED, errno.ENETUNREACH, f"{TRAFFIC}: no default route")
            if owner_of(uplink) is QdiscOwner.OTHER:
                self._packets(TrafficPlan())
                return Written(Outcome.FAILED, errno.EEXIST, _not_ours(uplink))
        # A link that was the default route's once has nothing to divide any more.
        steps = [
            (link, changes_of(link, plan) if link is uplink else _removal(link)) for link in links
        ]
        changed = [(link, todo) for link, todo in steps if todo]
        for link, todo in changed:
            self._kernel.links.apply(link, todo)
        moved, lacking = self._packets(plan)
        if lacking:
            return Written(Outcome.FAILED, errno.EOPNOTSUPP, lacking)
        return _WRITTEN if changed or moved else _UNCHANGED

    def _packets(self, plan: TrafficPlan) -> tuple[bool, str]:
        """Whether the table was another one, and which packets cannot be told apart."""
        wanted, lacking = self._table(plan) if plan.classes else (None, "")
        if self._kernel.tables.read() == wanted:
            return False, lacking
        try:
            self._kernel.tables.replace(wanted)
        except OSError as error:
            if wanted is None or not any(name.startswith(CGROUPS) for name in wanted.maps):
                raise
            self._kernel.tables.replace(table_of(plan, False, {}))
            lacking = _untold(error)
        return True, one_line(lacking)

    def _table(self, plan: TrafficPlan) -> tuple[PacketTable, str]:
        if self._hierarchy.version is Version.V1:
            return table_of(plan, True, {}), ""
        if not plan.cgroups:
            return table_of(plan, False, {}), ""
        try:
            return table_of(plan, False, socket_cgroups(self._hierarchy.path, plan.cgroups)), ""
        except OSError as error:
            return table_of(plan, False, {}), _untold(error)


def _removal(link: LinkState) -> list[LinkChange]:
    # Like koord's for sure: an HTB without these classes may be anybody's, where koord never was.
    return [LinkChange(LinkAction.DELETE_ROOT)] if LS_GROUP in link.classes else []


def _not_ours(link: LinkState) -> str:
    root = link.root
    return (
        f"{TRAFFIC}: root qdisc {root.kind} {root.handle >> 16:x}: of {link.name} is another's, "
        f"expected the kernel's own or {handle(0) >> 16:x}: of koord"
    )


def _untold(error: OSError) -> str:
    # The packets of all other pods are told apart by their address.
    return f"{TRAFFIC}: pods in the node's network are all in the class of the node: {error}"


def _failed(request: WriteRequest, error: OSError) -> Written:
    # What is to be given back is there, whatever this process lacks for that.
    lacks = error.errno in _UNSUPPORTED and not request.giving_back
    outcome = Outcome.UNSUPPORTED if lacks else Outcome.FAILED
    return Written(outcome, error.errno or errno.EIO, one_line(f"{request.target}: {error}"))
