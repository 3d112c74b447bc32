# SPDX-License-Identifier: Apache-2.0
"""koord-manager with the chart's flags needs no right but the chart's, whoever answers reviews."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml

from tests.cli.commands.check.manifests import NAMESPACE
from tests.deploy.admin import Admin
from tests.deploy.chart_files import CHART
from tests.deploy.helm import helm
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane, free_port

PROGRAM = "koord-manager"
READY_SECONDS, LEAST_SECONDS = 90.0, 3.0
_POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [f"system:serviceaccount:{NAMESPACE}:{PROGRAM}"]},
        {"level": "None"},
    ],
}  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize(
    ("values", "asks_for_classes"),
    [
        ("webhookConfiguration.enabled=true", True),
        ("webhookConfiguration.enabled=false", False),
        ("webhookConfiguration.standalone.enabled=true", False),
        ("webhookConfiguration.enabled=false,featureGates=ColocationProfileController=true", False),
    ],
)
def test_nothing_that_it_asks_for_is_refused(
    values: str, asks_for_classes: bool, tmp_path: Path
) -> None:
    """Admission alone reads priority classes: without it nobody asks for them."""
    need("etcd", "kube-apiserver", "helm")
    policy, audit = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(yaml.safe_dump(_POLICY), encoding="utf-8")
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit}")
    with RealControlPlane(tmp_path, api_flags=("--allow-privileged=true", *flags)) as plane:
        helm("install", "koord", CHART, "--set", values, home=tmp_path, kubeconfig=plane.kubeconfig)
        with closing(Admin(plane)) as admin:
            _run(plane, admin, tmp_path)
    asked = [json.loads(line) for line in audit.read_text("utf-8").splitlines()]
    refused = [each["requestURI"] for each in asked if each["responseStatus"]["code"] == 403]
    assert not refused
    kinds = {each["objectRef"]["resource"] for each in asked}
    assert "nodes" in kinds
    assert ("priorityclasses" in kinds) == asks_for_classes


def _run(plane: RealControlPlane, admin: Admin, folder: Path) -> None:
    """Has it started with what the chart says of it, until it is ready, and for a moment more."""
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{PROGRAM}"
    (container,) = admin.get(path)["spec"]["template"]["spec"]["containers"]
    # Addresses and files are those of a pod.
    changed = ("--metrics-addr", "--health-probe-addr", "--secure-port", "--tls-", "--client-ca")
    given = [word for word in container["args"] if not word.startswith(changed)]
    health = f"127.0.0.1:{free_port()}"
    call = [
        *(sys.executable, "-m", "koord.cli.daemons.manager", *given),
        *(f"--metrics-addr=127.0.0.1:{free_port()}", f"--health-probe-addr={health}"),
        f"--kubeconfig={_kubeconfig(plane, admin, folder)}",
    ]
    own = {
        "WEBHOOK_HOST": "127.0.0.1", "WEBHOOK_PORT": str(free_port()), "POD_NAMESPACE": NAMESPACE,
    }  # fmt: skip
    log = folder / "manager.log"
    with log.open("wb") as output:
        program = subprocess.Popen(
            call, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, **own},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not _is_ready(health):
            assert program.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.1)
        time.sleep(LEAST_SECONDS)
    finally:
        program.terminate()
        program.wait(30)


def _is_ready(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


def _kubeconfig(plane: RealControlPlane, admin: Admin, folder: Path) -> Path:
    """The program's own, with the token of the account that the chart has made."""
    body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{PROGRAM}/token"
    token = admin.create(path, {**body, "spec": {}})["status"]["token"]
    document = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
    for user in document["users"]:
        user["user"] = {"token": token}
    own = folder / "manager.kubeconfig"
    own.write_text(yaml.safe_dump(document), encoding="utf-8")
    return own
