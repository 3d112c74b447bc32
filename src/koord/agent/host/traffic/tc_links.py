# SPDX-License-Identifier: Apache-2.0
"""Links, their root qdiscs and HTB classes, through rtnetlink.

Rule: docs/reference/hooks.md#tcnetworkqos; tc-htb(8), rtnetlink(7).
"""

from __future__ import annotations

import errno
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from koord.agent.host.traffic.changes import LinkAction, LinkChange, LinkState, RootQdisc
from koord.agent.host.traffic.plan import ROOT, SYSTEM, TrafficClass, handle
from koord.base.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_HTB, _ROOT_PARENT = "htb", 0xFFFFFFFF
_MINOR: Final = 0xFFFF
_LEAST_BURST_BYTES, _BURSTS_PER_SECOND = 3200, 1000
_QUANTUM_BYTES = (1600, 200_000)  # a packet at least; sch_htb.c warns above


class Links(Protocol):
    """What can be asked of and done to links."""

    def read(self) -> list[LinkState]:
        """The link of the default route, and those with a root qdisc like koord's.

        Raises:
            OSError: they cannot be read.
        """
        ...

    def apply(self, link: LinkState, changes: list[LinkChange]) -> None:
        """Does the steps in their order.

        Raises:
            OSError: one failed; those before it stand.
        """
        ...


class TcLinks:
    """The links of the calling thread's network namespace."""

    def read(self) -> list[LinkState]:
        """See :class:`Links`."""
        return _apart(_read)

    def apply(self, link: LinkState, changes: list[LinkChange]) -> None:
        """See :class:`Links`."""
        _apart(lambda kernel: _apply(kernel, link, changes))


def _apart(work: Callable[[Any], T]) -> T:
    """In a thread: pyroute2 has an event loop of its own, and the agent's runs in this one."""
    with ThreadPoolExecutor(1, "netlink") as pool:
        return pool.submit(_through_netlink, work).result()


def _through_netlink(work: Callable[[Any], T]) -> T:
    try:
        # Half of the agent's own size: for those alone who switch the gate on.
        from pyroute2 import IPRoute, NetlinkError
    except ImportError as error:
        why = str(MissingExtraError("pyroute2", "agent", error.name))
        raise OSError(errno.ENOPKG, why) from None
    try:
        with IPRoute() as kernel:
            return work(kernel)
    except NetlinkError as error:
        raise OSError(error.code, f"rtnetlink: {error}") from None


def _read(kernel: Any) -> list[LinkState]:
    # Not the links: a node has one a pod, and most have no qdisc that the kernel lists.
    uplink = _uplink(kernel)
    roots = {q["index"]: _root(q) for q in kernel.get_qdiscs() if q["parent"] == _ROOT_PARENT}
    alike = {index for index, root in roots.items() if root == RootQdisc(_HTB, handle(0), SYSTEM)}
    found = []
    for index in sorted(alike if uplink is None else alike | {uplink}):
        rows = [_class(each) for each in kernel.get_classes(index=index)] if index in alike else []
        classes = {row.minor: row for row in rows if row is not None}
        root = roots.get(index, RootQdisc("noqueue", 0))
        found.append(LinkState(socket.if_indextoname(index), root, classes, index == uplink))
    return found


def _uplink(kernel: Any) -> int | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        routes = [
            (route.get_attr("RTA_PRIORITY") or 0, route.get_attr("RTA_OIF"))
            for route in kernel.get_default_routes(family=family)
        ]
        found = sorted(route for route in routes if route[1])
        if found:
            return int(found[0][1])
    return None


def _root(row: Any) -> RootQdisc:
    options = row.get_attr("TCA_OPTIONS")
    kind = str(row.get_attr("TCA_KIND"))
    told = options.get_attr("TCA_HTB_INIT") if kind == _HTB and options else None
    return RootQdisc(kind, row["handle"], told["defcls"] if told else 0)


def _class(row: Any) -> TrafficClass | None:
    options = row.get_attr("TCA_OPTIONS")
    told = options.get_attr("TCA_HTB_PARMS") if options else None
    if told is None:
        return None
    return TrafficClass(
        row["handle"] & _MINOR,
        0 if row["parent"] == _ROOT_PARENT else row["parent"] & _MINOR,
        options.get_attr("TCA_HTB_RATE64") or told["rate"],
        options.get_attr("TCA_HTB_CEIL64") or told["ceil"],
        told["prio"],
    )


def _apply(kernel: Any, link: LinkState, changes: list[LinkChange]) -> None:
    index = socket.if_nametoindex(link.name)
    for action, row in changes:
        if action is LinkAction.DELETE_ROOT:
            kernel.tc("del", index=index, handle=handle(0), parent=_ROOT_PARENT)
        elif action is LinkAction.ADD_ROOT:
            _add_root(kernel, index)
        elif row is not None and action is LinkAction.DELETE_CLASS:
            kernel.tc("del-class", index=index, handle=handle(row.minor), parent=_above(row))
        elif row is not None:
            verb = "add-class" if action is LinkAction.ADD_CLASS else "change-class"
            kernel.tc(verb, _HTB, index, handle(row.minor), parent=_above(row), **_rates(row))


def _add_root(kernel: Any, index: int) -> None:
    from pyroute2 import NetlinkError

    try:
        kernel.tc("add", _HTB, index, handle(0), default=SYSTEM)
    except NetlinkError as error:
        if error.code == errno.ENOENT:
            raise OSError(errno.EOPNOTSUPP, "this kernel has no sch_htb") from None
        raise


def _above(row: TrafficClass) -> int:
    return handle(row.parent) if row.minor != ROOT else handle(0)


def _rates(row: TrafficClass) -> dict[str, int]:
    least, most = _QUANTUM_BYTES
    return {
        "rate": row.rate_bytes,
        "ceil": row.ceil_bytes,
        "prio": row.priority,
        # A millisecond's worth: what timers of the kernel keep up with at any rate.
        "burst": max(row.rate_bytes // _BURSTS_PER_SECOND, _LEAST_BURST_BYTES),
        "cburst": max(row.ceil_bytes // _BURSTS_PER_SECOND, _LEAST_BURST_BYTES),
        "quantum": min(max(row.rate_bytes // 10, least), most),
    }
