# SPDX-License-Identifier: Apache-2.0
"""Flags of koord-runtime-proxy: one field a flag, under the original's names and with its defaults.

Rule: docs/reference/delivery.md#flags-of-the-proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from koord.base.errors import KoordError
from koord.delivery.cri.hook_servers import MOST_ENDPOINT_BYTES

_CONTAINERD = "Containerd"
_RUN = "/var/run/koord-runtimeproxy"
_MOST_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class RuntimeProxyOptions:
    """What the proxy is told, each with the text of ``--help``; floats are durations in seconds."""

    koord_runtimeproxy_endpoint: Annotated[str, "socket that the kubelet connects to"] = (
        f"{_RUN}/runtimeproxy.sock"
    )
    remote_runtime_service_endpoint: Annotated[str, "socket of the container runtime"] = (
        "/var/run/containerd/containerd.sock"
    )
    backend_runtime_mode: Annotated[str, "Containerd: any runtime with CRI v1"] = _CONTAINERD
    runtime_hook_server_key: Annotated[str, "label of pods that no hook server hears of"] = (
        "runtimeproxy.koordinator.sh/skip-hookserver"
    )
    runtime_hook_server_val: Annotated[str, "the value of that label"] = "true"
    runtime_hook_config_dir: Annotated[str, "files that name hook servers"] = (
        "/etc/runtime/hookserver.d"
    )
    runtime_hook_timeout: Annotated[float, "how long a hook server may take"] = 1.0
    state_dir: Annotated[str, "pods and containers, for the next start"] = f"{_RUN}/pods"
    cgroup_root_dir: Annotated[str, "where cgroups are mounted"] = "/sys/fs/cgroup"
    addr: Annotated[str, "serve health, metrics and status on HOST:PORT; empty for not at all"] = (
        "127.0.0.1:9318"
    )

    def check(self) -> None:
        """Refuses what cannot be meant.

        Raises:
            KoordError: a flag, its value and what would be right.
        """
        if self.backend_runtime_mode != _CONTAINERD:
            expected = f"{_CONTAINERD}; Docker, which has no CRI, is not served"
            raise KoordError("--backend-runtime-mode", "", self.backend_runtime_mode, expected)
        for flag, path in (
            ("--koord-runtimeproxy-endpoint", self.listen_path()),
            ("--remote-runtime-service-endpoint", self.runtime_path()),
        ):
            if not path.startswith("/") or len(path.encode()) > MOST_ENDPOINT_BYTES:
                expected = f"the path of a socket, at most {MOST_ENDPOINT_BYTES} bytes"
                raise KoordError(flag, "", path, expected)
        if self.listen_path() == self.runtime_path():
            expected = "another socket than the runtime's"
            raise KoordError("--koord-runtimeproxy-endpoint", "", self.listen_path(), expected)
        for flag, path in (
            ("--runtime-hook-config-dir", self.runtime_hook_config_dir),
            ("--state-dir", self.state_dir),
            ("--cgroup-root-dir", self.cgroup_root_dir),
        ):
            if not Path(path).is_absolute():
                raise KoordError(flag, "", path, "an absolute path")
        if not 0 < self.runtime_hook_timeout <= _MOST_TIMEOUT_SECONDS:
            expected = f"more than 0 and at most {_MOST_TIMEOUT_SECONDS:g} s"
            raise KoordError("--runtime-hook-timeout", "", self.runtime_hook_timeout, expected)
        if self.addr:
            self.listen()

    def listen_path(self) -> str:
        """Where the kubelet connects to."""
        return self.koord_runtimeproxy_endpoint.removeprefix("unix://")

    def runtime_path(self) -> str:
        """Where the runtime listens."""
        return self.remote_runtime_service_endpoint.removeprefix("unix://")

    def listen(self) -> tuple[str, int]:
        """Host and port to serve on.

        Raises:
            KoordError: no such pair.
        """
        host, colon, port = self.addr.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65_535:
            raise KoordError("--addr", "", self.addr, "HOST:PORT or :PORT")
        return host.strip("[]") or "0.0.0.0", int(port)
