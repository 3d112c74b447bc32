# SPDX-License-Identifier: Apache-2.0
"""A node that either side's koordlet serves, and who moves the cluster from side to side."""

from __future__ import annotations

import json
import os
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cli.commands.check.manifests import FLAGS, NAMESPACE
from tests.contract.api import Api
from tests.deploy.helm import helm
from tests.node.cluster.control_plane import NODE
from tests.node.cluster.kubelet import KubeletNode
from tests.node.cluster.visitor import Document, Visitor
from tests.node.machine import until
from tests.original.moving import sides
from tests.original.moving.control_plane import AUDIT, RUNNING, WANTED
from tests.original.moving.watch import Watch
from tests.original.source import Source

_STATE = "/run/koordlet"
_LONGEST_LINE = 1 << 16


class MovingNode(KubeletNode):
    """A node with koordlet of one side at a time, as a DaemonSet has it."""

    def start_agent(self, side: str, *more: str) -> None:
        """Starts a side's koordlet with the flags of the original's chart."""
        # A pod has it as a volume of the host's; Koordinator's koordlet ends where it is not.
        Path(_STATE, "hookserver.d").mkdir(parents=True, exist_ok=True)
        kubeconfig = self._cluster / f"{side}-{sides.KOORDLET}.kubeconfig"
        given = [flag for flag in FLAGS[sides.KOORDLET] if "-cgroup-root-dir" not in flag]
        flags = [*given, *sides.KOORDLET_FLAGS, *more]
        if side == sides.OURS:
            flags.append(f"--kubeconfig={kubeconfig}")
        name = self._name(side)
        before = self.log(name) if (self.folder / f"{name}.log").is_file() else ""
        self._start(
            name, [*sides.command(side, sides.KOORDLET, Source.at_hand()), *flags],
            agent_mode="hostMode", NODE_NAME=NODE, KUBECONFIG=str(kubeconfig),
        )  # fmt: skip
        if side == sides.OURS:
            until("koordlet serves the runtime", self.is_synchronized)
        else:
            said = "Start daemon successfully"
            until(said, lambda: said in self.log(name)[len(before) :])

    def stop_agent(self, side: str) -> None:
        """Ends it as the kubelet ends a pod."""
        self._end(self._name(side), signal.SIGTERM)
        del self._programs[self._name(side)]

    @staticmethod
    def _name(side: str) -> str:
        return sides.KOORDLET if side == sides.OURS else f"{side}-{sides.KOORDLET}"


class Mover(Visitor):
    """Who moves a cluster.

    Attributes:
        steps: what was seen at each step, in order.
        pods_at_first: those that run all the while, by name.
        moved: programs that are koord's now.
        watch: who looks at them.
    """

    kind = MovingNode
    node: MovingNode
    watch: Watch

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__(order)
        self.steps: list[dict[str, Any]] = []
        self.found["steps"] = self.steps
        self.pods_at_first: dict[str, Document] = {}
        self.moved: set[str] = set()
        self._wanted: set[str] = set()
        self._order = order
        self._looked = 0
        self._lease_writers: dict[str, str] = {}

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._cluster / "kubeconfig"

    def api(self) -> Api:
        """A connection of its own."""
        tls = ssl.create_default_context(cafile=self._cluster / "authority.crt")
        tls.load_cert_chain(self._cluster / "admin.crt", self._cluster / "admin.key")
        return Api(self._order["port"], tls)

    @staticmethod
    def manifest(name: str) -> Path:
        """A file of manifests."""
        return Path(__file__).with_name("manifests") / f"{name}.yaml"

    # -- programs beside the node ----------------------------------------------------------------

    def run_program(self, side: str, program: str) -> None:
        """Has it started; it may have to wait for a Lease."""
        self._want(self._wanted | {f"{side} {program}"})

    def end_program(self, side: str, program: str) -> None:
        """Has it ended in order, and waits for that."""
        self._want(self._wanted - {f"{side} {program}"})

    def _want(self, names: set[str]) -> None:
        self._wanted = names
        temporary = self._cluster / f".{WANTED}"
        temporary.write_text(json.dumps(sorted(names)), encoding="utf-8")
        temporary.rename(self._cluster / WANTED)
        until(f"{names} run", lambda: names <= self._running() <= names | {"machines"})

    def _running(self) -> set[str]:
        path = self._cluster / RUNNING
        return set(json.loads(path.read_text("utf-8"))) if path.is_file() else set()

    def check_programs(self) -> None:
        """Raises AssertionError where one has ended by itself."""
        self.node.check()
        missing = self._wanted - self._running()
        assert not missing, f"{missing} ended"

    # -- objects ---------------------------------------------------------------------------------

    def helm(self, *words: object) -> str:
        """What helm says."""
        return helm(*words, home=self.node.folder, kubeconfig=self._cluster / "kubeconfig")

    def apply(self, documents: list[dict[str, Any]]) -> None:
        """As the original's release does: what was changed since is put back."""
        path = self.node.folder / "applied.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
        self.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={path}")

    def issue(self, program: str) -> None:
        """The credentials of koord's program, of the account that the chart has made."""
        token = self.kubectl("create", "token", program, f"--namespace={NAMESPACE}").strip()
        document = (self._cluster / "kubeconfig").read_text(encoding="utf-8")
        config = yaml.safe_load(document)
        config["users"] = [{"name": "admin", "user": {"token": token}}]
        path = self._cluster / f"{sides.OURS}-{program}.kubeconfig"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")

    def written(self, since: int) -> Iterator[Document]:
        """What was written through the API server, from a place of its audit log on."""
        with (self._cluster / AUDIT).open("rb") as log:
            log.seek(since)
            for line in log:
                event = json.loads(line) if line.endswith(b"\n") else {}
                if event.get("responseStatus", {}).get("code", 500) < 300:
                    yield event

    def lease_writers(self) -> dict[str, str]:
        """Who wrote each Lease last, by its name."""
        since, self._looked = self._looked, self.audited()
        for event in self.written(since):
            if event["objectRef"]["resource"] == "leases":
                self._lease_writers[event["objectRef"]["name"]] = event["user"]["username"]
        return self._lease_writers

    def audited(self) -> int:
        """The place where its last whole line ends."""
        with (self._cluster / AUDIT).open("rb") as log:
            start = max(0, log.seek(0, os.SEEK_END) - _LONGEST_LINE)
            log.seek(start)
            return start + log.read().rfind(b"\n") + 1
