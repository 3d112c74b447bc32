# SPDX-License-Identifier: Apache-2.0
"""A node with a real kubelet over a real containerd, and koordlet on it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.node.cluster.control_plane import ADDRESS, NODE
from tests.node.machine import CGROUP, RuntimeNode, mount, mount_all, until
from tests.real.binaries import find
from tests.scenes.daemon import rounds_in
from tests.scenes.owntree import OwnMachine

_MEMORY_BYTES = 2 << 30
_SUPPRESSION = "cpusuppress"
# What they write whatever their settings: links to logs, state of CNI, folders of plugins.
_WRITTEN = ("/etc", "/usr/libexec", "/var/lib", "/var/log")
# The kubelet sets these for the whole machine.
_SYSCTLS = {
    "kernel/panic": 10, "kernel/panic_on_oops": 1, "vm/overcommit_memory": 1, "vm/panic_on_oom": 0,
}  # fmt: skip
_NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.99.0.0/24",
                                                        "rangeStart": "10.99.0.16"}]]},
        }
    ],
}  # fmt: skip


class KubeletNode(RuntimeNode):
    """A node of a cluster.

    Args:
        folder: for its state and logs.
        cluster: where the cluster's certificates and kubeconfigs lie.
    """

    def __init__(self, folder: Path, cluster: Path) -> None:
        super().__init__(folder)
        self._cluster = cluster
        self.mount()
        Path("/run/cni-conf/pods.conflist").write_text(json.dumps(_NETWORK), encoding="utf-8")

    def mount(self) -> None:
        """Makes the mounts of a node's own, and has it see no work but its own."""
        mount_all()
        _mount_written()
        # For good: what reads its files ends with the namespace.
        OwnMachine(CGROUP, _MEMORY_BYTES).__enter__()

    def start_runtime(self) -> None:
        """Starts containerd, with images."""
        self.start_containerd()
        self.import_images()

    def start_kubelet(self, **settings: Any) -> None:
        """Starts it; the API server knows its node soon.

        Args:
            settings: of its configuration, beside or instead of those here.
        """
        config = self.folder / "kubelet.yaml"
        config.write_text(json.dumps(self.configuration() | settings), encoding="utf-8")
        arguments = (
            f"--config={config}", f"--kubeconfig={self._cluster / 'kubelet.kubeconfig'}",
            f"--hostname-override={NODE}", f"--node-ip={ADDRESS}", "--v=2",
        )  # fmt: skip
        self._start("kubelet", [str(find("kubelet")), *arguments])

    def configuration(self) -> dict[str, Any]:
        """The kubelet's."""
        unlimited = {
            "memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        }  # fmt: skip
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "address": ADDRESS,
            "tlsCertFile": str(self._cluster / "kubelet.crt"),
            "tlsPrivateKeyFile": str(self._cluster / "kubelet.key"),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self._cluster / "authority.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "failSwapOn": False,
            "evictionHard": unlimited,
            "imageGCHighThresholdPercent": 100,
            "localStorageCapacityIsolation": False,
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "5s",
        }

    def start_koordlet(self, gates: str, *flags: str) -> None:
        """Starts it as a user does on a host, and waits until it serves the runtime."""
        arguments = (
            "--node-name", NODE, "--kubeconfig", str(self._cluster / "koordlet.kubeconfig"),
            "--prediction-checkpoint-filepath", str(self.folder / "checkpoints"),
            "--feature-gates", gates, "-v", "4", *flags,
        )  # fmt: skip
        call = [sys.executable, "-m", "koord.cli.daemons.koordlet", *arguments]
        self._start("koordlet", call, agent_mode="hostMode")
        until("koordlet serves the runtime", self.is_synchronized)

    def stop_koordlet(self) -> None:
        """Ends it in order: files get back what they said before."""
        self._end("koordlet", signal.SIGTERM)
        del self._programs["koordlet"]

    def stop_kubelet(self) -> None:
        """Ends it; containers go on."""
        self._end("kubelet", signal.SIGTERM)
        del self._programs["kubelet"]

    def rounds(self, strategy: str = _SUPPRESSION) -> list[dict[str, str]]:
        """What a strategy saw and decided in every round that it could finish."""
        return rounds_in(self.log("koordlet").splitlines(), strategy)

    def wait_rounds(self, count: int) -> None:
        """Waits for so many more rounds of suppression."""
        wanted = len(self.rounds()) + count
        until(f"{count} rounds of suppression", lambda: len(self.rounds()) >= wanted)

    def check(self) -> None:
        """Raises AssertionError where a program has ended."""
        for name, program in self._programs.items():
            assert program.poll() is None, f"{name} ended: {self.log(name)[-2000:]}"


def _mount_written() -> None:
    for name in _WRITTEN:
        above = Path("/run/above", name.replace("/", "_"))
        for part in ("upper", "work"):
            (above / part).mkdir(parents=True)
        layers = f"lowerdir={name},upperdir={above / 'upper'},workdir={above / 'work'}"
        mount("-t", "overlay", "-o", layers, "overlay", name)
    for name, value in _SYSCTLS.items():
        file = Path("/run/above", name.replace("/", "_"))
        file.write_text(f"{value}\n", encoding="ascii")
        mount("--bind", str(file), f"/proc/sys/{name}")
    subprocess.run(["hostname", NODE], check=True)
