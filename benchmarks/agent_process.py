# SPDX-License-Identifier: Apache-2.0
"""What a whole koordlet costs: ``python -m benchmarks.agent_process [--version 2] [--seconds 60]``.

koordlet runs as the process that a node has, at its default intervals and with all collectors on,
over a synthetic machine (/proc, /sys and a cgroup tree as files) with 110 pods of two containers, a
kubelet that serves their whole documents and an API server, both over HTTPS. Windows of a minute,
by phases in turn: ``idle``; ``suppressing``, where the CPUs of best-effort pods are others every
round; ``churning``, where twenty pods a minute come and as many go; ``both``. Prints one JSON
document: of each window the share of a core, that of a plain Python loop over the same files once a
second, and how often CPUs moved; resident memory of the process and above a bare interpreter's,
what of it is private, and how it grew while it was measured. What the machine lacks is under
``absent``: hardware counters and GPUs need real ones. Run it twice where modules are not compiled
yet, as they are in an image: compiling takes memory too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.agent_activity import Activity
from benchmarks.agent_metrics import extras, plain_loop
from koord.base.documents import Document
from koord.kernels.cgroup import CATALOGUE
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import KubeQos
from tests.agent.day.plant import KNOBS
from tests.agent.machine_tree import GIB, Group, MachineTree
from tests.agent.metrics.bench import lay_out, pod_json, pod_of
from tests.scenes.apiserver import ApiServer
from tests.scenes.daemon import free_port
from tests.scenes.kubelet import Kubelet
from tests.scenes.nursery import Nursery
from tests.scenes.runtime import wait_until

NODE = "bench"
GATES = ("CPICollector", "PSICollector", "ColdPageCollector", "ResctrlCollector", "Accelerators",
         "RDMADevices", "BlkIOReconcile", "HugePageReport")  # fmt: skip
BARE = "import time; print('ready', flush=True); time.sleep(600)"
# As in its pod: a kubeconfig would load a package of 35 MiB that no DaemonSet needs.
START = """
import sys
from koord.kube.transport import credentials
credentials._SERVICE_ACCOUNT = sys.argv.pop(1)
from koord.cli.daemons.koordlet import main
main()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--containers", type=int, default=2, help="of each pod")
    parser.add_argument("--version", type=int, choices=(1, 2), default=1, help="of cgroups")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a window")
    parser.add_argument("--windows", type=int, default=1, help="of each phase, in turn")
    parser.add_argument(
        "--phases", default="idle", help="some of idle, suppressing, churning, both, with commas"
    )
    parser.add_argument(
        "--optimize", type=int, choices=(0, 1, 2), default=0,
        help="PYTHONOPTIMIZE of both processes; 2 is without docstrings",
    )  # fmt: skip
    parser.add_argument("--most-mib", type=float, help="fail above this, over a bare interpreter")
    told = parser.parse_args()
    nursery = Nursery()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        report = measure(Path(folder), nursery, held, told)
    print(json.dumps(report, indent=2))
    if told.most_mib is not None and report["resident_mib_above_bare"] > told.most_mib:
        sys.exit(f"resident: more than {told.most_mib} MiB above a bare interpreter")


def measure(
    folder: Path, nursery: Nursery, held: ExitStack, told: argparse.Namespace
) -> dict[str, object]:
    """Runs it all and gives the figures."""
    tree = MachineTree(folder / "machine", Version(told.version))
    files = PodFiles(tree)

    def make(number: int) -> Document:
        return document(number, told.containers)

    documents = [make(number) for number in range(told.pods)]
    directories = [files.lay(each) for each in documents]
    activity = Activity(tree, documents, make, files.lay, directories[1])
    port = free_port()
    api = cluster(folder, nursery, held, documents)
    python = {**os.environ, "PYTHONOPTIMIZE": str(told.optimize or "")}
    # With it modules are compiled at every start, and running twice is of no use.
    python.pop("PYTHONDONTWRITEBYTECODE", None)
    pid = held.enter_context(koordlet(folder, api, tree, port, python))
    wait_until("the agent is ready", 180, lambda: answers(port))
    time.sleep(told.settle)
    fetch(port, "/metrics")
    before = memory(pid)
    every = [directory for each in directories for directory in each]
    windows = [
        window(pid, phase, activity, told.seconds, lambda: plain_percent(tree, every))
        for _ in range(told.windows)
        for phase in told.phases.split(",")
    ]
    fetch(port, "/metrics")
    after, bare = memory(pid), memory(held.enter_context(interpreter(python)))
    status = json.loads(fetch(port, "/status"))
    above = {name: after[name] - bare[name] for name in after}
    return {
        "seconds": told.seconds,
        "windows": windows,
        "directories": len(every),
        "optimize": told.optimize,
        "gates": list(GATES),
        "resident_mib": mib(after["Rss"]),
        "bare_interpreter_mib": mib(bare["Rss"]),
        "resident_mib_above_bare": mib(above["Rss"]),
        "private_mib_above_bare": mib(above["Private"]),
        "grown_mib": mib(after["Rss"] - before["Rss"]),
        "threads": len(list(Path(f"/proc/{pid}/task").iterdir())),
        "ready": status["ready"],
        "pods": len(status["pods"]),
        "collectors": sorted(each["name"] for each in status["collectors"]),
        "errors": [each for each in status["collectors"] if each.get("error")],
        "absent": status["machine"].get("missing", {}),
        "memory": status["memory"],
    }


def window(
    pid: int, phase: str, activity: Activity, seconds: float, plain: Callable[[], float | None]
) -> dict[str, object]:
    """One window, and the plain loop before it, for what a core is worth at that moment."""
    reference = plain()
    with activity.going(phase):
        began, (user, system) = time.monotonic(), cpu_seconds(pid)
        time.sleep(seconds)
        passed, now = time.monotonic() - began, cpu_seconds(pid)
    user, system = (now[0] - user) / passed, (now[1] - system) / passed
    return {
        "phase": phase,
        "percent_of_a_core": round((user + system) * 100, 3),
        "user_percent": round(user * 100, 3),
        "plain_loop_percent_of_a_core": reference,
        "moves": activity.moves,
        "pods_came_and_went": activity.pods,
    }


# -- what is measured with ---------------------------------------------------------------------


def mib(kib: int) -> float:
    return round(kib / 1024, 1)


def memory(pid: int) -> dict[str, int]:
    """KiB: resident, proportional, and what nobody shares."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    found = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    private = found["Private_Clean"] + found["Private_Dirty"]
    return {"Rss": found["Rss"], "Pss": found["Pss"], "Private": private}


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Of the program's own and of the kernel's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(fields[11]) / ticks, int(fields[12]) / ticks


def plain_percent(tree: MachineTree, directories: list[str]) -> float | None:
    """A plain loop a second over the three files that every round reads (v1 paths)."""
    if tree.version is not Version.V1:
        return None
    times = []
    for _ in range(20):
        started = time.process_time()
        plain_loop(f"{tree.root}/sys/fs/cgroup", directories)
        times.append(time.process_time() - started)
    return round(min(times) * 100, 3)


@contextmanager
def interpreter(python: dict[str, str]) -> Iterator[int]:
    """An interpreter that has imported nothing."""
    command = [sys.executable, "-c", BARE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=python) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


# -- what is measured --------------------------------------------------------------------------


@contextmanager
def koordlet(
    folder: Path, api: ApiServer, tree: MachineTree, port: int, python: dict[str, str]
) -> Iterator[int]:
    """A fresh process, nothing forked."""
    account, roots = folder / "account", tree.roots
    account.mkdir()
    (account / "token").write_text(api.token)
    (account / "ca.crt").write_bytes((api.certificates / "ca.crt").read_bytes())
    host, _, api_port = api.url.removeprefix("https://").rpartition(":")
    flags = {
        "node-name": NODE, "cgroup-driver": "systemd",
        "cgroup-root-dir": roots.cgroup, "sys-root-dir": roots.sys, "sys-fs-root-dir": roots.sys_fs,
        "proc-root-dir": roots.proc, "var-run-root-dir": roots.var_run, "run-root-dir": roots.run,
        "state-dir": folder / "state", "var-lib-kubelet-dir": folder / "kubelet",
        "xpu-device-infos-dir": folder / "xpu", "audit-log-dir": folder / "audit",
        "prediction-checkpoint-filepath": folder / "checkpoints", "addr": f"127.0.0.1:{port}",
        "enable-pagecache-collector": "true", "enable-resctrl-collector": "true",
        # Mounting is none of a benchmark's business.
        "feature-gates": ",".join([*(f"{gate}=true" for gate in GATES), "RdtResctrl=false"]),
    }  # fmt: skip
    command = [sys.executable, "-c", START, str(account)]
    command += [f"--{name}={value}" for name, value in flags.items()]
    environment = {
        **python, "agent_mode": "hostMode",
        "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": api_port,
    }  # fmt: skip
    environment.pop("KUBECONFIG", None)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        if process.wait() != 0:
            print((folder / "log").read_text()[-3000:], file=sys.stderr)


def cluster(
    folder: Path, nursery: Nursery, held: ExitStack, documents: list[Document]
) -> ApiServer:
    """A node, its NodeSLO with everything enabled, its NodeMetric, and a kubelet."""
    (folder / "api").mkdir()
    api = ApiServer(folder / "api", nursery)
    held.callback(api.close)
    kubelet = Kubelet(lambda: documents, api.certificates, api.token, keeps=True)
    held.callback(kubelet.stop)
    amounts = {"cpu": "4", "memory": str(16 * GIB), "pods": "110"}
    batch = {"kubernetes.io/batch-cpu": "3000", "kubernetes.io/batch-memory": str(8 * GIB)}
    api.put("Node", NODE, status={
        "capacity": amounts, "allocatable": {**amounts, **batch},
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
    })  # fmt: skip
    enabled = {"cpuQOS": {"enable": True}, "memoryQOS": {"enable": True}}
    api.put("NodeSLO", NODE, spec={
        "resourceUsedThresholdWithBE": {"enable": True},
        "cpuBurstStrategy": {"policy": "auto"},
        "resourceQOSStrategy": dict.fromkeys(("lsrClass", "lsClass", "beClass"), enabled),
    })  # fmt: skip
    api.put("NodeMetric", NODE, spec={})
    return api


class PodFiles:
    """Cgroups of a machine whose kernel has everything.

    Args:
        tree: the machine; the directories above pods are made.
    """

    def __init__(self, tree: MachineTree) -> None:
        self._tree = tree
        self._group = Group(
            10**9, 1 << 20, 0, 1 << 20, 10, 1, pages={0: 9, 1: 9}, pressure=(0.5, 0.1)
        )
        self._idle = extras(tree, self._group)
        layout = tree.machine().layout
        for directory in ("", *(layout.qos(qos) for qos in KubeQos)):
            tree.group(directory, self._group)
            self._write(directory)

    def lay(self, document: Document) -> list[str]:
        """Makes those of a pod; gives their directories, the pod's first."""
        pod = pod_of(self._tree, document)
        lay_out(self._tree, pod, self._group)
        found = [pod.directory, *(each.directory for each in pod.containers)]
        for directory in found:
            self._write(directory)
        return found

    def _write(self, directory: str) -> None:
        """Beside what a group has at least."""
        tree = self._tree
        if tree.version is Version.V1:
            tree.write(f"sys/fs/cgroup/memory/{directory}/memory.idle_page_stats", self._idle)
        for resource, texts in KNOBS.items():
            row = CATALOGUE[resource]
            file = row.v1 if tree.version is Version.V1 else row.v2
            assert file is not None
            where = f"sys/fs/cgroup/{file.directory}/{directory}/{file.name}"
            tree.write(where, texts[tree.version] + "\n")


def document(number: int, containers: int) -> Document:
    """A pod, a third of them best-effort, with as much text as real ones have."""
    kind = ("BE", "BestEffort", 500) if number % 3 == 0 else ("LS",)
    made: Any = pod_json(f"p{number}", containers, *kind)
    mount = {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    for one in made["spec"]["containers"]:
        one |= {
            "image": "registry.example.com/team/service:v1.2.3",
            "env": [{"name": f"SETTING_{at}", "value": "some value " * 3} for at in range(20)],
            "volumeMounts": [{"name": f"volume-{at}", **mount} for at in range(5)],
        }
    made["status"]["conditions"] = [
        {"type": name, "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        for name in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    document: Document = made
    return document


def answers(port: int) -> bool:
    try:
        fetch(port, "/readyz")
    except OSError:
        return False
    return True


def fetch(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        body: bytes = answer.read()
    return body


if __name__ == "__main__":
    main()
