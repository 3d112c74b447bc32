# SPDX-License-Identifier: Apache-2.0
"""A real control plane on loopback: etcd, kube-apiserver and, where asked, what stands on them."""

from __future__ import annotations

import atexit
import base64
import http.client
import json
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from types import TracebackType

import yaml

from tests.real.binaries import find
from tests.real.certificates import Authority, new_key

START_SECONDS = 120.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05
LOG_LINES = 15
PAST_VERSIONS = 10


class PlaneError(Exception):
    """A program did not come up or ended by itself; the message ends with its last lines."""


def free_port() -> int:
    """A port on loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Program:
    """A child process whose output goes to a file; started again, it gets the same arguments."""

    def __init__(self, name: str, arguments: list[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [str(find(name)), *arguments]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it; the log grows on."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        """Its process id; 0 while it does not run."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """A signal, to this process alone."""
        if self.running and self._process is not None:
            self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it and waits for the end; SIGKILL for what does not go by itself."""
        if self._process is None:
            return
        self.send(signal.SIGCONT)
        self.send(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def last_lines(self) -> str:
        """The end of its log, for a person who looks into a failure."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join((f"--- {self.name}: last lines of {self.log}", *lines[-LOG_LINES:]))


class RealControlPlane:
    """etcd and kube-apiserver with RBAC on, reached with the certificate of an administrator.

    A context manager: on leaving it every program that it started has ended, by process id.

    Args:
        folder: for state, certificates and logs.
        api_flags: of kube-apiserver, beside those here.
        server_addresses: under which its certificate is good as well.
        accounts: whether pods get the token of their service account.

    Attributes:
        port: of the API server on 127.0.0.1; the same after `restart`.
        kubeconfig: for the administrator, mode 0600.
        programs: in the order in which they were started.
    """

    def __init__(
        self,
        folder: Path,
        *,
        api_flags: tuple[str, ...] = (),
        server_addresses: tuple[str, ...] = (),
        accounts: bool = False,
    ) -> None:
        self.folder = folder
        self._server_addresses = server_addresses
        self.port = free_port()
        self.kubeconfig = folder / "kubeconfig"
        self.programs: dict[str, Program] = {}
        self._make_credentials()
        self._etcd_port = free_port()
        # Pods need no service account: the embedded server has none to give.
        without = () if accounts else ("--disable-admission-plugins=ServiceAccount",)
        self._api_flags = (*without, *api_flags)

    def __enter__(self) -> RealControlPlane:
        atexit.register(self.stop)
        try:
            self._add("etcd", *self._etcd_arguments())
            self._age()
            self._add("kube-apiserver", *self._api_arguments())
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the API server is."""
        return f"https://127.0.0.1:{self.port}"

    def tls(self) -> ssl.SSLContext:
        """Trusts the server, presents the administrator's certificate."""
        context = ssl.create_default_context(cafile=self.authority.certificate)
        context.load_cert_chain(*self._admin)
        return context

    def stop(self) -> None:
        """Ends all programs, the last started first."""
        atexit.unregister(self.stop)
        for program in reversed(self.programs.values()):
            program.stop()

    def kill(self) -> None:
        """kill -9 of the API server; etcd lives on."""
        self.programs["kube-apiserver"].stop(signal.SIGKILL)

    def restart(self) -> None:
        """Starts the API server again, at the same port; ends it first where it runs."""
        api = self.programs["kube-apiserver"]
        api.stop()
        api.start()
        self.wait_ready()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self.programs["kube-apiserver"].send(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.programs["kube-apiserver"].send(signal.SIGCONT)

    def start_controller_manager(self, *flags: str) -> None:
        """The built-in controllers, all of them unless a flag says otherwise."""
        self._add(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.folder / 'service-accounts.key'}",
            f"--root-ca-file={self.authority.certificate}",
            "--leader-elect=false",
            "--secure-port=0",
            *flags,
        )

    def start_scheduler(self, configuration: Path | None = None) -> None:
        """kube-scheduler; of a configuration everything holds but how it reaches the server."""
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }
        if configuration is not None:
            document = yaml.safe_load(configuration.read_text(encoding="utf-8"))
        document |= {
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }
        path = self.folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        self._add("kube-scheduler", f"--config={path}", "--secure-port=0")

    def start_kwok(self, *flags: str) -> None:
        """Simulated kubelets for all nodes: heartbeats, pods that run and end."""
        self._add(
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            f"--config={find('kwok-stages.yaml')}",
            "--manage-all-nodes=true",
            *flags,
        )

    def wait_ready(self) -> None:
        """Returns when the API server calls itself ready.

        Raises:
            PlaneError: it does not within two minutes, or a program has ended.
        """
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            self.check()
            if time.monotonic() > deadline:
                raise PlaneError(f"not ready after {START_SECONDS:.0f} s\n{self.logs()}")
            time.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Raises PlaneError when a program has ended by itself."""
        ended = [program for program in self.programs.values() if not program.running]
        if ended:
            raise PlaneError("\n".join(("ended:", *(program.last_lines() for program in ended))))

    def logs(self) -> str:
        """The last lines of every program's log."""
        return "\n".join(program.last_lines() for program in self.programs.values())

    def run(self, name: str, *arguments: str) -> Program:
        """Starts one of the programs with arguments of the caller's; ended with the others."""
        self._add(name, *arguments)
        return self.programs[name]

    def _add(self, name: str, *arguments: str) -> None:
        program = Program(name, list(arguments), self.folder)
        self.programs[name] = program
        program.start()

    def _ready(self) -> bool:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=self.tls(), timeout=5
        )
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _age(self) -> None:
        """Some versions before the API server's first: it has a past that it cannot know."""
        write = json.dumps({"key": "cGFzdA==", "value": ""})
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=5)
        deadline = time.monotonic() + START_SECONDS
        written = 0
        while written < PAST_VERSIONS:
            try:
                connection.request("POST", "/v3/kv/put", write)
                written += connection.getresponse().read().startswith(b'{"header"')
            except OSError:
                connection.close()
                self.check()
                if time.monotonic() > deadline:
                    raise PlaneError(self.logs()) from None
                time.sleep(POLL_SECONDS)
        connection.close()

    def forget_past(self) -> None:
        """Compacts the versions before the API server's first."""
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=5)
        compact = json.dumps({"revision": str(PAST_VERSIONS)})
        connection.request("POST", "/v3/kv/compaction", compact)
        assert connection.getresponse().read().startswith((b'{"header"', b'{"code":11')), (
            self.logs()
        )
        connection.close()

    def _make_credentials(self) -> None:
        self.authority = Authority.create(self.folder, "authority")
        self._front = Authority.create(self.folder, "front-proxy-authority")
        self._server = self.authority.issue(
            "kube-apiserver", server=True, addresses=self._server_addresses
        )
        self._admin = self.authority.issue("admin", organization="system:masters")
        self._front_client = self._front.issue("front-proxy")
        new_key(self.folder / "service-accounts.key")
        certificate, key = self._admin
        cluster = {
            "server": self.url,
            "certificate-authority-data": _encoded(self.authority.certificate),
        }
        user = {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "admin", "user": user}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        }
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(document), encoding="utf-8")

    def _etcd_arguments(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, free_port()))
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # The machine does not crash in a test, only processes do.
            "--unsafe-no-fsync",
        ]

    def _api_arguments(self) -> list[str]:
        accounts = self.folder / "service-accounts.key"
        flags = {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "bind-address": "127.0.0.1",
            # Goes into the endpoints of the service "kubernetes", which nobody here uses; without
            # it the server asks for a default route. RFC 5737 keeps the address for examples.
            "advertise-address": "192.0.2.1",
            "secure-port": self.port,
            "tls-cert-file": self._server[0],
            "tls-private-key-file": self._server[1],
            "client-ca-file": self.authority.certificate,
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": accounts,
            "service-account-signing-key-file": accounts,
            "service-cluster-ip-range": "10.96.0.0/16",
            "requestheader-client-ca-file": self._front.certificate,
            "requestheader-allowed-names": "front-proxy",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": self._front_client[0],
            "proxy-client-key-file": self._front_client[1],
        }
        return [*(f"--{name}={value}" for name, value in flags.items()), *self._api_flags]


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
