# SPDX-License-Identifier: Apache-2.0
"""An API server in a process of its own, with one node, which can be killed and come back."""

from __future__ import annotations

import json
import re
import signal
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from koord.api import crds
from tests.scenes.nursery import Nursery
from tests.scenes.runtime import wait_until

_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NEEDED = ("nodeslos", "nodemetrics", "noderesourcetopologies", "devices")
# Read with the module: under emulation that takes seconds, and the guest imports it once.
_DEFINITIONS = [each for each in crds() if each["spec"]["names"]["plural"] in _NEEDED]
_PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "NodeSLO": "/apis/slo.koordinator.sh/v1alpha1/nodeslos",
    "NodeMetric": "/apis/slo.koordinator.sh/v1alpha1/nodemetrics",
    "NodeResourceTopology": "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies",
}
_START_SECONDS = 120.0


class ApiServer:
    """The embedded control plane over HTTPS.

    Args:
        folder: for its state, certificates, token and kubeconfig.
        nursery: starts it.

    Attributes:
        kubeconfig: how the agent reaches it.
    """

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self._nursery = nursery
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._port = 0
        self.start()
        for document in _DEFINITIONS:
            self.call("POST", _CRD, document)

    @property
    def certificates(self) -> Path:
        """Folder of its certificate, key and authority."""
        return next(self.folder.rglob("server.crt")).parent

    @property
    def token(self) -> str:
        """What clients show."""
        return (self.certificates / "token").read_text(encoding="ascii").strip()

    def start(self) -> None:
        """Starts it, on the port that it had before."""
        output = self.folder / "output"
        output.unlink(missing_ok=True)
        arguments = [
            "--data", str(self.folder), "--kubeconfig", str(self.kubeconfig),
            "--port", str(self._port),
        ]  # fmt: skip
        self._process = self._nursery.start("koord.controlplane", arguments, output)
        ready = re.compile(r"^ready (\S+)$", re.MULTILINE)
        took = wait_until(
            "the API server listens", _START_SECONDS, lambda: ready.search(_text(output))
        )
        print(f"API server listens after {took:.1f} s", flush=True)
        found = ready.search(_text(output))
        assert found
        self.url = found[1]
        self._port = int(self.url.rsplit(":", 1)[1])
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.crt"))
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def kill(self) -> None:
        """It is gone, with nothing said."""
        self._process.kill()

    def pause(self) -> None:
        """It hangs until `resume`."""
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        self._process.send(signal.SIGCONT)

    def call(self, verb: str, path: str, body: Any = None) -> Any:
        """One request; AssertionError for what is refused."""
        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        request = urllib.request.Request(
            self.url + path,
            method=verb,
            data=None if body is None else json.dumps(body).encode(),
            headers={**self._headers(), "Content-Type": kind},
        )
        try:
            with self._opener.open(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{verb} {path}: {error.read().decode()}") from None

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def get(self, kind: str, name: str) -> Any:
        """An object; None where there is none."""
        items = self.call("GET", _PATHS[kind])["items"]
        return next((item for item in items if item["metadata"]["name"] == name), None)

    def put(self, kind: str, name: str, **parts: Any) -> Any:
        """Makes an object, or changes what is named of it; its status too."""
        path = _PATHS[kind]
        if self.get(kind, name) is None:
            group = path.removeprefix("/api/").removeprefix("/apis/").rsplit("/", 1)[0]
            version = "v1" if group.startswith("v1") else group
            metadata = {"name": name, **parts.pop("metadata", {})}
            document = {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}
            answer = self.call("POST", path, document)
        else:
            answer = self.call("PATCH", f"{path}/{name}", parts)
        if "status" in parts:
            answer = self.call("PATCH", f"{path}/{name}/status", {"status": parts["status"]})
        return answer

    def wait_for(self, kind: str, name: str) -> Any:
        """An object that somebody else makes."""
        wait_until(f"{kind} {name}", _START_SECONDS, lambda: self.get(kind, name) is not None)
        return self.get(kind, name)

    def close(self) -> None:
        """Ends it."""
        self.kill()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
