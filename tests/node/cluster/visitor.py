# SPDX-License-Identifier: Apache-2.0
"""Who acts on a cluster from its node: an administrator with kubectl, and the node's own files."""

from __future__ import annotations

import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

from koord.kernels.quantity import Quantity
from tests.contract.api import TIMEOUT_SECONDS, Api, at
from tests.node.cluster.control_plane import NODE
from tests.node.cluster.kubelet import KubeletNode
from tests.node.machine import CGROUP, PATIENCE
from tests.real.binaries import find

Document = dict[str, Any]
_MANIFESTS = Path(__file__).with_name("manifests")
_ADMIN_SECONDS = 60.0
# Of what koord's programs log, what nobody should have to read.
TROUBLES = ("Traceback", "message=failed", "claim refused", "EINVAL", "level=error")


class Visitor:
    """An administrator, on the node.

    Args:
        order: with the cluster's folder, and the port of its API server; its ``host`` where that is
            not this one.

    Attributes:
        found: figures.
        node: the node.
    """

    kind: type[KubeletNode] = KubeletNode

    def __init__(self, order: dict[str, Any]) -> None:
        self._cluster = Path(order["cluster"])
        tls = ssl.create_default_context(cafile=self._cluster / "authority.crt")
        tls.load_cert_chain(self._cluster / "admin.crt", self._cluster / "admin.key")
        seconds = TIMEOUT_SECONDS * PATIENCE
        self._api = Api(
            order["port"], tls, host=order.get("host", "127.0.0.1"), timeout_seconds=seconds
        )
        self.found: dict[str, Any] = {}
        self._began = time.monotonic()
        self.node = self.kind(Path(order["scratch"]), self._cluster)

    def begin(self) -> None:
        """Starts the runtime."""
        self.node.start_runtime()
        self.say("containerd answers")

    def say(self, what: str) -> None:
        """A line with the time."""
        print(f"[{time.monotonic() - self._began:6.2f} s] {what}", flush=True)

    def kubectl(self, *arguments: str) -> str:
        """What kubectl says."""
        call = [str(find("kubectl")), f"--kubeconfig={self._cluster / 'kubeconfig'}", *arguments]
        done = subprocess.run(
            call,
            capture_output=True,
            text=True,
            check=False,
            timeout=_ADMIN_SECONDS * PATIENCE,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    @staticmethod
    def manifest(name: str) -> Path:
        """A file of manifests."""
        return _MANIFESTS / f"{name}.yaml"

    # -- objects -------------------------------------------------------------------------------

    def get(self, plural: str, namespace: str, name: str) -> Document:
        """An object."""
        return self._api.get(at(plural, namespace, name)).ok

    def create(self, plural: str, namespace: str, document: Document) -> Document:
        """Makes one."""
        return self._api.post(at(plural, namespace), document).ok

    def pods(self, namespace: str, app: str, selector: str = "") -> list[Document]:
        """Pods of an app, or by a selector."""
        query = {"labelSelector": selector or f"app={app}"}
        items: list[Document] = self._api.get(at("pods", namespace), **query).ok["items"]
        return items

    def all_pods(self) -> list[Document]:
        """Those of all namespaces."""
        items: list[Document] = self._api.get(at("pods")).ok["items"]
        return items

    def running(self, namespace: str, app: str, selector: str = "") -> Document | None:
        """The first pod of them that runs."""
        self.node.check()
        found = self.pods(namespace, app, selector)
        return next((pod for pod in found if pod["status"]["phase"] == "Running"), None)

    def ready_node(self) -> Document | None:
        """The node, once it is ready."""
        self.node.check()
        answer = self._api.get(at("nodes", "", NODE))
        if answer.code != 200:
            return None
        conditions = answer.document["status"].get("conditions", [])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return answer.document if ready else None

    def amount(self, resource: str) -> int:
        """What the node offers of a resource; 0 where it does not."""
        self.node.check()
        offered = self.get("nodes", "", NODE)["status"]["allocatable"]
        return Quantity.parse(offered.get(resource, "0")).value()

    def events(self, reason: str) -> list[Document]:
        """Events of a reason."""
        found = self._api.get("/api/v1/events", fieldSelector=f"reason={reason}")
        items: list[Document] = found.ok["items"]
        return items

    # -- files ---------------------------------------------------------------------------------

    def read(self, file: str, pod: Document) -> str:
        """What a file of the cgroup of a pod's container says, e.g. ``cpu.shares``."""
        return (folder_of(CGROUP / file.partition(".")[0], pod) / file).read_text("ascii").strip()

    def troubles(self) -> list[str]:
        """What koord's programs logged of failures."""
        return troubles_in(self.node.folder / "koordlet.log", *self._cluster.glob("koord-*.log"))


def folder_of(hierarchy: Path, pod: Document) -> Path:
    """The cgroup of a pod's container."""
    container = pod["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
    (folder,) = hierarchy.glob(f"kubepods/**/pod{pod['metadata']['uid']}/{container}")
    return folder


def troubles_in(*logs: Path) -> list[str]:
    """What programs logged of failures."""
    return [
        f"{log.stem}: {line}"
        for log in logs
        if log.is_file()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if any(word in line for word in TROUBLES)
    ]
