# SPDX-License-Identifier: Apache-2.0
"""Hooks through NRI on a real containerd, as figures: ``python -m tests.node.scene ORDER``."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from tests.node.cri import CriPod
from tests.node.inside import write_figures
from tests.node.machine import CGROUP, NODE, RealNode, until

GATES = "OOMScoreAdj=true,GPUEnvInject=true"
_SAYS = (
    "grep Cpus_allowed_list /proc/self/status; cat /proc/self/oom_score_adj; "
    "echo gpus=$NVIDIA_VISIBLE_DEVICES; "
    "cat /sys/fs/cgroup/net_cls/net_cls.classid 2>/dev/null || echo none; exec sleep 100000"
)
_LINES = 4
COMMAND = ["/bin/sh", "-c", _SAYS]
_MIB = 1 << 20
BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": str(32 * _MIB)}
_QOS, _STATUS = "koordinator.sh/qosClass", "scheduling.koordinator.sh/resource-status"
_GPUS = "scheduling.koordinator.sh/device-allocated"
# Parts of the node's link, and nothing else: services 40 %, batch 5 to 10 %.
_NODE_SLO: dict[str, Any] = {
    "systemStrategy": {"totalNetworkBandwidth": "400M"},
    "resourceQOSStrategy": {
        "lsClass": {"networkQOS": {"enable": True, "egressRequest": 40}},
        "beClass": {"networkQOS": {"enable": True, "egressRequest": 5, "egressLimit": 10}},
    },
}
_FILES = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes", "cpuset.cpus")


class Pods:
    """Pods that the API server knows, made by the kubelet's calls.

    Args:
        node: where.
    """

    def __init__(self, node: RealNode) -> None:
        self._node = node
        self._documents: dict[str, dict[str, Any]] = {}

    def make(self, name: str, place: str, resources: dict[str, Any], **more: Any) -> CriPod:
        """A pod that is bound to the node, with the cgroup that its kubelet makes.

        Args:
            name: its name.
            place: the directory of its class, e.g. ``kubepods/besteffort``.
            resources: of its container.
            more: ``labels``, ``annotations``, ``priority`` (a class), ``node`` without a scheduler,
                and values of its cgroup.
        """
        metadata = {"labels": more.pop("labels", {}), "annotations": more.pop("annotations", {})}
        quality = {"kubepods": "Guaranteed", "kubepods/besteffort": "BestEffort"}[place]
        container = {"name": "main", "image": "example.test/busybox:1", "resources": resources}
        spec = {
            "schedulerName": "koord-scheduler", "containers": [container],
            "priorityClassName": more.pop("priority"),
        }  # fmt: skip
        if node := more.pop("node", "" if self._node.schedules else NODE):
            spec["nodeName"] = node
        status = {"phase": "Pending", "qosClass": quality}
        self._node.api.put("Pod", name, metadata=metadata, spec=spec, status=status)
        try:
            made = until(f"pod {name} is bound", lambda: self._bound(name), 30)["metadata"]
        except AssertionError:
            print(self._node.api.get("Pod", name)["status"])
            raise
        directory = f"{place}/pod{made['uid']}"
        self._node.make_directory(directory, **more)
        return CriPod(name, made["uid"], directory, made["labels"], made.get("annotations", {}))

    def _bound(self, name: str) -> Any:
        pod = self._node.api.get("Pod", name)
        return pod if pod["spec"].get("nodeName") else None

    def bound(self, name: str, cpus: str) -> CriPod:
        """An LSR pod, as a scheduler has left it."""
        one = {"cpu": "1", "memory": "64Mi"}
        return self.make(
            name, "kubepods", {"requests": one, "limits": one}, node=NODE,
            labels={_QOS: "LSR"}, priority="koord-prod",
            annotations={"koordinator.sh/oom-score-adj": "300",
                         _STATUS: json.dumps({"cpuset": cpus})},
            cpu_shares="1024", cpu_cfs_quota_us="100000",
        )  # fmt: skip

    def batch(self, name: str) -> CriPod:
        """A batch pod, as a scheduler has left it."""
        return self.make(
            name, "kubepods/besteffort", {"requests": BATCH, "limits": BATCH}, node=NODE,
            labels={_QOS: "BE"}, priority="koord-batch", cpu_shares="2",
        )  # fmt: skip

    def delete(self, pod: CriPod) -> None:
        """The kubelet is done with a pod: its cgroup goes, and it."""
        self._node.remove_directory(pod.directory)
        path = f"/api/v1/namespaces/default/pods/{pod.name}"
        self._node.api.call("DELETE", path, {"gracePeriodSeconds": 0})

    def started(self, pod: CriPod, container: str) -> None:
        """The kubelet tells that its container runs."""
        status = {"phase": "Running", "containerStatuses": [
            {"name": "main", "containerID": f"containerd://{container}", "image": "i",
             "imageID": "i", "ready": True, "restartCount": 0, "state": {"running": {}}},
        ]}  # fmt: skip
        self._node.api.put("Pod", pod.name, status=status)


def read(node: RealNode, pod: CriPod, container: str) -> dict[str, str]:
    """What a container's cgroup says."""
    return {name: node.read(name, f"{pod.directory}/{container}") for name in _FILES}


def run(node: RealNode) -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {"runtime": node.cri.version()}
    pods = Pods(node)
    found["sockets have classes"] = (CGROUP / "net_cls").is_dir()
    gates = _with_network(node, sockets_have_classes=found["sockets have classes"])
    node.start_koordlet(gates)
    until("CPUs are reported", lambda: node.api.get("NodeResourceTopology", NODE))
    bound = _bound(node, pods)
    found["chosen"] = json.loads(bound.annotations[_STATUS])["cpuset"]
    sandbox = node.cri.run_pod(bound)
    found["bound pod quota"] = node.read("cpu.cfs_quota_us", bound.directory)
    container = node.cri.create(
        sandbox, bound, COMMAND, cpu_shares=1024, cpu_quota=100_000, cpu_period=100_000,
        memory_limit_in_bytes=64 * _MIB, oom_score_adj=-997,
    )  # fmt: skip
    node.cri.start(container)
    found["bound says"] = until("output", lambda: _lines(node, bound, _LINES))
    # The cluster has not told of it yet: nobody but the runtime has written these.
    found["bound"] = read(node, bound, container)
    batch, inside = _batch(node, pods, found)
    _beneath_a_lower_quota(node, pods, found)
    if found["sockets have classes"]:
        found["classes of the link"] = _classes()
    found["calls"] = node.status()["runtime"]["calls"]
    pods.started(bound, container)
    pods.started(batch, inside)
    _states_the_same(node, found, (bound, container), (batch, inside))
    _killed_and_back(node, gates, found, (bound, container), (batch, inside))
    _runtime_is_restarted(node, pods, found)
    node.cri.remove(sandbox, container)
    found["said"] = [line for line in node.log("koordlet").splitlines() if "Traceback" in line]
    return found


def _with_network(node: RealNode, *, sockets_have_classes: bool) -> str:
    """Gates, with TCNetworkQoS where sockets have classes by cgroup v1."""
    if not sockets_have_classes:
        return GATES
    node.add_link()
    node.api.put("NodeSLO", NODE, spec=_NODE_SLO)
    return f"{GATES},TCNetworkQoS=true"


def _classes() -> dict[str, str]:
    """Of the node's link, what each may have at most, by handle; empty where it has none."""
    words = ["tc", "class", "show", "dev", "uplink"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return dict(re.findall(r"^class htb (\S+) .* ceil (\S+)", shown, re.MULTILINE))


def _bound(node: RealNode, pods: Pods) -> CriPod:
    """A pod with a CPU that koord-scheduler chose; where none runs, as one has left it."""
    if not node.schedules:
        return pods.bound("bound", "3")
    node.start_scheduler()
    return pods.make(
        "bound", "kubepods",
        {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
        labels={_QOS: "LSR"}, priority="koord-prod",
        annotations={"koordinator.sh/oom-score-adj": "300"},
        cpu_shares="1024", cpu_cfs_quota_us="100000",
    )  # fmt: skip


def _lines(node: RealNode, pod: CriPod, count: int) -> list[str]:
    lines = node.cri.output(pod)
    return lines if len(lines) >= count else []


def _batch(
    node: RealNode, pods: Pods, found: dict[str, Any], name: str = "batch"
) -> tuple[CriPod, str]:
    pod = pods.make(
        name, "kubepods/besteffort", {"requests": BATCH, "limits": BATCH},
        labels={_QOS: "BE"}, priority="koord-batch", cpu_shares="2",
    )  # fmt: skip
    sandbox = node.cri.run_pod(pod)
    files = _FILES[:3]
    found[f"{name} pod"] = {file: node.read(file, pod.directory) for file in files}
    container = node.cri.create(sandbox, pod, COMMAND, cpu_shares=2, oom_score_adj=1000)
    node.cri.start(container)
    found[f"{name} says"] = until("output", lambda: _lines(node, pod, _LINES))
    found[name] = read(node, pod, container)
    # The kubelet has its own idea: what hooks want stays.
    node.cri.update(container, cpu_shares=2, cpu_quota=10_000, cpu_period=100_000)
    found[f"{name} updated"] = read(node, pod, container)
    return pod, container


def _beneath_a_lower_quota(node: RealNode, pods: Pods, found: dict[str, Any]) -> None:
    """On cgroup v1 the kernel takes no quota above the pod's, and runc starts no such container."""
    pod = pods.make(
        "low", "kubepods/besteffort", {"requests": BATCH, "limits": BATCH},
        labels={_QOS: "BE"}, priority="koord-batch", cpu_shares="2",
    )  # fmt: skip
    sandbox = node.cri.run_pod(pod)

    def beneath() -> dict[str, str]:
        """Empty where koordlet's executor has given the pod its quota back meanwhile."""
        node.write("cpu.cfs_quota_us", pod.directory, "20000")
        container = node.cri.create(sandbox, pod, COMMAND, cpu_shares=2, oom_score_adj=1000)
        node.cri.start(container)
        until("output", lambda: _lines(node, pod, _LINES))
        values = read(node, pod, container)
        node.cri.end(container)
        # On v2 its period stands after it.
        quota = node.read("cpu.cfs_quota_us", pod.directory).split()[0]
        return values if quota == "20000" else {}

    found["low"] = until("a container starts beneath a lower quota", beneath)
    node.cri.remove(sandbox)


def _states_the_same(
    node: RealNode, found: dict[str, Any], *containers: tuple[CriPod, str]
) -> None:
    """What the executor claims of the same containers, once the cluster tells of them."""
    directories = {f"{pod.directory}/{container}" for pod, container in containers}

    def stated() -> dict[str, dict[str, str]]:
        files: dict[str, dict[str, str]] = {}
        for line in node.status()["files"]:
            if line["directory"] in directories:
                files.setdefault(line["directory"], {})[line["resource"]] = line["value"]
        return files if len(files) == len(directories) else {}

    files = until("koordlet claims files of both", stated)
    for pod, container in containers:
        found[f"{pod.name} stated"] = files[f"{pod.directory}/{container}"]
        found[f"{pod.name} then"] = read(node, pod, container)


def _killed_and_back(
    node: RealNode, gates: str, found: dict[str, Any], *containers: tuple[CriPod, str]
) -> None:
    (bound, first), (batch, second) = containers
    found["started"] = [node.cri.started_at(first), node.cri.started_at(second)]
    node.kill_koordlet()
    node.cri.update(second, cpu_quota=20_000, cpu_period=100_000)  # nobody hooks this
    node.write("cpu.shares", f"{batch.directory}/{second}", "777")
    other = "0" if found["chosen"] != "0" else "1"
    node.write("cpuset.cpus", f"{bound.directory}/{first}", other)
    found["drifted"] = [read(node, bound, first), read(node, batch, second)]
    node.start_koordlet(gates)

    def mended() -> bool:
        now = [read(node, bound, first), read(node, batch, second)]
        return now == [found["bound then"], found["batch then"]]

    until("what drifted is mended", mended, 30)
    found["mended"] = [read(node, bound, first), read(node, batch, second)]
    found["started after"] = [node.cri.started_at(first), node.cri.started_at(second)]


def _runtime_is_restarted(node: RealNode, pods: Pods, found: dict[str, Any]) -> None:
    node.stop_containerd()
    node.start_containerd()
    until(
        "koordlet comes back to the runtime", lambda: node.status()["runtime"]["connections"] == 2
    )
    until("it is told of all that runs", node.is_synchronized)
    again: dict[str, Any] = {}
    _batch(node, pods, again, "again")
    found["again"] = again["again"]


if __name__ == "__main__":
    write_figures(lambda folder, _: run(RealNode(folder)))
