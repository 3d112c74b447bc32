# SPDX-License-Identifier: Apache-2.0
"""A cluster of one real node: ``python -m tests.node.cluster.control_plane ORDER``.

What stands outside the node, in namespaces of the cluster's own: etcd, kube-apiserver,
kube-controller-manager, koord-scheduler, and koord-manager with admission, each of koord's with its
service account's rights alone. The node (`tests.node.cluster.story`) has further namespaces and
cgroups within, and shares the network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.node.machine import CGROUP, mount_cgroups, until
from tests.real.binaries import find
from tests.real.plane import RealControlPlane

NODE, ADDRESS, SYSTEM = "node", "10.99.0.1", "koordinator-system"
OWN = "node"  # the directory of the node's cgroups
_UNSHARE = (
    "unshare", "--mount", "--cgroup", "--pid", "--ipc", "--uts", "--fork", "--kill-child",
    "--mount-proc",
)  # fmt: skip
# A namespace first, then what is in it.
_MANIFESTS = (
    "crds", "priorityclasses.yaml", "rbac/koord-manager.yaml", "rbac/koord-scheduler.yaml",
    "rbac/koord-webhook.yaml", "rbac/koordlet.yaml", "rbac/koordlet-evictions.yaml",
    "webhook/koord-webhook.yaml",
)  # fmt: skip
_CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "job-controller", "node-lifecycle-controller",
    "garbage-collector-controller",
)  # fmt: skip
# So that what happens here is not kept waiting by others of this machine.
_SHARES = 262144
_STORY_SECONDS = 240.0


class Cluster:
    """All but the node.

    Args:
        folder: for state, certificates, kubeconfigs and logs.
        api_flags: of its API server, beside those here.
        options: of its control plane.
    """

    def __init__(self, folder: Path, api_flags: tuple[str, ...] = (), **options: Any) -> None:
        self.folder = folder
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        flags = (*_api_flags(folder), *api_flags)
        self.plane = RealControlPlane(folder, api_flags=flags, **options)

    def start(self) -> None:
        """Starts all, and waits until it serves."""
        self.start_plane()
        self.plane.start_controller_manager(f"--controllers={','.join(_CONTROLLERS)}")
        names = (f"--filename=deploy/{name}" for name in _MANIFESTS)
        self.kubectl("apply", "--server-side", *names)
        for account in ("koord-manager", "koord-scheduler", "koordlet"):
            self._issue(account)
        self._start("scheduler", "--leader-elect=false")
        self._start(
            "manager",
            "--enable-leader-election=false",
            WEBHOOK_HOST="127.0.0.1",
            WEBHOOK_CERT_DIR=str(self.folder / "webhook"),
        )
        for name, port in (("manager", 8000), ("scheduler", 10251)):
            until(f"koord-{name} is ready", partial(self._is_ready, port))

    def start_plane(self) -> None:
        """The API server, and what a kubelet needs to join it."""
        self.plane.__enter__()
        self.plane.authority.issue("kubelet", server=True, addresses=(ADDRESS,))
        self.plane.authority.issue(f"system:node:{NODE}", organization="system:nodes")
        self._write_kubelet_config()

    def kubectl(self, *arguments: str) -> str:
        """What kubectl says."""
        call = [str(find("kubectl")), f"--kubeconfig={self.plane.kubeconfig}", *arguments]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def logs(self) -> None:
        """Prints the end of what each program said."""
        for log in sorted(self.folder.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")

    def _is_ready(self, port: int) -> bool:
        for name, program in self._programs.items():
            assert program.poll() is None, f"koord-{name} ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return True
        except OSError:
            return False

    def _start(self, name: str, *arguments: str, **environment: str) -> None:
        call = [sys.executable, "-m", f"koord.cli.daemons.{name}", "-v", "4", *arguments]
        kubeconfig = self.folder / f"koord-{name}.kubeconfig"
        with (self.folder / f"koord-{name}.log").open("wb") as log:
            self._programs[name] = subprocess.Popen(
                [*call, "--kubeconfig", str(kubeconfig)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )  # fmt: skip

    def _issue(self, account: str) -> None:
        token = self.kubectl("create", "token", account, f"--namespace={SYSTEM}").strip()
        self.write_kubeconfig(account, {"token": token})

    def _write_kubelet_config(self) -> None:
        names = (f"system:node:{NODE}.crt", f"system:node:{NODE}.key")
        certificate, key = (str(self.folder / name) for name in names)
        user = {"client-certificate": certificate, "client-key": key}
        self.write_kubeconfig("kubelet", user)

    def write_kubeconfig(self, name: str, user: dict[str, str]) -> None:
        """One for a program, as a user with these credentials."""
        document = yaml.safe_load(self.plane.kubeconfig.read_text(encoding="utf-8"))
        document["users"] = [{"name": "admin", "user": user}]
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")


def _api_flags(folder: Path) -> tuple[str, ...]:
    return (
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={folder / 'admin.crt'}",
        f"--kubelet-client-key={folder / 'admin.key'}",
        f"--kubelet-certificate-authority={folder / 'authority.crt'}",
        # Beside RBAC, as every usual cluster has it.
        "--authorization-mode=Node",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
    )


def make_network() -> None:
    """A node's address must not be loopback: it has a bridge, which pods are tied to as well."""
    for line in (
        "link set lo up", "link add cni0 type bridge", f"addr add {ADDRESS}/24 dev cni0",
        "link set cni0 up", "route add default via 10.99.0.254",
    ):  # fmt: skip
        subprocess.run(["ip", *line.split()], check=True)


def make_directories() -> list[Path]:
    """The cgroups that the node will have for its own."""
    (CGROUP / "cpu/cpu.shares").write_text(str(_SHARES))
    made = []
    for hierarchy in (path for path in CGROUP.iterdir() if path.is_dir()):
        made.append(hierarchy / OWN)
        made[-1].mkdir()
        if hierarchy.name == "cpuset":
            for file in ("cpuset.cpus", "cpuset.mems"):
                (made[-1] / file).write_text((hierarchy / file).read_text(encoding="ascii"))
    return made


def run_node(order: dict[str, Any], made: list[Path], story: str, seconds: float) -> None:
    """Runs a story on a node of this machine to its end."""

    def move() -> None:
        for folder in made:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    call = [*_UNSHARE, sys.executable, "-m", story, json.dumps(order)]
    subprocess.run(
        call, check=True, stdin=subprocess.DEVNULL, preexec_fn=move, timeout=seconds,
        env={**os.environ, "TMPDIR": order["scratch"]},
    )  # fmt: skip


def play(make: Callable[[Path], Cluster], story: str, seconds: float = _STORY_SECONDS) -> int:
    """Makes a cluster and runs a story on its node, on this machine."""
    mount_cgroups()
    made = make_directories()
    return serve(make, lambda _, order: run_node(order, made, story, seconds))


def serve(make: Callable[[Path], Cluster], run: Callable[[Cluster, dict[str, Any]], None]) -> int:
    """Makes a cluster and runs what writes figures; writes what went wrong where it does not.

    Args:
        make: of a folder.
        run: a story on the cluster's node, of an order with folder and port of the cluster.
    """
    order = json.loads(sys.argv[1])
    folder = Path(order["scratch"], "cluster")
    folder.mkdir()
    cluster = make(folder)
    try:
        make_network()
        cluster.start()
        run(cluster, order | {"cluster": str(folder), "port": cluster.plane.port})
    except BaseException as error:
        traceback.print_exc()
        result = {"failure": f"{type(error).__name__}: {error}"}
        Path(order["result"]).write_text(json.dumps(result), encoding="utf-8")
    cluster.logs()
    return 0


if __name__ == "__main__":
    status = play(Cluster, "tests.node.cluster.story")
    sys.stdout.flush()
    # What it started ends with the namespace.
    os._exit(status)
