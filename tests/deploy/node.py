# SPDX-License-Identifier: Apache-2.0
"""A kubelet of tests: each pod's container runs as a process, with what its pod says of it.

It stands for a real one where only this is of interest: that arguments, users, mounts, environment,
tokens and probes of a chart's pods are right. Images are not fetched: they are those of
`tests.deploy.image`. One container a pod, always of the commands that the chart has.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.deploy.admin import Admin, Document, RefusedError
from tests.deploy.container import Container, Surroundings
from tests.deploy.image import ABSENT, Images
from tests.deploy.pod_network import NODE_ADDRESS, PodNetwork
from tests.deploy.services import Services
from tests.deploy.volumes import Volumes
from tests.real.plane import RealControlPlane

NAME = "node-1"
PAUSE_SECONDS = 0.1


@dataclass
class RunningPod:
    """A pod on this node."""

    container: Container
    network: str | None
    address: str
    written: Document | None = None


class TestNode:
    """One node, its pods and its services' addresses; `run` in a thread of its own."""

    __test__ = False

    def __init__(
        self,
        plane: RealControlPlane,
        network: PodNetwork,
        folder: Path,
        host: Path,
        images: Images | None = None,
    ) -> None:
        self._images = images or Images()
        self._plane, self._folder, self._host = plane, folder, host
        self._admin = Admin(plane)
        self._network = network
        self._services = Services(self._admin, plane.port)
        self._hosts = folder / "hosts"
        self._hosts.write_text("127.0.0.1 localhost\n", encoding="utf-8")
        self.pods: dict[str, RunningPod] = {}
        self.restarts: list[str] = []
        self.failure: BaseException | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Registers the node, and looks after it from now on."""
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }
        labels = {"kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux"}
        body = {"metadata": {"name": NAME, "labels": labels}, "status": status}
        self._admin.create("/api/v1/nodes", body)
        self._thread.start()

    def stop(self) -> None:
        """Ends all processes."""
        self._ending.set()
        self._thread.join(60)
        for each in self.pods.values():
            each.container.end(2)

    def logs(self) -> str:
        """The end of what each container printed."""
        return "\n".join(
            f"--- {each.container.log}\n{each.container.log.read_text(errors='replace')[-3000:]}"
            for each in self.pods.values()
        )

    def _run(self) -> None:
        try:
            beat = 0.0
            while not self._ending.is_set():
                if time.monotonic() > beat:
                    beat = time.monotonic() + 5
                    self._heartbeat()
                self._look()
                self._ending.wait(PAUSE_SECONDS)
        except BaseException as error:
            self.failure = error
            raise

    def _heartbeat(self) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        body = {"status": {"conditions": [{**ready, "lastHeartbeatTime": now}]}}
        with suppress(RefusedError):
            self._admin.patch(f"/api/v1/nodes/{NAME}/status", body)

    def _look(self) -> None:
        self._lead_services()
        found = self._admin.items(f"/api/v1/pods?fieldSelector=spec.nodeName={NAME}")
        for pod in found:
            uid = pod["metadata"]["uid"]
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod)
            elif pod["spec"]["containers"][0]["image"] == ABSENT:
                continue
            elif uid not in self.pods:
                self._begin(pod)
            else:
                self._tend(pod, self.pods[uid])

    def _begin(self, pod: Document) -> None:
        uid = pod["metadata"]["uid"]
        folder = self._folder / "pods" / f"{pod['metadata']['name']}-{uid[:8]}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            volumes = Volumes(self._admin, pod, folder / "volumes", self._host)
            token = None
            if pod["spec"].get("automountServiceAccountToken", True):
                token = volumes.token(self._plane.authority.certificate)
        except RefusedError:
            # What it mounts is not there yet: looked for again, as a kubelet does.
            for path in sorted((folder / "volumes").rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            return
        network, address = None, NODE_ADDRESS
        if not pod["spec"].get("hostNetwork"):
            network, address = self._network.add()
        image = self._images.find(pod["spec"]["containers"][0]["image"])
        around = Surroundings(folder, address, network, volumes.sources, token, self._hosts, image)
        self.pods[uid] = RunningPod(Container(pod, around), network, address)

    def _tend(self, pod: Document, running: RunningPod) -> None:
        container = running.container
        container.look()
        if container.code is not None and pod["spec"]["restartPolicy"] == "Always":
            self.restarts.append(f"{pod['metadata']['name']}: {container.code}")
            container.restarts += 1
            container.start()
        self._tell(pod, running)

    def _tell(self, pod: Document, running: RunningPod) -> None:
        container = running.container
        phase = "Running"
        if container.code is not None:
            phase = "Failed" if container.code else "Succeeded"
        ready = str(container.ready)
        status: Document = {
            "phase": phase,
            "hostIP": NODE_ADDRESS,
            "podIP": running.address,
            "podIPs": [{"ip": running.address}],
            "startTime": pod["metadata"]["creationTimestamp"],
            "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "ContainersReady", "status": ready},
                {"type": "Ready", "status": ready},
            ],
            "containerStatuses": [container.status()],
        }
        if status == running.written:
            return
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        stamped = [{**each, "lastTransitionTime": moment} for each in status["conditions"]]
        body = {"status": {**status, "conditions": stamped}}
        with suppress(RefusedError):
            self._admin.patch(f"{_path(pod)}/status", body)
            running.written = status

    def _end(self, pod: Document) -> None:
        running = self.pods.pop(pod["metadata"]["uid"], None)
        if running is not None:
            grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
            # Services lead elsewhere from now on, whatever its end takes.
            running.container.end(grace, self._lead_services)
            if running.network:
                self._network.remove(running.network)
        with suppress(RefusedError):
            self._admin.delete(_path(pod), gracePeriodSeconds=0)

    def _lead_services(self) -> None:
        names = self._services.look()
        lines = [f"{address} {name}.svc" for name, address in names.items()]
        text = "\n".join(["127.0.0.1 localhost", *lines, ""])
        # In place, for it is mounted: whoever reads it meanwhile finds it empty.
        if text != self._hosts.read_text(encoding="utf-8"):
            self._hosts.write_text(text, encoding="utf-8")


def _path(pod: Document) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
