# SPDX-License-Identifier: Apache-2.0
"""A node on which all of koord are pods, and who acts there."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

from tests.deploy.helm import helm
from tests.node.cluster.control_plane import ADDRESS
from tests.node.cluster.kubelet import KubeletNode
from tests.node.cluster.visitor import Visitor
from tests.node.installed.control_plane import DNS_ADDRESS
from tests.release.images import OUT

# What the chart's references mean to a runtime.
_REGISTRY = "docker.io"
_NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isDefaultGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [
                    [{"subnet": "10.99.0.0/24", "gateway": ADDRESS, "rangeStart": "10.99.0.16"}]
                ],
            },
        }
    ],
}


def images() -> dict[str, Path]:
    """Archives of the images that were built, by the references of the chart."""
    listed: dict[str, Any] = json.loads((OUT / "index.json").read_text(encoding="utf-8"))
    return {reference: OUT / f"{each['root']}.tar" for reference, each in listed.items()}


class InstalledNode(KubeletNode):
    """A node whose pods reach services."""

    def __init__(self, folder: Path, cluster: Path) -> None:
        super().__init__(folder, cluster)
        Path("/run/cni-conf/pods.conflist").write_text(json.dumps(_NETWORK), encoding="utf-8")

    def import_images(self) -> None:
        """Those of every node of the tests, and koord's."""
        super().import_images()
        for reference, archive in images().items():
            name = f"--index-name={_REGISTRY}/{reference}"
            done = self._ctr("images", "import", "--snapshotter=overlayfs", name, str(archive))
            assert done.returncode == 0, done.stderr

    def start_kubelet(self, **settings: Any) -> None:
        """Starts it; pods ask the cluster's DNS."""
        dns = {"clusterDNS": [DNS_ADDRESS], "clusterDomain": "cluster.local"}
        super().start_kubelet(**dns, **settings)

    def start_proxy(self, arguments: list[str]) -> None:
        """Starts it as its unit does."""
        call = [sys.executable, "-m", "koord.cli.daemons.runtime_proxy", *arguments]
        self._start("proxy", call)

    def stop_proxy(self) -> None:
        """Ends it in order."""
        self._end("proxy", signal.SIGTERM)
        del self._programs["proxy"]

    def log(self, name: str) -> str:
        """What a program or, as the kubelet keeps it, koordlet's container said."""
        if name != "koordlet":
            return super().log(name)
        files = sorted(Path("/var/log/pods").glob("*_koordlet-*/koordlet/*.log"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


class Operator(Visitor):
    """Who installs koord on a cluster."""

    kind = InstalledNode
    node: InstalledNode

    @staticmethod
    def manifest(name: str) -> Path:
        """A file of manifests."""
        return Path(__file__).with_name("manifests") / f"{name}.yaml"

    def helm(self, *arguments: object) -> str:
        """What helm says."""
        return helm(*arguments, home=self.node.folder, kubeconfig=self._cluster / "kubeconfig")

    def collections(self) -> dict[str, list[dict[str, Any]]]:
        """All objects that the API server lists, by path of their collection."""
        found = {}
        for root in self._roots():
            for resource in self._api.get(root).ok["resources"]:
                if "list" in resource["verbs"]:
                    path = f"{root}/{resource['name']}"
                    found[path] = self._api.get(path).ok.get("items") or []
        return found

    def _roots(self) -> list[str]:
        groups = self._api.get("/apis").ok["groups"]
        versions = (each["preferredVersion"]["groupVersion"] for each in groups)
        return ["/api/v1", *(f"/apis/{version}" for version in versions)]

    def pod_log(self, namespace: str, name: str, *options: str) -> str:
        """What a pod said."""
        return self.kubectl("logs", name, f"--namespace={namespace}", *options)
