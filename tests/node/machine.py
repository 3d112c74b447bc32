# SPDX-License-Identifier: Apache-2.0
"""The inside of a node: its mounts, containerd with NRI, an API server and koordlet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.node.cri import IMAGE, PAUSE_IMAGE, CriClient
from tests.node.image import write_image
from tests.node.packages import find as find_package
from tests.node.packages import libraries
from tests.real.binaries import find
from tests.scenes.apiserver import ApiServer
from tests.scenes.nursery import Nursery

ROOT = Path(__file__).resolve().parents[2]
NODE = "node"
CGROUP = Path("/sys/fs/cgroup")
SOCKET, NRI_SOCKET = "/run/containerd/containerd.sock", "/run/nri/nri.sock"
_PORT = 9316  # the network is its own
_QUALITIES = ("", "/burstable", "/besteffort")
_SECONDS = 120.0
# By how much everything may take longer: more under emulation.
PATIENCE = float(os.environ.get("KOORD_NODE_PATIENCE", "1"))
_CONFIG = """\
version = 3
root = '{root}'
state = '{state}'
[grpc]
  address = '{socket}'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
  enable_unprivileged_ports = false
  enable_unprivileged_icmp = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    conf_dir = '/run/cni-conf'
    bin_dirs = ['{cni}']
[plugins.'io.containerd.nri.v1.nri']
  disable = {without_nri}
  socket_path = '{nri}'
  plugin_path = '/run/nri/plugins'
  plugin_config_path = '/run/nri/conf.d'
  plugin_registration_timeout = '{registration}s'
  plugin_request_timeout = '{request}s'
"""


def until(what: str, check: Callable[[], Any], seconds: float = _SECONDS) -> Any:
    """Waits for something; gives what it is."""
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while not (found := check()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s: {what}")
        time.sleep(0.02)
    return found


def mount(*arguments: str) -> None:
    """mount(8)."""
    subprocess.run(["mount", *arguments], check=True)


def mount_cgroups(*more: str) -> None:
    """Cgroups from here down, where others expect those of the whole machine.

    What the machine has mounted nowhere a process is not moved in: what is made there would stay.

    Args:
        more: hierarchies that a process was moved in nevertheless, where the kernel has them.
    """
    mounted = {path.name for path in CGROUP.iterdir()}.union(more)
    mount("--make-rshared", "/")
    mount("-t", "tmpfs", "-o", "mode=755", "cgroup", str(CGROUP))
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        name = line.split(":", 2)[1]
        folder = CGROUP / name.removeprefix("name=")
        if name and folder.name in mounted:
            folder.mkdir()
            named = f"none,{name}" if name.startswith("name=") else name
            mount("-t", "cgroup", "-o", named, "cgroup", str(folder))


def mount_all(*more: str) -> None:
    """Mounts of a node's own: cgroups from here down, ``/run``, and what containerd writes.

    Args:
        more: as of :func:`mount_cgroups`.
    """
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    mount_cgroups(*more)
    for folder in (Path("/run"), Path("/opt")):
        mount("-t", "tmpfs", "-o", "mode=755", "own", str(folder))
    for name in ("cni-conf", "nri", "logs"):
        Path("/run", name).mkdir()


class RuntimeNode:
    """A node with a container runtime, in the mounts of `mount_all`.

    Args:
        folder: on a file system that overlays can lie on.

    Attributes:
        nri: whether the runtime offers it, from its next start on.
        request_seconds: how long the runtime waits for koordlet.
    """

    nri = True
    request_seconds = 2

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def _start(self, name: str, command: list[str], **environment: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._programs[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )  # fmt: skip

    def log(self, name: str) -> str:
        """What a program said."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    # -- the runtime ---------------------------------------------------------------------------

    def start_containerd(self) -> None:
        """Starts it, and waits until it answers."""
        self._start_runtime("containerd", SOCKET, NRI_SOCKET if self.nri else "")

    def _start_runtime(self, name: str, socket: str, nri_socket: str) -> None:
        config = self.folder / f"{name}.toml"
        text = _CONFIG.format(
            root=self.folder / name,
            state=Path(socket).parent,
            socket=socket,
            pause=PAUSE_IMAGE,
            nri=nri_socket,
            without_nri="false" if nri_socket else "true",
            registration=3 * self.request_seconds,
            request=self.request_seconds,
            cni=find_package("bridge").parent,
        )
        config.write_text(text, encoding="utf-8")
        folders = [find("containerd").parent, find_package("runc").parent]
        path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
        self._start(
            name, [str(find("containerd")), "--config", str(config)],
            PATH=path, LD_LIBRARY_PATH=libraries(),
        )  # fmt: skip
        until(f"{name} answers", lambda: self._ctr("version", socket=socket).returncode == 0)

    def stop_containerd(self) -> None:
        """Ends it; containers go on."""
        self._end("containerd", signal.SIGTERM)

    def _ctr(self, *arguments: str, socket: str = SOCKET) -> subprocess.CompletedProcess[str]:
        call = [str(find("ctr")), "-a", socket, "-n", "k8s.io", *arguments]
        return subprocess.run(call, capture_output=True, text=True, check=False)

    def import_images(self, socket: str = SOCKET) -> None:
        """Gives a runtime the images of all tests."""
        busybox = find_package("busybox")
        for name, entry in ((IMAGE, ()), (PAUSE_IMAGE, ("/bin/sleep", "1000000"))):
            archive = self.folder / "image.tar"
            write_image(name, archive, busybox, *entry)
            call = ("images", "import", "--snapshotter", "overlayfs", str(archive))
            done = self._ctr(*call, socket=socket)
            assert done.returncode == 0, done.stderr

    def containers(self) -> list[str]:
        """Ids of all that it knows and of all that run, sandboxes too."""
        return [
            line for what in ("containers", "tasks")
            for line in self._ctr(what, "list", "--quiet").stdout.split()
        ]  # fmt: skip

    # -- all programs -------------------------------------------------------------------------

    def is_synchronized(self) -> bool:
        """Whether koordlet has told the runtime of all that runs."""
        if self._programs["koordlet"].poll() is not None:
            raise AssertionError(f"koordlet ended: {self.log('koordlet')[-3000:]}")
        try:
            return bool(self.status()["runtime"].get("synchronized"))
        except OSError:
            return False

    def status(self) -> dict[str, Any]:
        """What koordlet tells of itself."""
        url = f"http://127.0.0.1:{_PORT}/status"
        with urllib.request.urlopen(url, timeout=20 * PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def process(self, name: str) -> int:
        """A program's id."""
        return self._programs[name].pid

    def cpu_seconds(self, name: str) -> float:
        """What a program has spent so far."""
        stat = Path(f"/proc/{self.process(name)}/stat").read_text(encoding="ascii")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _end(self, name: str, number: signal.Signals) -> None:
        self._programs[name].send_signal(number)
        self._programs[name].wait(30 * PATIENCE)


class RealNode(RuntimeNode):
    """A node whose kubelet is the test; make it first of all, before there are threads.

    Attributes:
        api: the API server.
        cri: the runtime.
        schedules: whether a scheduler is to choose for pods.
    """

    schedules = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        nursery = Nursery()
        self.mount()
        self._make_kubepods()
        self.start_containerd()
        self.import_images()
        self.cri = CriClient(SOCKET, Path("/run/logs"))
        (folder / "api").mkdir()
        self.api = ApiServer(folder / "api", nursery)
        self._put_node()

    def start_another_containerd(self, name: str, *, nri: bool) -> CriClient:
        """One beside the first, with an NRI socket that nobody connects to, or without NRI."""
        socket = f"/run/{name}/containerd.sock"
        self._start_runtime(name, socket, f"/run/{name}/nri.sock" if nri else "")
        self.import_images(socket)
        return CriClient(socket, Path("/run/logs"))

    def mount(self) -> None:
        """Makes the mounts of a node's own."""
        mount_all("net_cls")

    def add_link(self) -> None:
        """A link with the default route; what is at its other end says nothing."""
        for words in (
            "link add uplink type veth peer name far",
            "address add 192.0.2.1/24 dev uplink",
            "link set uplink up",
            "link set far up",
            "route add default via 192.0.2.2",
        ):
            subprocess.run(["ip", *words.split()], check=True)

    # -- the kubelet's part --------------------------------------------------------------------

    def _make_kubepods(self) -> None:
        for quality in _QUALITIES:
            self.make_directory(f"kubepods{quality}")

    def make_directory(self, directory: str, **values: str) -> None:
        """Makes a directory in each hierarchy, as the kubelet does for a pod.

        Args:
            directory: relative to a hierarchy.
            values: by file, dots as underscores: ``cpu_shares="2"``.
        """
        for hierarchy in (path for path in CGROUP.iterdir() if path.is_dir()):
            made = hierarchy / directory
            made.mkdir(exist_ok=True)
            if hierarchy.name == "cpuset":
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (made / file).write_text((made.parent / file).read_text(encoding="ascii"))
        for name, value in values.items():
            controller, _, file = name.partition("_")
            (CGROUP / controller / directory / f"{controller}.{file}").write_text(value)

    def remove_directory(self, directory: str) -> None:
        """Removes what :meth:`make_directory` made; the kernel refuses one that is in use."""
        for hierarchy in (path for path in CGROUP.iterdir() if path.is_dir()):
            (hierarchy / directory).rmdir()

    def read(self, file: str, directory: str) -> str:
        """What a file of a cgroup says, e.g. ``cpu.shares``."""
        hierarchy = CGROUP / file.partition(".")[0]
        return (hierarchy / directory / file).read_text(encoding="ascii").strip()

    def write(self, file: str, directory: str, value: str) -> None:
        """Somebody writes a file by hand."""
        (CGROUP / file.partition(".")[0] / directory / file).write_text(value)

    # -- the cluster's part --------------------------------------------------------------------

    def _put_node(self) -> None:
        cpus, memory = str(os.cpu_count()), str(os.sysconf("SC_PHYS_PAGES") * 4096)
        room = {
            "cpu": cpus, "memory": memory, "pods": "110", "kubernetes.io/batch-cpu": "2000",
            "kubernetes.io/batch-memory": "1Gi",
        }  # fmt: skip
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        self.api.put("Node", NODE, status=status)
        # A node is made as one that is not ready, and no controller runs here that sees it is.
        self.api.call("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})
        classes = (ROOT / "deploy/priorityclasses.yaml").read_text(encoding="utf-8")
        for each in yaml.safe_load_all(classes):
            self.api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", each)

    def start_scheduler(self) -> None:
        """Starts koord-scheduler."""
        arguments = ["--kubeconfig", str(self.api.kubeconfig), "--leader-elect=false"]
        self._start("scheduler", [sys.executable, "-m", "koord.cli.daemons.scheduler", *arguments])

    # -- koordlet ------------------------------------------------------------------------------

    def start_koordlet(self, gates: str = "") -> None:
        """Starts it, and waits until it serves the runtime."""
        self.begin_koordlet("--feature-gates", gates)
        self.wait_synchronized()

    def wait_synchronized(self) -> None:
        """Waits until koordlet serves the runtime."""
        until("koordlet serves the runtime", self.is_synchronized)

    def begin_koordlet(self, *more: str) -> None:
        """Starts it, with arguments beside those that say where all is."""
        folder = self.folder
        arguments = [
            "--node-name", NODE, "--kubeconfig", str(self.api.kubeconfig),
            "--pods-from", "apiserver", "--disable-query-kubelet-config",
            "--cgroup-driver", "cgroupfs", "--state-dir", str(folder / "state"),
            "--var-lib-kubelet-dir", str(folder / "kubelet"),
            "--prediction-checkpoint-filepath", str(folder / "checkpoints"),
            "-v", "4", *more,
        ]  # fmt: skip
        (folder / "kubelet").mkdir(exist_ok=True)
        call = [sys.executable, "-m", "koord.cli.daemons.koordlet", *arguments]
        self._start("koordlet", call, agent_mode="hostMode")

    def kill_koordlet(self) -> None:
        """kill -9."""
        self._end("koordlet", signal.SIGKILL)
