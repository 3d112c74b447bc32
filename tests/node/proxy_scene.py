# SPDX-License-Identifier: Apache-2.0
"""Hooks through the CRI proxy on a real containerd: ``python -m tests.node.proxy_scene ORDER``.

The hook server is a stand-in; proxy, runtime, kernel and containers are real.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.node.cri import CriClient, CriPod
from tests.node.hook_server import StandInHookServer
from tests.node.machine import RealNode, mount_all, until
from tests.node.scene import read

PROXY_SOCKET = "/run/koord-runtimeproxy/runtimeproxy.sock"
_MIB = 1 << 20
_SAYS = (
    "grep Cpus_allowed_list /proc/self/status; cat /proc/self/oom_score_adj; "
    "echo hook=$FROM_HOOK own=$OWN; exec sleep 100000"
)
COMMAND = ["/bin/sh", "-c", _SAYS]


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
        self._import_images()
        self.direct = CriClient("/run/containerd/containerd.sock", Path("/run/logs"))
        self.hooks = StandInHookServer(Path("/run/hooks.sock"), folder / "hooks.d" / "hooks.json")
        self.hooks.start()
        self.start_proxy()

    def start_proxy(self) -> None:
        """Starts it, and waits until it answers."""
        arguments = [
            "--koord-runtimeproxy-endpoint", PROXY_SOCKET,
            "--remote-runtime-service-endpoint", "/run/containerd/containerd.sock",
            "--runtime-hook-config-dir", str(self.folder / "hooks.d"),
            "--runtime-hook-timeout", "500ms", "--addr", "127.0.0.1:9318",
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

    def pod(self, name: str, **more: str) -> CriPod:
        """A pod with its cgroup, as a kubelet makes it."""
        directory = f"kubepods/besteffort/pod{name}"
        self.make_directory(directory, **more)
        return CriPod(name, f"uid-{name}", directory)


def run(node: ProxyNode) -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {"runtime": node.cri.version(), "direct": node.direct.version()}
    node.hooks.resources["bound"] = {
        "cpuset_cpus": "1", "cpu_shares": 512, "cpu_quota": 50_000,
        "memory_limit_in_bytes": 32 * _MIB, "oom_score_adj": 300,
    }  # fmt: skip
    node.hooks.environment["bound"] = {"FROM_HOOK": "yes"}
    bound = node.pod("bound")
    sandbox = node.cri.run_pod(bound)
    container = node.cri.create(sandbox, bound, COMMAND, cpu_shares=2, oom_score_adj=1000)
    node.cri.start(container)
    found["bound says"] = until("output", lambda: lines(node, bound, 3))
    found["bound"] = read(node, bound, container)
    node.cri.remove(sandbox, container)
    found["stages"] = until("all stages", lambda: all_stages(node, "bound"))
    return found


def all_stages(node: ProxyNode, pod: str) -> list[str]:
    stages = node.hooks.stages(pod)
    return stages if "PostStopPodSandbox" in stages else []


def lines(node: RealNode, pod: CriPod, count: int) -> list[str]:
    """What its container printed, once that is so many lines."""
    said = node.cri.output(pod)
    return said if len(said) >= count else []


def main() -> int:
    """Writes figures, or what went wrong."""
    order = json.loads(sys.argv[1])
    folder = Path(order["scratch"])
    try:
        result: dict[str, Any] = {"figures": run(ProxyNode(folder))}
    except BaseException as error:
        traceback.print_exc()
        result = {"failure": f"{type(error).__name__}: {error}"}
    for log in sorted(folder.glob("*.log")):
        print(f"--- {log.name}\n{log.read_text(encoding='utf-8', errors='replace')[-6000:]}")
    Path(order["result"]).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Without waiting for threads of channels; what it started ends with the namespace.
    os._exit(status)
