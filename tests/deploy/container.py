# SPDX-License-Identifier: Apache-2.0
"""A pod's container as a process: command, user, mounts, environment and token are the pod's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.image import Image
from tests.deploy.probing import Probe

ROOT = Path(__file__).resolve().parents[2]
Document = dict[str, Any]


@dataclass(frozen=True)
class Surroundings:
    """What a container finds.

    Attributes:
        folder: the test's, for this pod.
        address: the pod's.
        network: name of its network namespace; none on the node's.
        sources: where each volume lies.
        token: the folder of its service account's token, if it has one.
        hosts: a file for /etc/hosts.
        image: what it is made from.
    """

    folder: Path
    address: str
    network: str | None
    sources: dict[str, Path]
    token: Path | None
    hosts: Path
    image: Image


class Container:
    """The one container of a pod.

    Attributes:
        restarts: how often it was started again.
        code: how it ended, if it has.
    """

    def __init__(self, pod: Document, around: Surroundings) -> None:
        self._pod, self._around = pod, around
        self._spec = pod["spec"]["containers"][0]
        self.log = around.folder / "log"
        self.restarts = 0
        self.code: int | None = None
        self.start()

    def start(self) -> None:
        """Runs its command."""
        self.code = None
        self._since = time.monotonic()
        spec = self._around.folder / "spec.json"
        spec.write_text(json.dumps(self._described()), encoding="utf-8")
        root = self._around.folder / "root"
        root.mkdir(exist_ok=True)
        python = [sys.executable, "-m", "tests.deploy.pod_root", str(spec)]
        command = ["unshare", "--mount", "--", *python]
        if self._around.network:
            command = ["ip", "netns", "exec", self._around.network, *command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )
        ports = {each["name"]: each["containerPort"] for each in self._spec.get("ports") or ()}
        self._probes = {
            kind: Probe(self._spec[kind], self._around.address, ports)
            for kind in ("startupProbe", "readinessProbe", "livenessProbe")
            if kind in self._spec
        }

    @property
    def ready(self) -> bool:
        """Whether it runs and its probes say so."""
        asked = [self._probes[kind] for kind in self._probes if kind != "livenessProbe"]
        return self.code is None and all(probe.passed for probe in asked)

    def look(self) -> None:
        """Sees whether it has ended, and asks its probes."""
        self.code = self._process.poll()
        if self.code is not None:
            return
        startup = self._probes.get("startupProbe")
        if startup is not None and not startup.passed:
            startup.look()
            if startup.failures and not startup.failed:
                return
        for probe in self._probes.values():
            if probe is not startup:
                probe.look()
        living = self._probes.get("livenessProbe")
        if (living is not None and living.failed) or (startup is not None and startup.failed):
            self.end(0)

    def end(self, grace: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """SIGTERM, and SIGKILL after a time; what else a kubelet's machine does meanwhile."""
        self._process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + (grace or 1)
        while self._process.poll() is None and time.monotonic() < deadline:
            meanwhile()
            time.sleep(0.05)
        self._process.kill()
        self._process.wait()
        self.code = self._process.returncode

    def status(self) -> Document:
        """A ContainerStatus."""
        state: Document = {"running": {"startedAt": self._pod["metadata"]["creationTimestamp"]}}
        if self.code is not None:
            state = {"terminated": {"exitCode": self.code % 256}}
        return {
            "name": self._spec["name"],
            "image": self._spec["image"],
            "imageID": "",
            "ready": self.ready,
            "started": self.code is None,
            "restartCount": self.restarts,
            "state": state,
        }

    def _described(self) -> Document:
        spec, around = self._spec, self._around
        outer = self._pod["spec"].get("securityContext") or {}
        inner = spec.get("securityContext") or {}
        mounts = [
            {
                "path": each["mountPath"],
                "source": str(around.sources[each["name"]]),
                "read_only": each.get("readOnly", False),
            }
            for each in spec.get("volumeMounts") or ()
        ]
        mounts.append({"path": "/etc/hosts", "source": str(around.hosts), "read_only": True})
        if around.token is not None:
            folder = "/var/run/secrets/kubernetes.io/serviceaccount"
            mounts.append({"path": folder, "source": str(around.token), "read_only": True})
        group = outer.get("runAsGroup", 0)
        return {
            "root": str(around.folder / "root"),
            "image_root": str(around.image.root or ""),
            "folders": around.image.folders,
            "mounts": mounts,
            "read_only_root": inner.get("readOnlyRootFilesystem", False),
            "escalation": inner.get("allowPrivilegeEscalation", True),
            "user": inner.get("runAsUser", outer.get("runAsUser", 0)),
            "group": group,
            "groups": [outer.get("fsGroup", group)],
            "command": [*spec["command"], *(spec.get("args") or ())],
            "environment": self._environment(),
        }

    def _environment(self) -> dict[str, str]:
        pod = self._pod
        fields = {
            "status.podIP": self._around.address,
            "metadata.namespace": pod["metadata"]["namespace"],
            "spec.nodeName": pod["spec"]["nodeName"],
        }
        given = {
            each["name"]: each.get("value", "")
            if "valueFrom" not in each
            else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in self._spec.get("env") or ()
        }
        return {
            **self._around.image.environment,
            "HOME": "/tmp",  # the container's own
            "KUBERNETES_SERVICE_HOST": "10.96.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
            **given,
        }
