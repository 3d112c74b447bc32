# SPDX-License-Identifier: Apache-2.0
"""A cluster of one node where Koordinator is installed:
``python -m tests.original.moving.control_plane ORDER``.

The story on the node says which programs of which side are to run outside it; they run here, so
that what they spend is not the node's. The API server's audit log says who wrote what.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import yaml

from tests.cli.commands.check.manifests import NAMESPACE
from tests.node.cluster.control_plane import Cluster, play
from tests.original.moving import sides
from tests.original.source import Source

AUDIT, WANTED, RUNNING = "audit.log", "wanted.json", "running.json"
STORY_SECONDS = 540.0
_PAUSE_SECONDS = 0.05
_MACHINES = Path(__file__).with_name("manifests") / "machines.yaml"
_CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "job-controller", "node-lifecycle-controller",
    "garbage-collector-controller", "serviceaccount-controller",
)  # fmt: skip
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
        {"level": "None"},
    ],
}  # fmt: skip


class MovingCluster(Cluster):
    """All but the node, with the original's definitions and objects."""

    def __init__(self, folder: Path) -> None:
        policy = folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(_POLICY), encoding="utf-8")
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={folder / AUDIT}")
        super().__init__(folder, api_flags=flags)
        self._source = Source.at_hand()
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Starts the control plane, and installs."""
        self.start_plane()
        self.plane.start_controller_manager(f"--controllers={','.join(_CONTROLLERS)}")
        self._install()
        sides.write_configurations(self._source, self.folder)
        for program in sides.PROGRAMS:
            name = sides.user(sides.ORIGINAL, program)
            self.plane.authority.issue(name, organization="system:masters")
            credentials = {
                "client-certificate": str(self.folder / f"{name}.crt"),
                "client-key": str(self.folder / f"{name}.key"),
            }
            self.write_kubeconfig(f"{sides.ORIGINAL}-{program}", credentials)
        threading.Thread(target=self._follow, daemon=True).start()

    def _install(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        installed = [each for name in sides.PROGRAMS for each in sides.objects(self._source, name)]
        path = self.folder / "installed.yaml"
        path.write_text(yaml.safe_dump_all([namespace, *installed]), encoding="utf-8")
        definitions = self._source.folder / "config/crd/bases"
        self.kubectl("apply", "--server-side", f"--filename={definitions}")
        self.kubectl("apply", "--server-side", "--filename=deploy/priorityclasses.yaml")
        self.kubectl("apply", f"--filename={path}")

    def _follow(self) -> None:
        """Keeps those running that the story wants."""
        wanted = self.folder / WANTED
        machines = (sys.executable, "-m", "tests.original.machines")
        self._spawn("machines", [*machines, str(self.plane.kubeconfig), str(_MACHINES)], {})
        while True:
            names = json.loads(wanted.read_text("utf-8")) if wanted.is_file() else []
            for name in set(self._started) - {*names, "machines"}:
                # It takes as long as it takes to give its Lease back; the others go on meanwhile.
                self._started[name].send_signal(signal.SIGTERM)
                self._started[name].wait(60)
                del self._started[name]
            for name in set(names) - set(self._started):
                side, _, program = name.partition(" ")
                words, environment = sides.arguments(side, program, self.folder)
                call = [*sides.command(side, program, self._source), *words]
                self._spawn(name, call, environment)
            alive = [name for name, each in self._started.items() if each.poll() is None]
            temporary = self.folder / f".{RUNNING}"
            temporary.write_text(json.dumps(alive), encoding="utf-8")
            temporary.rename(self.folder / RUNNING)
            time.sleep(_PAUSE_SECONDS)

    def _spawn(self, name: str, call: list[str], environment: dict[str, str]) -> None:
        with (self.folder / f"{name.replace(' ', '-')}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                call, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )  # fmt: skip


if __name__ == "__main__":
    status = play(MovingCluster, "tests.original.moving.story", STORY_SECONDS)
    sys.stdout.flush()
    # What it started ends with the namespace.
    os._exit(status)
