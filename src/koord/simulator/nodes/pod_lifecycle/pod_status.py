# SPDX-License-Identifier: Apache-2.0
"""The status that a kubelet writes when a pod reaches a stage, as a strategic merge patch."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from koord.api.timestamps import seconds_text
from koord.base.documents import Document
from koord.simulator.nodes.pod_lifecycle.pod_stages import exit_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.pod import Container, ContainerStatus, Pod
    from koord.simulator.nodes.pod_lifecycle.pod_stages import StageResult


_IMAGE_LATEST = ":latest"
# The exit code of a process that SIGKILL ended, as the kernel does when memory is short.
_KILLED = 137


def status(pod: Pod, stage: StageResult, node_ip: str, pod_ip: str, now: str) -> Document:
    """The changed part of a pod's status.

    Args:
        pod: as it is.
        stage: what happens to it.
        node_ip: of its machine.
        pod_ip: its own, which it gets when it runs.
        now: RFC 3339.
    """
    found: Document = {"phase": stage.phase}
    if stage.started:
        found |= {"startTime": now, "hostIP": node_ip, "hostIPs": [{"ip": node_ip}]}
    running = stage.containers == "running"
    if running:
        address = node_ip if pod.spec.host_network else pod_ip
        found |= {"podIP": address, "podIPs": [{"ip": address}]}
    found["conditions"] = list(_conditions(pod, stage, now))
    found["containerStatuses"] = [
        _container(pod, container, stage, now) for container in pod.spec.containers
    ]
    if pod.spec.init_containers and (stage.started or stage.initialized):
        found["initContainerStatuses"] = [
            _init_container(pod, container, stage, now) for container in pod.spec.init_containers
        ]
    return found


def _conditions(pod: Pod, stage: StageResult, now: str) -> Iterator[Document]:
    before = {each.type: each for each in pod.status.conditions}

    def condition(type_: str, is_true: bool, reason: str = "", message: str = "") -> Document:
        value = "True" if is_true else "False"
        old = before.get(type_)
        kept = old.last_transition_time if old and old.status == value else None
        told: Document = {
            "type": type_,
            "status": value,
            "lastProbeTime": None,
            "lastTransitionTime": seconds_text(kept) if kept else now,
            # A condition keeps what a patch leaves out, so that they are taken away by name.
            "reason": reason or None,
            "message": message or None,
        }
        return {key: value for key, value in told.items() if value is not None or old is not None}

    if "PodScheduled" not in before:
        # Whoever named the node in the pod itself needed no scheduler to say so.
        yield condition("PodScheduled", True)
    ended = stage.phase in ("Succeeded", "Failed")
    initialized = (
        stage.initialized
        or stage.containers == "running"
        or ended
        or (stage.started and not pod.spec.init_containers)
        or ("Initialized" in before and before["Initialized"].status == "True")
    )
    names = " ".join(container.name for container in pod.spec.init_containers)
    waiting = f"containers with incomplete status: [{names}]"
    if initialized:
        done = "PodCompleted" if stage.phase == "Succeeded" else ""
        yield condition("Initialized", True, done)
    else:
        yield condition("Initialized", False, "ContainersNotInitialized", waiting)
    yield condition("PodReadyToStartContainers", not ended and initialized)
    ready, reason, message = stage.containers == "running", "", ""
    if stage.phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if stage.phase == "Succeeded" else "PodFailed"
    elif not ready:
        names = " ".join(container.name for container in pod.spec.containers)
        reason, message = "ContainersNotReady", f"containers with unready status: [{names}]"
    yield condition("ContainersReady", ready, reason, message)
    yield condition("Ready", ready, reason, message)


def _container(pod: Pod, container: Container, stage: StageResult, now: str) -> Document:
    before = _named(pod.status.container_statuses, container.name)
    count = before.restart_count if before else 0
    restart_count = count + 1 if stage.restarted else count
    running = stage.containers == "running"
    state, last = _state(pod, before, stage, now)
    told: Document = {
        "name": container.name,
        "image": _image(container),
        "imageID": "",
        "ready": running,
        "restartCount": restart_count,
        "started": running,
        "state": state,
        "lastState": last,
    }
    ran = running or stage.containers == "terminated" or last
    if ran:
        told["containerID"] = _container_id(pod, container.name, restart_count)
        told["imageID"] = f"{_image(container)}@sha256:{_digest(container.image)}"
        if "terminated" in state:
            state["terminated"]["containerID"] = told["containerID"]
    return told


def _state(
    pod: Pod, before: ContainerStatus | None, stage: StageResult, now: str
) -> tuple[Document, Document]:
    """The state of a container and the one before it."""
    started = (before.state if before else {}).get("running", {}).get("startedAt")
    code = exit_code(pod) if stage.exit_code is None else stage.exit_code
    ended = {
        "terminated": {
            "exitCode": code,
            "reason": "OOMKilled" if code == _KILLED else "Error" if code else "Completed",
            "startedAt": started or now,
            "finishedAt": now,
        }
    }
    if stage.containers == "terminated":
        return ended, {}
    last = ended if started else before.last_state if before else {}
    if stage.containers == "running":
        return {"running": {"startedAt": now}}, last
    return {"waiting": {"reason": stage.reason or "ContainerCreating"}}, last


def _init_container(pod: Pod, container: Container, stage: StageResult, now: str) -> Document:
    sidecar = container.restart_policy == "Always"
    told: Document = {
        "name": container.name,
        "image": _image(container),
        "imageID": "",
        "ready": stage.initialized,
        "restartCount": 0,
        "started": stage.initialized and sidecar,
        "lastState": {},
    }
    if not stage.initialized:
        return told | {"state": {"waiting": {"reason": "PodInitializing"}}}
    told["containerID"] = _container_id(pod, container.name, 0)
    if sidecar:
        return told | {"state": {"running": {"startedAt": now}}}
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
    ended["containerID"] = told["containerID"]
    return told | {"state": {"terminated": ended}}


def _named(statuses: list[ContainerStatus], name: str) -> ContainerStatus | None:
    return next((each for each in statuses if each.name == name), None)


def _image(container: Container) -> str:
    """The image as runtimes report it: with a tag."""
    last = container.image.rpartition("/")[2]
    return container.image if ":" in last or "@" in last else container.image + _IMAGE_LATEST


def _container_id(pod: Pod, name: str, restart_count: int) -> str:
    return f"simulated://{_digest(f'{pod.metadata.uid}/{name}/{restart_count}')}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
