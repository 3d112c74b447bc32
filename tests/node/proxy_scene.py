# SPDX-License-Identifier: Apache-2.0
"""Hooks through the CRI proxy on a real containerd: ``python -m tests.node.proxy_scene ORDER``.

The hook server is a stand-in; proxy, runtime, kernel and containers are real.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socketserver
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from tests.node.cri import CriClient, CriPod
from tests.node.hook_server import StandInHookServer
from tests.node.image import write_image
from tests.node.inside import write_figures
from tests.node.machine import RealNode, mount_all, until
from tests.node.packages import find as find_package
from tests.node.scene import read
from tests.node.start_times import Way, compared, in_turn
from tests.node.streaming import StreamingClient, registry

PROXY_SOCKET = "/run/koord-runtimeproxy/runtimeproxy.sock"
_MIB = 1 << 20
_SAYS = (
    "grep Cpus_allowed_list /proc/self/status; cat /proc/self/oom_score_adj; "
    "echo hook=$FROM_HOOK; exec sleep 100000"
)
COMMAND = ["/bin/sh", "-c", _SAYS]
BATCH = {"cpu_shares": 512, "cpu_quota": 50_000, "memory_limit_in_bytes": 32 * _MIB}


class ProxyNode(RealNode):
    """A node without a cluster, whose runtime is behind the proxy.

    Args:
        folder: on a file system that overlays can lie on.

    Attributes:
        direct: the runtime itself; ``cri`` is the proxy.
        hooks: the hook server.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        mount_all()
        self._programs = {}
        self._make_kubepods()
        self.start_containerd()
        self.import_images()
        self.direct = CriClient("/run/containerd/containerd.sock", Path("/run/logs"))
        self.hooks = StandInHookServer(Path("/run/hooks.sock"), folder / "hooks.d" / "hooks.json")
        self.hooks.start()
        self.start_proxy()

    def start_proxy(self, hook_seconds: float = 1.0) -> None:
        """Starts it, and waits until it answers.

        Args:
            hook_seconds: how long it waits for a hook server.
        """
        arguments = [
            "--koord-runtimeproxy-endpoint", PROXY_SOCKET,
            "--remote-runtime-service-endpoint", "/run/containerd/containerd.sock",
            "--runtime-hook-config-dir", str(self.folder / "hooks.d"),
            "--runtime-hook-timeout", f"{hook_seconds}s", "--state-dir", str(self.pod_folder),
        ]  # fmt: skip
        call = [sys.executable, "-m", "koord.cli.daemons.runtime_proxy", *arguments]
        self._start("proxy", call)
        self.cri = CriClient(PROXY_SOCKET, Path("/run/logs"))
        until("the proxy answers", self._answers)

    def _answers(self) -> bool:
        if self._programs["proxy"].poll() is not None:
            raise AssertionError(f"the proxy ended: {self.log('proxy')[-3000:]}")
        try:
            return bool(self.cri.version())
        except Exception:
            return False

    def kill_proxy(self) -> None:
        """kill -9."""
        self._end("proxy", signal.SIGKILL)

    @property
    def pod_folder(self) -> Path:
        """Where the proxy keeps pods."""
        return self.folder / "pods"

    def pod_files(self) -> list[bytes]:
        """What is there."""
        return [path.read_bytes() for path in self.pod_folder.glob("*.pod")]

    def proxy_status(self) -> dict[str, Any]:
        """What the proxy tells of itself."""
        with urllib.request.urlopen("http://127.0.0.1:9318/status", timeout=20) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def run(self, pod: CriPod, **resources: Any) -> tuple[str, str]:
        """Sandbox and container of a pod that runs."""
        sandbox = self.cri.run_pod(pod)
        container = self.cri.create(sandbox, pod, COMMAND, **resources)
        self.cri.start(container)
        return sandbox, container

    def pod(self, name: str, **more: str) -> CriPod:
        """A pod with its cgroup, as a kubelet makes it."""
        directory = f"kubepods/besteffort/pod{name}"
        self.make_directory(directory, **more)
        return CriPod(name, f"uid-{name}", directory)


def run(node: ProxyNode) -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {"runtime": node.cri.version(), "direct": node.direct.version()}
    _bound_and_batch(node, found)
    _above_the_pods_quota(node, found)
    _passes(node, found)
    _killed_between(node, found)
    _overhead(node, found)
    _hook_server_fails(node, found)
    found["left"] = until("nothing is left", lambda: _nothing_left(node))
    found["status"] = node.proxy_status()
    found["complaints"] = [line for line in node.log("proxy").splitlines() if "Traceback" in line]
    return found


def _bound_and_batch(node: ProxyNode, found: dict[str, Any]) -> None:
    node.hooks.resources["bound"] = {"cpuset_cpus": "1", "cpu_quota": -1, "oom_score_adj": 300}
    node.hooks.environment["bound"] = {"FROM_HOOK": "yes"}
    node.hooks.resources["batch"] = BATCH
    bound, batch = node.pod("bound"), node.pod("batch")
    asked = {"cpu_shares": 1024, "cpu_quota": 100_000, "cpu_period": 100_000}
    sandbox, container = node.run(bound, **asked, oom_score_adj=-997)
    found["bound says"] = until("output", lambda: lines(node, bound, 3))
    found["bound"] = read(node, bound, container)
    other, second = node.run(batch, cpu_shares=2, oom_score_adj=1000)
    found["batch"] = read(node, batch, second)
    # The kubelet has its own idea: what hooks want stays.
    node.cri.update(second, cpu_shares=2, cpu_quota=10_000, cpu_period=100_000)
    found["batch updated"] = read(node, batch, second)
    node.cri.remove(sandbox, container)
    node.cri.remove(other, second)
    found["stages"] = until("all stages", lambda: all_stages(node, "bound"))


def _above_the_pods_quota(node: ProxyNode, found: dict[str, Any]) -> None:
    """On cgroup v1 the kernel takes no quota above the pod's, and runc starts no such container."""
    node.hooks.resources["low"] = {"cpu_quota": 50_000}
    low = node.pod("low", cpu_cfs_quota_us="20000")
    sandbox, container = node.run(low, cpu_shares=2, cpu_quota=10_000, cpu_period=100_000)
    found["low"] = read(node, low, container)
    asked = {"cpu_quota": 50_000, "cpu_period": 100_000}
    refused = node.direct.create(sandbox, low, COMMAND, "second", **asked)
    try:
        node.direct.start(refused)
    except grpc.RpcError as error:
        found["without the proxy"] = error.details()
    node.cri.remove(sandbox, container)


def _passes(node: ProxyNode, found: dict[str, Any]) -> None:
    """What streams, and images: nothing of it is the proxy's business."""
    streams = StreamingClient(PROXY_SOCKET)
    events = streams.events()
    pod = node.pod("streams")
    sandbox = node.cri.run_pod(pod)
    command = ["/bin/sh", "-c", "while true; do echo tick; sleep 0.05; done"]
    container = node.cri.create(sandbox, pod, command)
    node.cri.start(container)
    found["exec sync"] = streams.exec_sync(container, "/bin/echo", "hello")
    found["exec"] = streams.exec(container, "/bin/echo", "hello")
    found["attach"] = streams.attach(container)
    found["logs"] = until("log", lambda: node.cri.output(pod))[0]
    Path("/run/logs/streams.log").rename("/run/logs/streams.log.1")
    streams.reopen_log(container)
    found["rotated"] = until("new log", lambda: node.cri.output(pod))[0]
    with echo_port() as port:
        found["port"] = streams.port_forward(sandbox, port, b"over the port").decode()
    node.cri.remove(sandbox, container)
    found["events"] = [next(events).container_event_type for _ in range(4)]
    events.cancel()
    found["images"], found["image"] = streams.images(), streams.image_id("example.test/busybox:1")
    write_image("pulled:1", node.folder / "pulled.tar", find_package("busybox"), "/bin/sleep", "1")
    with registry(node.folder / "pulled.tar") as port:
        name = f"127.0.0.1:{port}/pulled:1"
        found["pulled"] = streams.pull(name)
        found["pulled image"] = streams.image_id(name)
        missing = f"127.0.0.1:{port}/nothing@sha256:{'0' * 64}"
        direct = StreamingClient("/run/containerd/containerd.sock")
        found["missing"] = [streams.pull(missing), direct.pull(missing)]
        direct.close()
    streams.close()


def _killed_between(node: ProxyNode, found: dict[str, Any]) -> None:
    """kill -9 between creation and start: the next proxy knows both."""
    pod = node.pod("killed")
    sandbox = node.cri.run_pod(pod)
    container = node.cri.create(sandbox, pod, COMMAND, cpu_shares=77)
    until("it is on disk", lambda: any(container.encode() in f for f in node.pod_files()))
    node.kill_proxy()
    node.start_proxy()
    node.cri.start(container)
    stage, request = next(
        (stage, request) for stage, request in node.hooks.requests[::-1]
        if request.pod_meta.name == "killed" and stage == "PreStartContainer"
    )  # fmt: skip
    found["killed"] = {
        "stage": stage, "uid": request.pod_meta.uid, "container": request.container_meta.name,
        "shares": request.container_resources.cpu_shares, "parent": request.pod_cgroup_parent,
        "runs": bool(node.cri.started_at(container)),
    }  # fmt: skip
    # What is not on disk the runtime tells.
    node.kill_proxy()
    shutil.rmtree(node.pod_folder)
    node.start_proxy()
    until("it has asked", lambda: node.proxy_status()["containers"])
    node.cri.update(container, cpu_shares=88)
    request = node.hooks.requests[-1][1]
    found["listed"] = {
        "uid": request.pod_meta.uid, "container": request.container_meta.name,
        "shares": request.container_resources.cpu_shares, "parent": request.pod_cgroup_parent,
    }  # fmt: skip
    node.cri.remove(sandbox, container)


def _hook_server_fails(node: ProxyNode, found: dict[str, Any]) -> None:
    node.hooks.resources["wrong"] = BATCH
    found["wrong"] = {}

    def one(way: str) -> None:
        pod = node.pod(f"wrong-{way}")
        sandbox, container = node.run(pod, cpu_shares=2)
        found["wrong"][way] = read(node, pod, container)["cpu.shares"]
        node.cri.remove(sandbox, container)

    node.hooks.raw = b"\xff\xff\xff"
    one("nonsense")
    node.hooks.raw = None
    node.hooks.delay_seconds, answered = 2.0, node.hooks.answered
    one("slow")
    found["answered meanwhile"] = node.hooks.answered - answered
    node.hooks.delay_seconds = 0.0
    node.hooks.stop()
    node.hooks.register("Ignore")
    one("dead")
    node.hooks.register("Fail")
    pod = node.pod("refused")
    try:
        node.cri.run_pod(pod)
    except grpc.RpcError as error:
        found["refused"] = [error.code().name, error.details()]
    node.hooks.start("Ignore")


def _overhead(node: ProxyNode, found: dict[str, Any]) -> None:
    """Creation and start, without the proxy and through it."""
    pod = node.pod("many")
    sandbox = node.cri.run_pod(pod)
    ways = {"direct": Way(node.direct, sandbox, pod), "proxy": Way(node.cri, sandbox, pod)}
    starts, before = int(os.environ.get("KOORD_NODE_STARTS", "8")), node.cpu_seconds("proxy")
    found["milliseconds"] = compared(in_turn(ways, starts, COMMAND, cpu_shares=2), "direct")
    node.cri.remove(sandbox)
    spent = node.cpu_seconds("proxy") - before
    # With what ends a container: five calls and six of hook servers.
    found["proxy CPU milliseconds a container"] = round(1000 * spent / starts, 1)


def _nothing_left(node: ProxyNode) -> dict[str, Any] | None:
    status = node.proxy_status()
    left = {"pods": status["pods"], "containers": status["containers"]}
    left["files"] = len(node.pod_files())
    return left if not any(left.values()) else None


def all_stages(node: ProxyNode, pod: str) -> list[str]:
    """Those of a pod, once the last has come."""
    stages = node.hooks.stages(pod)
    return stages if "PostStopPodSandbox" in stages else []


@contextmanager
def echo_port() -> Iterator[int]:
    """A port of loopback that answers with what it gets."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(self.request.recv(1000))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def lines(node: RealNode, pod: CriPod, count: int) -> list[str]:
    """What its container printed, once that is so many lines."""
    said = node.cri.output(pod)
    return said if len(said) >= count else []


if __name__ == "__main__":
    write_figures(lambda folder, _: run(ProxyNode(folder)))
