# SPDX-License-Identifier: Apache-2.0
"""What Prometheus scrapes: ``koord up --colocation``, with a quota, a reservation and gangs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Document = dict[str, Any]
NAMESPACE = "dashboards"
_START_SECONDS, _STEP_SECONDS = 240.0, 0.2
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/koordinator-system/leases"
_ENDPOINT = "koord.sh/endpoint"
_JOBS = {
    "koord-scheduler": ("koord-scheduler", "/metrics"),
    "koordinator-manager": ("koord-manager", "/all-metrics"),
    "koord-descheduler": ("koord-descheduler", "/metrics"),
}
_LINE = re.compile(r"^\w+ (\d\d):(\d\d) ", re.MULTILINE)


class VirtualLoad:
    """A cluster in fast time.

    Args:
        url: of its API server.
        out: what it prints.
    """

    def __init__(self, url: str, out: Path) -> None:
        self.url = url
        self._out = out

    def targets(self) -> dict[str, tuple[str, str]]:
        """Address and path of what can be scraped, by the job's name; see :func:`prometheus`."""
        api = self.url.removeprefix("http://")
        found = {
            "koord-up": (api, "/metrics"),
            "koordlet": (api, "/simulator/metrics"),
            "koord-webhook": (api, "/admission/metrics"),
        }
        for lease in self.get(_LEASES)["items"]:
            endpoint = lease["metadata"].get("annotations", {}).get(_ENDPOINT)
            if endpoint:
                job, path = _JOBS[lease["metadata"]["name"]]
                found[job] = (endpoint.removeprefix("http://"), path)
        return found

    def minute(self) -> int:
        """The last simulated minute of the day that it has told of; 0 for none yet."""
        told = _LINE.findall(self._out.read_text(encoding="utf-8"))
        return int(told[-1][0]) * 60 + int(told[-1][1]) if told else 0

    def get(self, path: str) -> Document:
        """An object or a list."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            found: Document = json.load(answer)
            return found

    def create(self, path: str, document: Document) -> None:
        """Creates an object."""
        body = json.dumps(document).encode()
        request = urllib.request.Request(
            self.url + path, body, {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()

    def create_all(self) -> None:
        """A quota, a reservation, and gangs: placed, waiting for nodes, lacking pods."""
        self.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        amounts = {"min": {"cpu": "1", "memory": "1Gi"}, "max": {"cpu": "40", "memory": "40Gi"}}
        quotas = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{NAMESPACE}/elasticquotas"
        self.create(quotas, _quota("team", amounts))
        self.create("/apis/scheduling.koordinator.sh/v1alpha1/reservations", _reservation("room"))
        for gang, pods, cpu in (("placed", 2, "1"), ("waiting", 2, "500"), ("incomplete", 1, "1")):
            for number in range(pods):
                self.create(f"/api/v1/namespaces/{NAMESPACE}/pods", _pod(gang, number, cpu))


def _quota(name: str, spec: Document) -> Document:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _reservation(name: str) -> Document:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "ttl": "24h",
            "owners": [{"labelSelector": {"matchLabels": {"for": name}}}],
            "template": {"spec": _work("100m")},
        },
    }


def _work(cpu: str) -> Document:
    requests = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    container = {"name": "main", "image": "work", "resources": requests}
    return {"schedulerName": "koord-scheduler", "containers": [container]}


def _pod(gang: str, number: int, cpu: str) -> Document:
    quota = {"quota.scheduling.koordinator.sh/name": "team"} if gang == "placed" else {}
    return {
        "metadata": {
            "name": f"{gang}-{number}",
            "labels": quota,
            "annotations": {
                "gang.scheduling.koordinator.sh/name": gang,
                "gang.scheduling.koordinator.sh/min-available": "2",
            },
        },
        "spec": _work(cpu),
    }


@contextmanager
def virtual_load(folder: Path, nodes: int, speed: int) -> Iterator[VirtualLoad]:
    """Starts it in a process, waits until all lead, and ends it.

    Args:
        folder: of its kubeconfig, report and output.
        nodes: simulated machines.
        speed: simulated seconds a second.
    """
    kubeconfig, out = folder / "kubeconfig", folder / "up.log"
    call = [
        str(Path(sys.executable).with_name("koord")), "up", "--colocation", "--descheduler",
        "--insecure", f"--nodes={nodes}", f"--speed={speed}", f"--kubeconfig={kubeconfig}",
        f"--report={folder / 'report'}",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with out.open("wb") as log:
        process = subprocess.Popen(call, stdout=log, stderr=log, env=environment)
        try:
            load = VirtualLoad(_address(kubeconfig, process, out), out)
            _until(lambda: len(load.targets()) == len(_JOBS) + 3, process, out)
            yield load
        finally:
            process.terminate()
            process.wait(timeout=60)


def _address(kubeconfig: Path, process: subprocess.Popen[bytes], out: Path) -> str:
    _until(kubeconfig.exists, process, out)
    document = json.loads(kubeconfig.read_text(encoding="utf-8"))
    address: str = document["clusters"][0]["cluster"]["server"]
    return address


def _until(reached: Any, process: subprocess.Popen[bytes], out: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if reached():
                return
        except (OSError, ValueError):
            pass
        time.sleep(_STEP_SECONDS)
    raise AssertionError(f"koord up did not get there: {out.read_text()[-2000:]}")
