# SPDX-License-Identifier: Apache-2.0
"""Clusters to attack, all of koord's programs in processes of their own."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.contract.api import Api, Document, at
from tests.hostile import accounts
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

NODES = 8
READY_SECONDS = 60.0
STOP_SECONDS = 30.0
LEASES = ("koord-scheduler", "koord-manager")
# What a kube-apiserver of so small a machine is given: by default it works at 600 requests at once.
_TWO_CORES = ("--max-requests-inflight=40", "--max-mutating-requests-inflight=20")
_BIN = Path(sys.executable).parent
_PROBE = Path(__file__).with_name("probed.py")


class Place:
    """A running cluster.

    Attributes:
        name: ``embedded`` or ``real``.
        processes: koord's own, by name.
        holds: what held the loop of ``koord up`` for long; see :mod:`tests.hostile.probed`.
    """

    def __init__(self, folder: Path, kubeconfig: Path, name: str = "embedded") -> None:
        self.folder = folder
        self.name = name
        self.kubeconfig = kubeconfig
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.holds = folder / "holds"

    def api(self, name: str) -> Api:
        """A connection of its own; ``name`` is its user agent."""
        port, tls, headers = self.address()
        return Api(port, tls, {**headers, "User-Agent": name})

    def tenant(self, namespace: str) -> Place:
        """The same cluster for who has one namespace, which is made here.

        On a real control plane it has an account of its own, with rights there alone.
        """
        admin = self.api("setup")
        accounts.create(
            admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        reached = self.kubeconfig
        if self.name == "real":
            accounts.tenant(admin, namespace)
            reached = accounts.kubeconfig(admin, self.kubeconfig, namespace, "tenant")
        admin.close()
        return Place(self.folder, reached, self.name)

    def address(self) -> tuple[int, ssl.SSLContext, dict[str, str]]:
        """Port, trust and credentials as the kubeconfig says."""
        config = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        port = urlsplit(cluster["server"]).port
        assert port is not None
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=authority)
        if "client-certificate-data" in user:
            for key in ("client-certificate", "client-key"):
                path = self.folder / f"{key}.pem"
                path.write_bytes(base64.b64decode(user[f"{key}-data"]))
                path.chmod(0o600)
            tls.load_cert_chain(
                self.folder / "client-certificate.pem", self.folder / "client-key.pem"
            )
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        return port, tls, headers

    def start(
        self,
        name: str,
        *arguments: str,
        program: Path | None = None,
        environment: Mapping[str, str] = {},
    ) -> subprocess.Popen[bytes]:
        """One of koord's programs, or ``program``; what it says goes to a file."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(program or _BIN / name), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )
        self.processes[name] = process
        return process

    def stop(self) -> None:
        """Ends what was started here."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def log(self, name: str) -> str:
        """The end of what a program said."""
        path = self.folder / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace")[-4000:]

    def check(self) -> None:
        """Every program that was started still runs."""
        for name, process in self.processes.items():
            assert process.poll() is None, f"{name} ended: {self.log(name)}"

    def resident(self) -> dict[str, int]:
        """Bytes of memory of each of koord's programs here, by its name."""
        page = os.sysconf("SC_PAGE_SIZE")
        return {
            name: page * int(Path(f"/proc/{process.pid}/statm").read_text("ascii").split()[1])
            for name, process in self.processes.items()
        }

    def resident_bytes(self) -> int:
        """Memory of all of koord's programs here."""
        return sum(self.resident().values())

    def cpu_seconds(self) -> float:
        """CPU time that the scheduler's program here has taken, by all its threads."""
        # As clock_getcpuclockid(3) makes them.
        return time.clock_gettime(~self._scheduler.pid << 3 | 2)

    def delay_seconds(self) -> float:
        """How long the main thread of the scheduler's program could have run and had no core."""
        pid = self._scheduler.pid
        return delay_seconds(f"/proc/{pid}/task/{pid}/schedstat")

    @property
    def _scheduler(self) -> subprocess.Popen[bytes]:
        """The program that schedules, which is started first."""
        return next(iter(self.processes.values()))

    def leases(self) -> dict[str, tuple[str, int]]:
        """Holder and number of changes of hands of the daemons' Leases, which must not change."""
        api = self.api("leases")
        listed = api.get(at("leases", "koordinator-system")).ok["items"]
        api.close()
        return {
            each["metadata"]["name"]: (
                each["spec"].get("holderIdentity", ""),
                each["spec"].get("leaseTransitions", 0),
            )
            for each in listed
        }


def delay_seconds(path: str) -> float:
    """Time that a thread waited for a core, by its ``schedstat`` (proc(5))."""
    return int(Path(path).read_text(encoding="ascii").split()[1]) / 1e9


def _node(number: int) -> Document:
    name = f"machine-{number}"
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "250", "nvidia.com/gpu": "4"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


@contextmanager
def _embedded(folder: Path) -> Iterator[Place]:
    """``koord up`` in one process, with a look at its event loop."""
    kubeconfig = folder / "kubeconfig"
    place = Place(folder, kubeconfig)
    try:
        words = ["up", "-o", "json", "--nodes", str(NODES), "--kubeconfig", str(kubeconfig)]
        probe = [str(_PROBE), str(place.holds)]
        process = place.start("koord", *probe, *words, program=Path(sys.executable))
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, place.log("koord")
        assert json.loads(line)["pid"] == process.pid
        yield place
        place.check()
    finally:
        place.stop()


@contextmanager
def _real(folder: Path) -> Iterator[Place]:
    """A real kube-apiserver with koord-scheduler and koord-manager beside it.

    All have accounts of their own, and the priority levels that deploy/policies has for them.
    """
    need("etcd", "kube-apiserver")
    with RealControlPlane(folder, api_flags=_TWO_CORES) as plane:
        place = Place(folder, plane.kubeconfig, "real")
        try:
            api = place.api("setup")
            subprocess.run(
                [str(_BIN / "koord"), "crds", "install", "--kubeconfig", str(plane.kubeconfig)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            system = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "koordinator-system"},
            }
            api.post(at("namespaces"), system)
            for number in range(NODES):
                api.post(at("nodes"), _node(number))
                api.patch(at("nodes", "", f"machine-{number}"), {"spec": {"taints": None}})
            reached = _accounts(api, plane.kubeconfig)
            api.close()
            scheduler, manager = ("--kubeconfig", reached[0]), ("--kubeconfig", reached[1])
            place.start("koord-scheduler", *scheduler, "--port", "0")
            local = "127.0.0.1:0"
            place.start(
                "koord-manager", *manager, "--metrics-addr", local, "--health-probe-addr", local
            )
            _wait_for_leases(place)
            yield place
            place.check()
            plane.check()
        finally:
            place.stop()


def _accounts(api: Api, admin: Path) -> list[str]:
    """Makes what koord's programs may do, and what of the server they have; their kubeconfigs."""
    names = LEASES
    rights = [f"rbac/{name}.yaml" for name in (*names, "koord-webhook")]
    levels = [f"policies/api-priority-{name}.yaml" for name in ("koord", "tenants")]
    accounts.apply(api, *(accounts.DEPLOY / each for each in (*rights, *levels)))
    return [str(accounts.kubeconfig(api, admin, accounts.SYSTEM, name)) for name in names]


def _wait_for_leases(place: Place) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while sum(bool(holder) for holder, _ in place.leases().values()) < len(LEASES):
        place.check()
        assert time.monotonic() < deadline, place.leases()
        time.sleep(0.2)


@contextmanager
def running_place(name: str, folder: Path) -> Iterator[Place]:
    """The cluster of that name: ``embedded`` or ``real``."""
    with (_real if name == "real" else _embedded)(folder) as place:
        yield place
