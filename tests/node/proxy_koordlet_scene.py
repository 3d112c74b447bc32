# SPDX-License-Identifier: Apache-2.0
"""koordlet behind koord-runtime-proxy on a real containerd, each a program of its own:
``python -m tests.node.proxy_koordlet_scene ORDER``.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from tests.node.cri import CriPod
from tests.node.inside import write_figures
from tests.node.machine import RealNode, until
from tests.node.proxy_scene import ProxyNode, lines
from tests.node.scene import Pods, read

GATES = "OOMScoreAdj=true"
_MIB = 1 << 20
# Longer than koordlet ever needs, for who hangs is waited for once.
_HOOK_SECONDS = 1.5


class KoordletNode(ProxyNode):
    """A node whose runtime is behind the proxy, and has NRI off at first.

    Args:
        folder: on a file system that overlays can lie on.
    """

    nri = False

    def __init__(self, folder: Path) -> None:
        RealNode.__init__(self, folder)
        self.direct, self.pods = self.cri, Pods(self)
        self.start_proxy(_HOOK_SECONDS)

    @property
    def hook_file(self) -> Path:
        """Koordlet's, in the proxy's directory."""
        return self.folder / "hooks.d" / "koordlet.json"

    def start_hook_server(self) -> None:
        """Starts koordlet, and waits until a proxy can call it."""
        self.begin_koordlet(
            "--feature-gates", GATES, "--runtime-hooks-config-path", str(self.hook_file.parent)
        )
        until("koordlet serves the proxy", self.is_served)

    def is_served(self) -> bool:
        """Whether koordlet serves the proxy."""
        if self._programs["koordlet"].poll() is not None:
            raise AssertionError(f"koordlet ended: {self.log('koordlet')[-3000:]}")
        try:
            return bool(self.status()["runtime"]["hookServer"]["serving"])
        except (OSError, KeyError):
            return False

    def pause_koordlet(self) -> None:
        """It hangs."""
        self._programs["koordlet"].send_signal(signal.SIGSTOP)

    def stop_koordlet(self) -> None:
        """It ends in order."""
        self._end("koordlet", signal.SIGTERM)

    def knows(self, pod: CriPod) -> bool:
        """Whether the cluster has told koordlet of a pod."""
        return pod.uid in json.dumps(self.status()["pods"])

    def run_batch(self, name: str, *, known: bool = True) -> tuple[CriPod, str, dict[str, str]]:
        """A batch pod that runs: itself, its container, and what its cgroup says at once."""
        pod = self.pods.batch(name)
        if known:
            until("koordlet knows the pod", lambda: self.knows(pod))
        _, container = self.run(pod, cpu_shares=2, oom_score_adj=1000)
        return pod, container, read(self, pod, container)


def run(node: KoordletNode) -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {}
    node.start_hook_server()
    found["file"] = json.loads(node.hook_file.read_text(encoding="utf-8"))
    found["at first"] = node.status()["runtime"]
    _bound(node, found)
    _batch(node, found)
    found["served"] = node.status()["runtime"], node.proxy_status()
    _hangs_and_is_back(node, found)
    _stops(node, found)
    _beside_nri(node, found)
    found["complaints"] = [
        line for name in ("proxy", "koordlet") for line in node.log(name).splitlines()
        if "Traceback" in line
    ]  # fmt: skip
    return found


def _bound(node: KoordletNode, found: dict[str, Any]) -> None:
    pod = node.pods.bound("bound", "1")
    until("koordlet knows the pod", lambda: node.knows(pod))
    asked = {"cpu_shares": 1024, "cpu_quota": 100_000, "cpu_period": 100_000}
    _, container = node.run(
        pod, **asked, memory_limit_in_bytes=64 * _MIB, oom_score_adj=-997, cpuset_cpus="0"
    )
    found["bound says"] = until("output", lambda: lines(node, pod, 3))
    found["bound"] = read(node, pod, container)
    # The kubelet has its own idea, as its CPU manager tells it now and then.
    node.cri.update(container, **asked, cpuset_cpus="0")
    found["bound updated"] = read(node, pod, container)


def _batch(node: KoordletNode, found: dict[str, Any]) -> None:
    pod, container, found["batch"] = node.run_batch("batch")
    node.cri.update(container, cpu_shares=2, cpu_quota=10_000, cpu_period=100_000)
    found["batch updated"] = read(node, pod, container)


def _hangs_and_is_back(node: KoordletNode, found: dict[str, Any]) -> None:
    """Who did not answer in time is left alone for seconds, unless it starts anew."""
    node.pause_koordlet()
    _, _, found["hung"] = node.run_batch("hung", known=False)
    found["why"] = [each["error"] for each in node.proxy_status()["calls"] if each["error"]]
    node.kill_koordlet()
    written = node.hook_file.stat().st_mtime_ns
    node.start_hook_server()
    found["written again"] = node.hook_file.stat().st_mtime_ns > written
    _, _, found["back"] = node.run_batch("back")


def _stops(node: KoordletNode, found: dict[str, Any]) -> None:
    node.stop_koordlet()
    found["left"] = [path.name for path in node.hook_file.parent.iterdir()]
    _, _, found["alone"] = node.run_batch("alone", known=False)
    found["alone told"] = node.proxy_status()["hookServers"]


def _beside_nri(node: KoordletNode, found: dict[str, Any]) -> None:
    node.stop_containerd()
    node.nri = True
    node.start_containerd()
    node.start_hook_server()
    until("koordlet serves NRI", node.is_synchronized)
    _, _, found["by NRI"] = node.run_batch("nri")
    found["both"] = node.status()["runtime"], node.proxy_status()


if __name__ == "__main__":
    write_figures(lambda folder, _: run(KoordletNode(folder)))
