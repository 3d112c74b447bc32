# SPDX-License-Identifier: Apache-2.0
"""A release's life on a real control plane.

``python -m tests.deploy.installation FOLDER FORMER-CHART [INDEX-OF-IMAGES]``

To be run in network and mount namespaces of its own (`unshare --net --mount`), for the addresses of
pods and services. Writes what it saw to ``FOLDER/outcome.json``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import yaml

from koord.controllers.webhook.framework.default_configurations import MUTATING_NAME
from tests.agent.machine_tree import MachineTree
from tests.ci import missing
from tests.deploy.admin import Admin, Document, RefusedError
from tests.deploy.chart_files import CHART, ROOT, former_chart
from tests.deploy.helm import helm
from tests.deploy.image import Images
from tests.deploy.node import NAME, TestNode
from tests.deploy.pod_network import API_ADDRESS, PodNetwork
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

SYSTEM = "koordinator-system"
PATIENCE_SECONDS = 120
# The node has nothing of a kubelet's API. Agents report often, so that nobody waits for a minute.
VALUES: Document = {
    "koordlet": {"podsFrom": "apiserver"},
    "sloControllerConfig": {
        "colocation-config": json.dumps({"enable": True, "metricReportIntervalSeconds": 2})
    },
}
# Each upgraded from the one before: admission becomes a program of its own, goes, and comes back.
PROFILES = ("large", "scheduler-only", "small")
DEFAULT = "/api/v1/namespaces/default"
# As every usual cluster has it: agents of nodes are privileged.
FLAGS = ("--allow-privileged=true",)


def until(what: str, look: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> object:
    """Waits until a look gives something true, and gives that.

    Raises:
        TimeoutError: it never did.
    """
    deadline = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.1)


class Arrivals:
    """Pods that somebody creates all the while."""

    def __init__(self, plane: RealControlPlane) -> None:
        self._admin = Admin(plane)
        self._ending = threading.Event()
        self.created = 0
        self.refused: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(0.3):
            try:
                self._admin.create(f"{DEFAULT}/pods", waiting_pod(f"arrival-{self.created}"))
                self.created += 1
            except RefusedError as error:
                self.refused.append(str(error))


def waiting_pod(name: str, **labels: str) -> Document:
    """A pod that no scheduler takes."""
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "main", "image": "none"}],
            "automountServiceAccountToken": False,
        },
    }


class Installation:
    """The story; each step fails by raising."""

    values: ClassVar[Document] = VALUES

    def __init__(self, plane: RealControlPlane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self._admin = Admin(plane)
        self._values = folder / "values.yaml"
        self._values.write_text(yaml.safe_dump(self.values), encoding="utf-8")
        self.outcome: Document = {}

    def play(self, node: TestNode, former: Path) -> None:
        """From an installation of a former chart to nothing."""
        chart = former_chart(former, self._folder / "former")
        started = time.monotonic()
        self._helm("install", "koord", chart, "-f", self._values, "--wait", "--timeout", "300s")
        self.outcome["install_seconds"] = round(time.monotonic() - started, 1)
        self._works("former")
        arrivals = Arrivals(self._plane)
        self._helm(
            *("upgrade", "koord", CHART, "-f", self._values, "--wait", "--timeout", "300s"),
            *("--set", "scheduler.log.level=3,manager.log.level=3,descheduler.log.level=3"),
            *("--set", "koordlet.log.level=3,webhookConfiguration.failurePolicy.pods=Fail"),
        )
        self._works("upgraded")
        until("requests about pods fail without koord", self._pods_depend_on_it)
        self.outcome["test"] = self._helm("test", "koord", "--timeout", "60s")
        self.outcome["profiles"] = {each: self._with_profile(each) for each in PROFILES}
        self._helm("rollback", "koord", 1, "--wait", "--timeout", "300s")
        self._works("rolled-back")
        kept = self._admin.items("/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas")
        self._helm("uninstall", "koord", "--wait", "--timeout", "300s")
        arrivals.stop()
        self.outcome |= {
            "restarts": node.restarts,
            "arrivals": arrivals.created,
            "refused": arrivals.refused,
            "left": self._left(),
            "definitions": len(self._definitions()),
            "kept": len(kept),
        }

    def _with_profile(self, name: str) -> list[str]:
        """Upgrades to a profile's values; the components that `helm test` then found ready."""
        profile = CHART / f"values-{name}.yaml"
        self._helm(
            *("upgrade", "koord", CHART, "-f", self._values, "-f", profile),
            *("--wait", "--timeout", "300s"),
        )
        if name == "scheduler-only":
            self._places(name)
        else:
            self._works(name)
        # It fails where one of those that it is to ask is not ready.
        self._helm("test", "koord", "--timeout", "60s")
        (container,) = self._admin.get(f"{DEFAULT}/pods/koord-ready")["spec"]["containers"]
        return [argument.partition("=")[0] for argument in container["args"][1:]]

    def _helm(self, *arguments: object) -> str:
        return helm(*arguments, home=self._folder, kubeconfig=self._plane.kubeconfig)

    def _works(self, name: str) -> None:
        """Each component does what it is for."""
        self._places(name)
        self._admits(name)
        since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        until(f"{NAME} offers batch resources", lambda: self._offers(since))

    def _places(self, name: str) -> None:
        placed = {
            "metadata": {"name": f"placed-{name}"},
            "spec": {
                "schedulerName": "koord-scheduler",
                "containers": [{"name": "main", "image": "none", "command": ["sleep", "1000"]}],
                "automountServiceAccountToken": False,
            },
        }
        self._admin.create(f"{DEFAULT}/pods", placed)
        path = f"{DEFAULT}/pods/placed-{name}"
        until(f"{path} is bound", lambda: self._admin.get(path)["spec"].get("nodeName"))
        self._admin.delete(path, gracePeriodSeconds=0)

    def _admits(self, name: str) -> None:
        profile = {
            "apiVersion": "config.koordinator.sh/v1alpha1",
            "kind": "ClusterColocationProfile",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"for": name}},
                "labels": {"changed-by": name},
            },
        }
        self._admin.create(
            "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles", profile
        )
        until(f"admission changes pods for {name}", lambda: self._changed(name, {"for": name}))
        self._admin.delete(f"/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles/{name}")

    def _changed(self, name: str, labels: dict[str, str]) -> bool:
        body = waiting_pod("asked", **labels)
        made = self._admin.create(f"{DEFAULT}/pods?dryRun=All", body)
        return bool(made["metadata"]["labels"].get("changed-by") == name)

    def _pods_depend_on_it(self) -> bool:
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        entries = self._admin.get(f"{path}/{MUTATING_NAME}")["webhooks"]
        return {
            each["failurePolicy"] for each in entries if each["rules"][0]["resources"] == ["pods"]
        } == {"Fail"}

    def _offers(self, since: str) -> bool:
        """The agent has measured since then, and the manager offers what is left of memory.

        Of CPU nothing may be: what pods of `values-large.yaml` ask for is more than the node has.
        """
        metric = self._admin.get(f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{NAME}")
        found = self._admin.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]
        measured = metric.get("status", {}).get("updateTime", "") >= since
        return measured and int(found.get("kubernetes.io/batch-memory", 0)) > 0

    def _definitions(self) -> list[Document]:
        found = self._admin.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        return [each for each in found if "koordinator" in each["spec"]["group"]]

    def _left(self) -> list[str]:
        """Objects of the release that are still there, but definitions."""
        listed = self._helm_kinds()
        selector = "labelSelector=app.kubernetes.io%2Finstance%3Dkoord"

        def look() -> list[str]:
            return [
                f"{path}/{each['metadata']['name']}"
                for path in listed
                for each in self._admin.items(f"{path}?{selector}")
            ]

        deadline = time.monotonic() + 60
        while (found := look()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _helm_kinds(self) -> list[str]:
        core = ("namespaces", "services", "secrets", "configmaps", "serviceaccounts", "pods")
        rbac = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
        webhooks = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        return [
            *(f"/api/v1/{plural}" for plural in core),
            *(f"/apis/rbac.authorization.k8s.io/v1/{plural}" for plural in rbac),
            *(f"/apis/admissionregistration.k8s.io/v1/{plural}" for plural in webhooks),
            "/apis/apps/v1/deployments",
            "/apis/apps/v1/daemonsets",
            "/apis/policy/v1/poddisruptionbudgets",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
        ]


def need_namespaces() -> None:
    """Skips where a story's programs or networks of its own are not to be had; fails in CI."""
    need("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "helm")
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        missing("needs root, unshare and ip, for networks of its own")


def played(folder: Path, former: Path, *images: Path, module: str = __name__) -> Document:
    """What a story saw, played in namespaces of its own, and from images if their index is given.

    Args:
        module: that plays it; this one's by default.

    Raises:
        AssertionError: it failed; with the end of what everything printed.
    """
    story = [sys.executable, "-m", module, str(folder), str(former), *map(str, images)]
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--", *story],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-20_000:]
    found: Document = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
    return found


def enter(
    kind: type[Installation],
    folder: Path,
    former: Path,
    *images: Path,
    flags: tuple[str, ...] = (),
) -> int:
    """Plays a story on a control plane of its own; 0 when all of it went well.

    Args:
        flags: of kube-apiserver, beside those that all need.
    """
    host = folder / "host"
    host.mkdir()
    MachineTree(host)
    network = PodNetwork()
    asked = (*FLAGS, *flags)
    with RealControlPlane(folder, api_flags=asked, server_addresses=(API_ADDRESS,)) as plane:
        # The node beats in the thread that does all of its work.
        plane.start_controller_manager("--node-monitor-grace-period=300s")
        plane.start_scheduler()
        node = TestNode(plane, network, folder, host, Images(*images))
        node.start()
        story = kind(plane, folder)
        try:
            story.play(node, former)
        except BaseException:
            print(node.logs(), plane.logs(), sep="\n", file=sys.stderr)
            raise
        finally:
            node.stop()
        (folder / "outcome.json").write_text(json.dumps(story.outcome), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(enter(Installation, *map(Path, sys.argv[1:])))
