# SPDX-License-Identifier: Apache-2.0
"""What a release may leave: objects, the node's own, cgroups, mounts, processes and files."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.node.cluster.control_plane import NODE
from tests.node.cluster.visitor import TROUBLES, Document
from tests.node.installed.node import Operator
from tests.node.machine import CGROUP

# The kubelet looks after its cgroups once a minute.
PATIENCE_SECONDS = 75.0
Trace = dict[str, dict[str, str]]
_COME_AND_GO = ("/api/v1/events", "/apis/events.k8s.io/v1/events", "/api/v1/componentstatuses")
_HEARTBEATS = "kube-node-lease"
_KUBEPODS = ("kubepods", "kubepods/burstable", "kubepods/besteffort")
# What the kernel counts there.
_COUNTED = ("usage", "failcnt", "procs", "tasks", "force_empty", "event_control", "reset_stats")
_OTHERS = ("devices",)  # hierarchies in which the runtime makes a directory with the first pod
_PLACES = ("/run/*koord*", "/var/lib/*koord*", "/var/log/*koord*", "/etc/*koord*")


def taken(world: Operator) -> Trace:
    """What is there now: of each kind, texts by name."""
    found = world.collections()
    (node,) = (each for each in found["/api/v1/nodes"] if each["metadata"]["name"] == NODE)
    return {
        "objects": {
            f"{path}/{each['metadata'].get('namespace', '')}/{each['metadata']['name']}": ""
            for path, listed in found.items()
            if path not in _COME_AND_GO
            for each in listed
            if each["metadata"].get("namespace") != _HEARTBEATS
        },
        "node": _face(node),
        "cgroups": dict(_settings()),
        "mounts": dict.fromkeys(_mounts(), ""),
        "processes": {name: str(count) for name, count in _programs().items()},
        "files": {str(path): "" for place in _PLACES for path in _below(place)},
    }


def different(before: Trace, after: Trace) -> dict[str, list[str]]:
    """Of each kind with differences: what is new, gone (with a minus) or another value."""
    found = {}
    for kind, now in after.items():
        old = before[kind]
        lines = [f"{name} {text}".strip() for name, text in now.items() if old.get(name) != text]
        # Others of the machine take their folders away, and with them what was mounted there.
        gone = (name for name in old if name not in now)
        lines += [f"-{name}" for name in gone if kind != "mounts" or Path(name).exists()]
        if lines:
            found[kind] = sorted(lines)
    return found


def settled(before: Trace, after: Trace) -> bool:
    """Whether kubelet and runtime have put away what pods had."""
    return not {"cgroups", "mounts", "processes"} & set(different(before, after))


def quota_of_batch() -> int:
    """Microseconds of a period that all batch may run together; -1 without a limit."""
    file = CGROUP / "cpu/kubepods/besteffort/cpu.cfs_quota_us"
    return int(file.read_text(encoding="ascii"))


def troubles(world: Operator, pods: list[Document]) -> list[str]:
    """What koord's pods logged of failures."""
    return [
        f"{pod['metadata']['labels']['koord-app']}: {line}"
        for pod in pods
        for line in world.pod_log(pod["metadata"]["namespace"], pod["metadata"]["name"]).split("\n")
        if any(word in line for word in TROUBLES)
    ]


def restarts(world: Operator, pods: list[Document]) -> dict[str, Any]:
    """Of containers that ended and were started again: how they ended, and their last lines."""
    found = {}
    for pod in pods:
        (status,) = pod["status"]["containerStatuses"]
        if status["restartCount"]:
            meta = pod["metadata"]
            said = world.pod_log(meta["namespace"], meta["name"], "--previous", "--tail=40")
            found[meta["name"]] = {**status["lastState"], "said": said}
    return found


def confinement(pod: Document) -> dict[str, str]:
    """What the kernel says of the first process of a pod's container."""
    container = pod["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
    (folder,) = (CGROUP / "memory").glob(f"kubepods/**/pod{pod['metadata']['uid']}/{container}")
    first = min(map(int, _text(folder / "cgroup.procs").split()))
    found = _process(Path("/proc", str(first)))
    return {key: found[key] for key in ("Uid", "CapEff", "NoNewPrivs", "Seccomp")}


def _face(node: Document) -> dict[str, str]:
    metadata = node["metadata"]
    return {
        **{f"label {key}": value for key, value in metadata["labels"].items()},
        **{f"annotation {key}": value for key, value in metadata.get("annotations", {}).items()},
        **{f"taint {each['key']}": "" for each in node["spec"].get("taints", ())},
        **{f"offer {key}": "" for key in node["status"]["allocatable"]},
    }


def _settings() -> Iterator[tuple[str, str]]:
    """Of the directories that outlive pods."""
    for hierarchy in sorted(path for path in CGROUP.iterdir() if path.name not in _OTHERS):
        for directory in _KUBEPODS:
            for file in sorted((hierarchy / directory).glob("*.*")):
                if file.stat().st_mode & 0o200 and not any(w in file.name for w in _COUNTED):
                    yield f"{directory}/{file.name}", _text(file)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError as error:
        return str(error.strerror)


def _mounts() -> list[str]:
    call = ["findmnt", "--noheadings", "--list", "--output", "TARGET"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")


def _programs() -> Counter[str]:
    """All but those that have ended and that nobody has asked for."""
    found = map(_process, (file.parent for file in Path("/proc").glob("[0-9]*/status")))
    return Counter(each["Name"] for each in found if each and not each["State"].startswith("Z"))


def _process(folder: Path) -> dict[str, str]:
    lines = _text(folder / "status").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _below(place: str) -> Iterator[Path]:
    for path in Path("/").glob(place.lstrip("/")):
        yield path
        yield from path.rglob("*")
