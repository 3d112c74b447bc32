# SPDX-License-Identifier: Apache-2.0
"""A node's network on a real kernel: pods behind veths, a link out, another machine at its end.

To be run in network and mount namespaces of its own: ``python -m tests.scenes.network_scene NAME``
prints what was seen as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.agent.executor.writers.traffic import TrafficWriter
from koord.agent.hooks.builtin.tc_network_qos import TCNetworkQoS
from koord.agent.hooks.pod_contexts import pod_context
from koord.agent.hooks.reconciliation.response_claims import claims_of
from koord.agent.host.traffic.nftables import NfTables, table_of
from koord.agent.host.traffic.plan import TrafficPlan
from koord.agent.host.traffic.socket_cgroups import SocketCgroup
from koord.agent.states.pod_state import PodState
from koord.base.clock import SystemClock
from koord.kernels.cgroup import Base, Hierarchy
from koord.kernels.cgroup_parse import Version
from tests.agent.hooks.build import options, pod, snapshot
from tests.scenes import capabilities, own_cgroups

FAR, PORT = "192.0.2.2", 5001
LINK = "uplink"
_PREFIX = "koord-scene"
TOTAL, BE_LIMIT, OWN_LIMIT = 400_000_000, 40_000_000, 8_000_000
SLO = {
    "systemStrategy": {"totalNetworkBandwidth": str(TOTAL)},
    "resourceQOSStrategy": {
        "lsClass": {"networkQOS": {"enable": True, "egressRequest": 40}},
        "beClass": {"networkQOS": {"enable": True, "egressRequest": 5, "egressLimit": 10}},
    },
}
LIMITED = {"koordinator.sh/networkQOS": {"egressLimit": str(OWN_LIMIT)}}
# By how much everything may take longer: more under emulation.
_PATIENCE = float(os.environ.get("KOORD_SCENE_PATIENCE", "1"))
_SECONDS = 1.5 * _PATIENCE
_SINK = f"""
import socket, threading
server = socket.create_server(("", {PORT}))
def take(peer):
    while peer.recv(1 << 16): pass
while True:
    threading.Thread(target=take, args=(server.accept()[0],), daemon=True).start()
"""
_SEND = f"""
import socket, sys, time
with open(sys.argv[1], "a") as file: file.write("0")
peer = socket.create_connection(("{FAR}", {PORT}))
end, block = time.monotonic() + {_SECONDS}, bytes(1 << 14)
while time.monotonic() < end: peer.send(block)
"""


def sh(command: str, *, inside: int | None = None) -> str:
    """A command, in the network of a process."""
    words = command.split()
    if inside is not None:
        words = ["nsenter", "--target", str(inside), "--net", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


class Network:
    """The node's link to another machine, and pods behind it; the node masquerades."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self.far = self._namespace()
        self._veth(LINK, self.far, "192.0.2.1/24", f"{FAR}/24")
        sh(f"ip route add default via {FAR}")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        sh(f"iptables -t nat -A POSTROUTING -o {LINK} -j MASQUERADE")
        self._program(_SINK, self.far)
        self._until_sunk()

    def pod(self, number: int) -> int:
        """A pod's network; gives a process in it. Its address is 10.0.NUMBER.2."""
        inside = self._namespace()
        self._veth(f"pod{number}", inside, f"10.0.{number}.1/24", f"10.0.{number}.2/24")
        sh(f"ip route add default via 10.0.{number}.1", inside=inside)
        return inside

    def send(self, inside: int | None = None, cgroup: str = "/dev/null") -> None:
        """Sends as much as goes, from a pod or from the node, for a while."""
        words = [sys.executable, "-c", _SEND, cgroup]
        if inside is not None:
            words = ["nsenter", "--target", str(inside), "--net", *words]
        subprocess.run(words, check=True)

    def move_route(self) -> None:
        """Another link has the default route."""
        self._veth("second", self.far, "198.51.100.1/24", "198.51.100.2/24")
        sh("ip route replace default via 198.51.100.2")

    def _namespace(self) -> int:
        process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        own = Path("/proc/self/ns/net").readlink()
        _until(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own)
        sh("ip link set lo up", inside=process.pid)
        return process.pid

    def _veth(self, name: str, inside: int, here: str, there: str) -> None:
        sh(f"ip link add {name} type veth peer name eth-{name} netns {inside}")
        sh(f"ip addr add {here} dev {name}")
        sh(f"ip link set {name} up")
        sh(f"ip addr add {there} dev eth-{name}", inside=inside)
        sh(f"ip link set eth-{name} up", inside=inside)

    def _program(self, text: str, inside: int) -> None:
        words = ["nsenter", "--target", str(inside), "--net", sys.executable, "-c", text]
        process = subprocess.Popen(words)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def _until_sunk(self) -> None:
        def listens() -> bool:
            return f":{PORT:04X}" in sh("cat /proc/net/tcp", inside=self.far) or (
                f":{PORT:04X}" in sh("cat /proc/net/tcp6", inside=self.far)
            )

        _until(listens)


class Agent:
    """The hook and the executor, with the link as koordlet has it."""

    def __init__(self, hierarchy: Hierarchy, state: str) -> None:
        self.hook = TCNetworkQoS(options())
        files = CgroupFileWriter({Base.CGROUP: NativeCgroupFiles(hierarchy)})
        writers = [TrafficWriter(hierarchy), files]
        journal = Journal(state, "boot")
        settings = ExecutorOptions(hierarchy.version)
        self.executor = HostExecutor(writers, journal, SystemClock(), settings, self._note)
        self.events: list[str] = []

    def _note(self, event: object) -> None:
        self.events.append(type(event).__name__)

    def follow(self, *pods: PodState) -> None:
        """What the reconciler does with a change."""
        seen = snapshot(*pods, slo=SLO)
        self.hook.learn(seen)
        self.executor.state(self.hook.name, "node", self.hook.node(seen))
        self.executor.settle()

    def look_again(self) -> None:
        """What it does every ten seconds."""
        self.executor.recheck(self.hook.name)
        self.executor.settle()

    def failures(self) -> list[str]:
        return [each.result.message for each in self.executor.failures()]


def pod_of(qos: str, number: int, annotations: dict[str, Any] | None = None) -> PodState:
    """A pod as the kubelet tells of it."""
    made = pod(qos, uid=f"u{number}", annotations=annotations)
    made.pod.status.pod_ip = f"10.0.{number}.2"
    return made


def host_pod_of(qos: str, uid: str) -> PodState:
    """A pod in the node's network."""
    return pod(qos, uid=uid, spec={"hostNetwork": True})


def root_kind(link: str = LINK) -> str:
    """What tc(8) says the root qdisc is."""
    rows = json.loads(sh(f"tc -json qdisc show dev {link}"))
    return next(str(row["kind"]) + " " + row["handle"] for row in rows if row.get("root"))


def sent_bytes(link: str = LINK) -> dict[str, int]:
    """Bytes of each class, as tc(8) counts them."""
    text = sh(f"tc -statistics class show dev {link}")
    return {name: int(sent) for name, sent in re.findall(r"class htb (\S+).*\n Sent (\d+)", text)}


def classes(link: str = LINK) -> dict[str, str]:
    """Parent, priority, rate and ceiling of each class, as tc(8) shows them."""
    text = sh(f"tc class show dev {link}")
    found = re.findall(r"class htb (\S+) (.*) burst", text)
    return {name: re.sub(r" leaf \S+", "", rest).strip() for name, rest in found}


def rates(act: Callable[[], None]) -> dict[str, float]:
    """Bits a second that classes carried while something was done; the busy ones alone."""
    before, start = sent_bytes(), time.monotonic()
    act()
    seconds = time.monotonic() - start
    after = sent_bytes()
    found = {name: 8 * (after[name] - before.get(name, 0)) / seconds for name in after}
    return {name: rate for name, rate in found.items() if rate > 1_000_000 / _PATIENCE}


def _until(check: Callable[[], bool]) -> None:
    seconds = 20 * _PATIENCE
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"waited {seconds} seconds"
        time.sleep(0.01)


@contextlib.contextmanager
def _net_cls() -> Iterator[str]:
    """A root as of cgroup v1 whose net_cls, with those that share it, is an own directory of it.

    The hierarchy is the whole machine's, whoever mounts it: what a killed run left in it stays.
    """
    rows = [line.split() for line in Path("/proc/cgroups").read_text("ascii").splitlines()]
    own = next((row[1] for row in rows if row[0] == "net_cls"), "0")
    names = ",".join(row[0] for row in rows if row[1] == own != "0") or "net_cls"
    with tempfile.TemporaryDirectory() as root:
        whole, place = Path(root, "hierarchy"), Path(root, "net_cls")
        for each in (whole, place):
            each.mkdir()
        sh(f"mount -t cgroup -o {names} none {whole}")
        try:
            with _own(whole) as own:
                sh(f"mount --bind {own} {place}")
                try:
                    yield root
                finally:
                    sh(f"umount {place}")
        finally:
            sh(f"umount {whole}")


@contextlib.contextmanager
def _own(base: Path) -> Iterator[Path]:
    """A directory of cgroups of this process, gone afterwards with all in it."""
    own_cgroups.remove_left(base, _PREFIX)
    own = base / f"{_PREFIX}-{os.getpid()}-{time.monotonic_ns()}"
    own.mkdir()
    try:
        yield own
    finally:
        own_cgroups.remove(own)


def pods(network: Network, state: str) -> dict[str, Any]:
    """Classes are there, hold what they are to hold, and are gone at the end."""
    be, own, ls = (network.pod(number) for number in (1, 2, 3))
    seen: dict[str, Any] = {"before": root_kind()}
    agent = Agent(Hierarchy("/sys/fs/cgroup"), state)
    told = [pod_of("BE", 1), pod_of("BE", 2, LIMITED), pod_of("LS", 3)]
    agent.follow(*told)
    seen |= {"during": root_kind(), "classes": classes(), "failures": agent.failures()}
    seen["be"] = rates(lambda: network.send(be))
    seen["own"] = rates(lambda: network.send(own))
    seen["ls"] = rates(lambda: network.send(ls))
    seen["node"] = rates(network.send)
    agent.events.clear()
    agent.look_again()
    seen["idle"] = list(agent.events)
    sh(f"tc class del dev {LINK} classid 1:3")
    NfTables().replace(None)
    agent.look_again()
    seen |= {"mended": classes() == seen["classes"], "table": NfTables().read() is not None}
    agent.follow(*told[::2])
    seen["left"] = sorted(seen["classes"].keys() - classes().keys())
    network.move_route()
    agent.look_again()
    seen |= {"old": root_kind(), "new": root_kind("second")}
    # Another process of the agent, with the journal of the one before.
    again = Agent(Hierarchy("/sys/fs/cgroup"), state)
    seen["remaining"] = [str(each) for each in again.executor.give_all_back()]
    seen |= {"after": root_kind("second"), "gone": NfTables().read() is None}
    return seen


def others(network: Network, state: str) -> dict[str, Any]:
    """Another's root qdisc is left alone; the original's classes are taken the place of."""
    agent = Agent(Hierarchy("/sys/fs/cgroup"), state)
    sh(f"tc qdisc add dev {LINK} root handle 8001: tbf rate 1gbit burst 64kb latency 10ms")
    agent.follow(pod_of("BE", 1))
    seen: dict[str, Any] = {"failures": agent.failures(), "tbf": root_kind()}
    agent.executor.give_all_back()
    seen |= {"still": root_kind(), "table": NfTables().read() is None}
    sh(f"tc qdisc del dev {LINK} root")
    sh(f"tc qdisc add dev {LINK} root handle 1: htb default 2")
    sh(f"tc class add dev {LINK} parent 1: classid 1:1 htb rate 1gbit")
    for minor in (2, 3, 4):
        sh(f"tc class add dev {LINK} parent 1:1 classid 1:{minor} htb rate 1mbit prio {minor - 1}")
    second = Agent(Hierarchy("/sys/fs/cgroup"), f"{state}/second")
    second.follow(pod_of("BE", 1))
    seen |= {"taken": sorted(classes()), "none": second.failures()}
    second.executor.give_all_back()
    return seen | {"after": root_kind()}


def sockets_v1(network: Network, state: str) -> dict[str, Any]:
    """Pods in the node's network by net_cls.classid."""
    with _net_cls() as root:
        hierarchy = Hierarchy(root, Version.V1)
        state_of = host_pod_of("BE", "u1")
        place = Path(root, "net_cls", state_of.directory)
        place.mkdir(parents=True)
        agent = Agent(hierarchy, state)
        agent.follow(state_of)
        answer = agent.hook.pod(pod_context(state_of))
        assert answer is not None
        claims = claims_of(answer, state_of.directory, container=False)
        agent.executor.state(agent.hook.name, state_of.uid, claims)
        agent.executor.settle()
        seen: dict[str, Any] = {"classid": (place / "net_cls.classid").read_text()}
        seen["be"] = rates(lambda: network.send(cgroup=f"{place}/cgroup.procs"))
        seen["remaining"] = [str(each) for each in agent.executor.give_all_back()]
        return seen | {"after": (place / "net_cls.classid").read_text()}


def sockets_v2(network: Network, state: str) -> dict[str, Any]:
    """Pods in the node's network by the cgroup of their sockets."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    root = next((line.split()[4] for line in lines if " - cgroup2 " in line), "")
    assert root, "no cgroup v2"
    with _own(Path(root)) as top:
        state_of = host_pod_of("BE", "u1")
        place = top / state_of.directory
        place.mkdir(parents=True)
        agent = Agent(Hierarchy(str(top), Version.V2), state)
        try:
            agent.follow(state_of)
            found = rates(lambda: network.send(cgroup=f"{place}/cgroup.procs"))
            return {"be": found, "failures": agent.failures()}
        finally:
            agent.executor.give_all_back()


def confined(network: Network, state: str) -> dict[str, Any]:
    """With the capabilities that the chart gives for the gate, and without the one it adds."""

    def act(place: str) -> str:
        agent = Agent(Hierarchy("/sys/fs/cgroup"), place)
        agent.follow(pod_of("BE", 1))
        found = f"{agent.failures()} {sorted(classes())}"
        agent.executor.give_all_back()
        return found

    given = capabilities.of_chart()
    return {
        "with": capabilities.call_confined([*given, "NET_ADMIN"], lambda: act(f"{state}/a")),
        "without": capabilities.call_confined(given, lambda: act(f"{state}/b")),
    }


def tables(network: Network, state: str) -> dict[str, Any]:
    """Tables of many sizes, each in the place of the one before, read back."""
    draw, kernel, wrong = random.Random(5), NfTables(), []
    for size in (0, 1, 399, 400, 401, 4000, 3, 0):
        addresses = {
            str(ip_address(draw.getrandbits(draw.choice((32, 128))) | 1)): draw.randrange(
                1, 1 << 16
            )
            for _ in range(size)
        }
        names = {f"a/{'b/' * draw.randrange(3)}{n}": 4 + n for n in range(draw.randrange(5))}
        found = {name: SocketCgroup(name.count("/") + 1, draw.getrandbits(64)) for name in names}
        plan = TrafficPlan((), addresses, names)
        wanted = table_of(plan, draw.random() < 0.5, found)
        kernel.replace(wanted)
        if kernel.read() != wanted:
            wrong.append(size)
    kernel.replace(None)
    return {"wrong": wrong, "left": kernel.read() is not None}


STORIES = {
    "tables": tables,
    "pods": pods,
    "others": others,
    "sockets_v1": sockets_v1,
    "sockets_v2": sockets_v2,
    "confined": confined,
}


def main() -> None:
    """The story of an argument."""
    with contextlib.ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory())
        print(json.dumps(STORIES[sys.argv[1]](Network(stack), state)))


if __name__ == "__main__":
    main()
