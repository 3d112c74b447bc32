# SPDX-License-Identifier: Apache-2.0
"""The plan of a node's traffic through the executor, on a link and a table that are made up."""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from koord.agent.executor.claim import Claim
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.target import TRAFFIC, Target
from koord.agent.executor.writers.traffic import TrafficKernel, TrafficWriter
from koord.agent.host.traffic.changes import LinkAction, LinkChange, LinkState, RootQdisc
from koord.agent.host.traffic.nftables import PacketTable
from koord.agent.host.traffic.plan import LAYOUT, TrafficClass, TrafficPlan, handle
from koord.agent.host.traffic.socket_cgroups import SocketCgroup, socket_cgroups
from koord.agent.host.traffic.tc_links import TcLinks
from koord.base.clock import VirtualClock
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version

OURS, TBF = RootQdisc("htb", handle(0), 2), RootQdisc("tbf", 0x80010000)
FIXED = tuple(TrafficClass(minor, parent, 1000, 5000, 0) for minor, parent in LAYOUT.items())
PLAN = TrafficPlan(FIXED, {"10.0.0.1": 4, "fd00::1": 3}, {"kubepods/podu1": 4})
CLASSIDS = {b"\x04\x00\x01\x00": 0x10004}


class Kernel:
    """A link or more, and the table."""

    def __init__(self, *links: LinkState) -> None:
        self.found = {link.name: link for link in links}
        self.table: PacketTable | None = None
        self.refused: dict[str, int] = {}
        self.steps = 0

    def read(self) -> list[LinkState]:
        self._refuse("read")
        return list(self.found.values())

    def apply(self, link: LinkState, changes: list[LinkChange]) -> None:
        self._refuse("apply")
        for action, row in changes:
            self.steps += 1
            now = self.found[link.name]
            classes = dict(now.classes)
            if action in (LinkAction.ADD_ROOT, LinkAction.DELETE_ROOT):
                root = OURS if action is LinkAction.ADD_ROOT else RootQdisc("noqueue", 0)
                self.found[link.name] = now._replace(root=root, classes={})
                continue
            assert row is not None
            classes[row.minor] = row
            if action is LinkAction.DELETE_CLASS:
                del classes[row.minor]
            self.found[link.name] = now._replace(classes=classes)

    def _refuse(self, what: str) -> None:
        if number := self.refused.get(what):
            raise OSError(number, f"{what} refused")


class Tables:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def read(self) -> PacketTable | None:
        return self._kernel.table

    def replace(self, table: PacketTable | None) -> None:
        self._kernel._refuse("table")
        if table and any(name.startswith("cgroups") for name in table.maps):
            self._kernel._refuse("socket")
        self._kernel.table = table


class Node:
    def __init__(self, folder: Path, kernel: Kernel, version: Version = Version.V1) -> None:
        self.kernel, self.clock = kernel, VirtualClock()
        hierarchy = Hierarchy(str(folder), version)
        self.writer = TrafficWriter(hierarchy, TrafficKernel(kernel, Tables(kernel)))
        self.executor = HostExecutor(
            [self.writer], Journal(folder / "state", "boot"), self.clock, ExecutorOptions(version)
        )

    def want(self, plan: TrafficPlan | None) -> None:
        claims = [] if plan is None else [Claim(TRAFFIC, "", plan.text(), "a test")]
        self.executor.state("hook", "node", claims)
        self.executor.settle()

    def failures(self) -> list[str]:
        return [each.result.message for each in self.executor.failures()]


def link(name: str = "eth0", root: RootQdisc | None = None, **more: object) -> LinkState:
    made = LinkState(name, root or RootQdisc("noqueue", 0), {})
    return made._replace(**more)  # type: ignore[arg-type]


def test_a_plan_is_put_into_effect_and_taken_back(tmp_path: Path) -> None:
    node = Node(tmp_path, kernel := Kernel(link()))
    node.want(PLAN)
    assert kernel.found["eth0"] == link(root=OURS, classes={row.minor: row for row in FIXED})
    assert kernel.table is not None
    assert kernel.table.maps == {
        "ipv4": {b"\x0a\x00\x00\x01": 0x10004},
        "ipv6": {b"\xfd" + bytes(14) + b"\x01": 0x10003},
        "classids": CLASSIDS,
    }
    steps, table = kernel.steps, kernel.table
    node.executor.recheck()
    node.executor.settle()
    assert (kernel.steps, kernel.table) == (steps, table)
    kernel.table = None
    kernel.apply(kernel.found["eth0"], [LinkChange(LinkAction.DELETE_CLASS, FIXED[-1])])
    node.executor.recheck()
    node.executor.settle()
    assert (kernel.found["eth0"].classes, kernel.table) == (
        {row.minor: row for row in FIXED}, table,
    )  # fmt: skip
    node.want(None)
    assert (kernel.found["eth0"], kernel.table) == (link(), None)
    assert node.failures() == []


def test_an_agent_that_was_killed_leaves_what_the_next_one_takes_back(tmp_path: Path) -> None:
    kernel = Kernel(link())
    Node(tmp_path, kernel).want(PLAN)
    again = Node(tmp_path, kernel)
    steps = kernel.steps
    again.want(PLAN)
    assert kernel.steps == steps
    assert again.executor.give_all_back() == []
    assert (kernel.found["eth0"], kernel.table) == (link(), None)


def test_anothers_qdisc_is_left_alone_and_told_of(tmp_path: Path) -> None:
    node = Node(tmp_path, kernel := Kernel(link(root=TBF)))
    node.want(PLAN)
    assert node.failures() == [
        "network.classes: root qdisc tbf 8001: of eth0 is another's, expected the kernel's own or "
        "1: of koord"
    ]
    assert (kernel.found["eth0"], kernel.table) == (link(root=TBF), None)
    node.want(None)
    assert (kernel.found["eth0"], node.failures()) == (link(root=TBF), [])


def test_the_classes_go_where_the_default_route_goes(tmp_path: Path) -> None:
    node = Node(tmp_path, kernel := Kernel(link("a"), link("b", uplink=False)))
    node.want(PLAN)
    kernel.found = {
        "a": kernel.found["a"]._replace(uplink=False),
        "b": link("b"),
        "c": link("c", root=OURS, uplink=False, classes={1: FIXED[0]}),
    }
    node.executor.recheck()
    node.executor.settle()
    assert kernel.found["a"].root.handle == 0
    assert len(kernel.found["b"].classes) == len(FIXED)
    assert kernel.found["c"].root == OURS  # perhaps another's
    kernel.found["b"] = kernel.found["b"]._replace(uplink=False)
    node.executor.recheck()
    node.executor.settle()
    assert node.failures() == ["network.classes: no default route"]


@pytest.mark.parametrize(
    ("what", "number", "told", "unsupported"),
    [("read", errno.EPERM, "refused", False), ("apply", errno.EPERM, "refused", False),
     ("table", errno.EPERM, "refused", False), ("apply", errno.EOPNOTSUPP, "", True),
     ("read", errno.ENOPKG, "", True), ("table", errno.EPROTONOSUPPORT, "", True)],
)  # fmt: skip
def test_what_the_kernel_refuses_is_told_and_tried_again(
    tmp_path: Path, what: str, number: int, told: str, unsupported: bool
) -> None:
    node = Node(tmp_path, kernel := Kernel(link()))
    kernel.refused[what] = number
    node.want(PLAN)
    assert node.executor.unsupported() == ([TRAFFIC] if unsupported else [])
    assert all(told in line for line in node.failures())
    assert bool(node.failures()) is not unsupported
    kernel.refused.clear()
    node.clock.advance(61)
    node.executor.settle()
    assert len(kernel.found["eth0"].classes) == len(FIXED)
    node.want(None)
    assert (kernel.found["eth0"], kernel.table, node.failures()) == (link(), None, [])


def test_who_cannot_give_it_back_says_so_and_keeps_it_in_the_journal(tmp_path: Path) -> None:
    Node(tmp_path, kernel := Kernel(link())).want(PLAN)
    kernel.refused["read"] = errno.ENOPKG
    (failure,) = Node(tmp_path, kernel).executor.give_all_back()
    assert "read refused" in failure.result.message
    kernel.refused.clear()
    assert Node(tmp_path, kernel).executor.give_all_back() == []
    assert (kernel.found["eth0"], kernel.table) == (link(), None)


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with pytest.raises(OSError, match=r"pip install 'koord\[agent\]'"):
        TcLinks().read()


def mounts(folder: Path, root: str = "/", kind: str = "cgroup2") -> str:
    made = folder / "mountinfo"
    made.write_text(
        f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 {root} {folder} rw - {kind} cgroup rw\n"
    )
    return str(made)


def test_cgroups_of_sockets_have_a_level_and_an_id(tmp_path: Path) -> None:
    place = tmp_path / "kubepods/besteffort/podu1"
    place.mkdir(parents=True)
    wanted = ["kubepods/besteffort/podu1", "kubepods/podu2"]
    found = SocketCgroup(3, place.stat().st_ino)
    seen = socket_cgroups(str(tmp_path), wanted, mounts(tmp_path))
    assert seen == {wanted[0]: found}
    inner = socket_cgroups(f"{tmp_path}/kubepods", ["besteffort/podu1"], mounts(tmp_path))
    assert inner == {"besteffort/podu1": found}
    above = socket_cgroups(str(tmp_path), wanted, mounts(tmp_path, "/a/b"))
    assert above == {wanted[0]: found._replace(level=5)}
    with pytest.raises(OSError, match="a cgroup namespace of its own"):
        socket_cgroups(str(tmp_path), wanted, mounts(tmp_path, "/../.."))
    with pytest.raises(OSError, match="no cgroup v2 at"):
        socket_cgroups(str(tmp_path), wanted, mounts(tmp_path, kind="cgroup"))


def test_on_v2_pods_in_the_nodes_network_are_told_by_their_cgroup_or_said_to_be_untold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, kernel := Kernel(link()), Version.V2)
    node.want(PLAN)
    assert node.failures() == [
        "network.classes: pods in the node's network are all in the class of the node: "
        f"[Errno 2] no cgroup v2 at {tmp_path}"
    ]
    assert kernel.table is not None
    assert kernel.table.maps.keys() == {"ipv4", "ipv6"}

    def found(tree: str, directories: Mapping[str, int]) -> dict[str, SocketCgroup]:
        return {name: SocketCgroup(2, 77) for name in directories}

    monkeypatch.setattr("koord.agent.executor.writers.traffic.socket_cgroups", found)
    kernel.refused["socket"] = errno.ENOENT
    node.executor.recheck()
    node.executor.settle()
    assert "socket refused" in node.failures()[0]
    assert kernel.table.maps.keys() == {"ipv4", "ipv6"}
    kernel.refused.clear()
    node.executor.recheck()
    node.executor.settle()
    assert node.failures() == []
    assert kernel.table.maps["cgroups2"] == {b"\x4d" + bytes(7): 0x10004}


@pytest.mark.parametrize(("directory", "value"), [("", ""), ("x", PLAN.text()), ("", "{}")])
def test_other_values_are_refused(tmp_path: Path, directory: str, value: str) -> None:
    node = Node(tmp_path, Kernel(link()))
    assert node.writer.refusal(Target(TRAFFIC, directory), value)
