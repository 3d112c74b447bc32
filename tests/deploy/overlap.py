# SPDX-License-Identifier: Apache-2.0
"""Replicas of two versions beside each other on a real control plane, with pods all the while.

``python -m tests.deploy.overlap FOLDER FORMER-CHART``, as `tests.deploy.installation`.

There is one version of koord's programs so far, so one is a stand-in: what the chart calls
:data:`NEXT` is the same code under another image's name. What is real is all that two versions
share: Deployments that roll, Leases, services, objects, and kube-apiserver's own audit log of who
wrote what, which knows each pod by its token. What a changed format would do is not seen here.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import yaml

from tests.deploy.admin import Admin, Document, RefusedError
from tests.deploy.chart_files import CHART, former_chart
from tests.deploy.image import ABSENT
from tests.deploy.installation import (
    DEFAULT,
    SYSTEM,
    VALUES,
    Installation,
    enter,
    until,
)
from tests.deploy.node import NAME, TestNode
from tests.real.plane import RealControlPlane

FORMER, NEXT = "0.1.0", "next"
COMPONENTS = ("koord-descheduler", "koord-manager", "koord-scheduler", "koord-webhook")
SLOT, SLOTS = "example.com/slot", 6
_PAUSE_SECONDS = 0.3
_WAIT = ("--wait", "--timeout", "300s")
_LABEL = "traffic"
_AUDIT = "audit.log"
_POLICY: Document = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
            "users": [f"system:serviceaccount:{SYSTEM}:{name}" for name in COMPONENTS],
        },
        {"level": "None"},
    ],
}
# What every replica writes, whoever leads.
_EVERYBODYS = ("events", "subjectaccessreviews", "tokenreviews")
_PROFILE: Document = {
    "apiVersion": "config.koordinator.sh/v1alpha1",
    "kind": "ClusterColocationProfile",
    "metadata": {"name": _LABEL},
    "spec": {"selector": {"matchLabels": {"for": _LABEL}}, "labels": {"changed-by": _LABEL}},
}
_REPORTS = "/apis/slo.koordinator.sh/v1alpha1"


class Traffic:
    """Pods that need admission and a place of which there are few, from now on.

    Each has one of :data:`SLOTS` slots of the node until further ones are bound: the
    scheduler works at the bound, and one that forgets a pod gives its slot to another.

    Attributes:
        created: how many.
        unchanged: those that admission let pass as they were.
        refused: what the server said instead of taking one.
        most: slots that were taken at once.
        offers: batch CPUs of the node, each time another figure.
        objects: NodeMetric and NodeSLO of the node, by UID.
        images: of each of koord's pods that there was.
    """

    def __init__(self, plane: RealControlPlane) -> None:
        self._admin = Admin(plane)
        self._ending = threading.Event()
        self.created, self.most = 0, 0
        self.unchanged: list[str] = []
        self.refused: list[str] = []
        self.offers: list[int] = []
        self.objects: dict[str, str] = {}
        self.images: dict[str, str] = {}
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Returns when the node's slots have been filled anew."""
        wanted = self.created + 2 * SLOTS
        until("pods come", lambda: self.failure or self.created >= wanted)

    def stop(self) -> list[str]:
        """No more; those that find no place though slots are given back."""
        self._ending.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure
        waiting: list[str] = []

        def drained() -> bool:
            waiting[:] = self._give_back(keep=0)
            return not waiting

        try:
            until("all pods found a place", drained)
        except TimeoutError:
            return waiting
        return []

    def _run(self) -> None:
        try:
            while not self._ending.wait(_PAUSE_SECONDS):
                self._create()
                self._give_back(keep=SLOTS - 1)
                self._look()
        except BaseException as error:
            self.failure = error

    def _create(self) -> None:
        name = f"{_LABEL}-{self.created}"
        amounts = {SLOT: "1"}
        container = {
            "name": "main", "image": ABSENT, "resources": {"requests": amounts, "limits": amounts},
        }  # fmt: skip
        body = {
            "metadata": {"name": name, "labels": {"for": _LABEL}},
            "spec": {
                "schedulerName": "koord-scheduler", "containers": [container],
                "automountServiceAccountToken": False,
            },
        }  # fmt: skip
        try:
            made = self._admin.create(f"{DEFAULT}/pods", body)
        except RefusedError as error:
            self.refused.append(str(error))
            return
        self.created += 1
        if made["metadata"]["labels"].get("changed-by") != _LABEL:
            self.unchanged.append(name)

    def _give_back(self, keep: int) -> list[str]:
        """Deletes pods that have a place, all but the last ones; the names of those without."""
        found = self._admin.items(f"{DEFAULT}/pods?labelSelector=for%3D{_LABEL}")
        placed = [pod["metadata"] for pod in found if pod["spec"].get("nodeName")]
        self.most = max(self.most, len(placed))
        placed.sort(key=lambda metadata: int(metadata["name"].rpartition("-")[2]))
        for metadata in placed[: max(len(placed) - keep, 0)]:
            self._admin.delete(f"{DEFAULT}/pods/{metadata['name']}", gracePeriodSeconds=0)
        return [pod["metadata"]["name"] for pod in found if not pod["spec"].get("nodeName")]

    def _look(self) -> None:
        allocatable = self._admin.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]
        offer = int(allocatable.get("kubernetes.io/batch-cpu", 0))
        if self.offers[-1:] != [offer]:
            self.offers.append(offer)
        for plural in ("nodemetrics", "nodeslos"):
            for each in self._admin.items(f"{_REPORTS}/{plural}"):
                self.objects[each["metadata"]["uid"]] = f"{plural}/{each['metadata']['name']}"
        for pod in self._admin.items(f"/api/v1/namespaces/{SYSTEM}/pods"):
            self.images[pod["metadata"]["name"]] = pod["spec"]["containers"][0]["image"]


class Overlap(Installation):
    """Up to another version and back."""

    # Of each Deployment one replica, and so two while it rolls.
    values: ClassVar[Document] = {
        **VALUES,
        "scheduler": {"replicas": 1},
        "manager": {"replicas": 1},
        "descheduler": {"replicas": 1},
        "webhookConfiguration": {"standalone": {"enabled": True, "replicas": 1}},
    }

    def play(self, node: TestNode, former: Path) -> None:
        """Installs, upgrades, and rolls back; pods come from before the upgrade on."""
        amounts = {SLOT: str(SLOTS)}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        self._admin.patch(f"/api/v1/nodes/{NAME}/status", status)
        chart = former_chart(former, self._folder / "former")
        wait = ("-f", self._values, *_WAIT)
        self._helm("install", "koord", chart, *wait)
        self._works("former")
        self._admin.create(
            "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles", _PROFILE
        )
        until("admission changes pods", lambda: self._changed(_LABEL, {"for": _LABEL}))
        traffic = Traffic(self._plane)
        traffic.go_on()
        self._helm("upgrade", "koord", CHART, *wait, "--set", _tags(NEXT))
        self._settle(NEXT)
        traffic.go_on()
        self._helm("rollback", "koord", 1, *_WAIT)
        self._settle(FORMER)
        traffic.go_on()
        lost = traffic.stop()
        self.outcome |= {
            "created": traffic.created,
            "unchanged": traffic.unchanged,
            "refused": traffic.refused,
            "lost": lost,
            "most": traffic.most,
            "offers": traffic.offers,
            "objects": sorted(traffic.objects.values()),
            "images": traffic.images,
            "restarts": node.restarts,
            "writes": list(_writes(self._folder / _AUDIT)),
        }

    def _settle(self, tag: str) -> None:
        """Waits until pods of this version alone are there, and one of them leads everywhere."""
        path = f"/api/v1/namespaces/{SYSTEM}/pods"

        def alone() -> bool:
            found = [pod["spec"]["containers"][0]["image"] for pod in self._admin.items(path)]
            return all(image.endswith(f":{tag}") for image in found)

        until(f"all others than {tag} are gone", alone)
        gone = datetime.now(UTC).isoformat()
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"

        def led() -> bool:
            # One that was just made, or given back, may have no holder.
            found = [each.get("spec", {}) for each in self._admin.items(leases)]
            renewed = [each.get("holderIdentity") and each.get("renewTime", "") for each in found]
            return bool(renewed) and all(each and each > gone for each in renewed)

        until("somebody leads everywhere", led)


def _tags(tag: str) -> str:
    keys = ("scheduler", "manager", "descheduler", "koordlet", "webhookConfiguration.standalone")
    return ",".join(f"{key}.image.tag={tag}" for key in keys)


def _writes(log: Path) -> Iterator[Document]:
    """What koord's programs wrote of what only a leader writes, their Leases too, in order."""
    found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    found.sort(key=lambda event: event["requestReceivedTimestamp"])
    for event in found:
        about, user = event["objectRef"], event["user"]
        if about["resource"] in _EVERYBODYS:
            continue
        (pod,) = user["extra"]["authentication.kubernetes.io/pod-name"]
        yield {
            "component": user["username"].rpartition(":")[2],
            "pod": pod,
            "verb": event["verb"],
            "resource": "/".join(filter(None, (about["resource"], about.get("subresource")))),
            "name": about.get("name", ""),
            "code": event["responseStatus"]["code"],
        }


def main(folder: Path, former: Path) -> int:
    """0 when all of it went well."""
    policy = folder / "audit.yaml"
    policy.write_text(yaml.safe_dump(_POLICY), encoding="utf-8")
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={folder / _AUDIT}")
    return enter(Overlap, folder, former, flags=flags)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
