# SPDX-License-Identifier: Apache-2.0
"""koord-descheduler and koord-webhook as processes on a kube-apiserver without koord's kinds, with
Koordinator's alone, and while one goes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from koord.kube import crds as installing
from tests.cli.daemons.test_descheduler import Cluster
from tests.loop.test_kinds_served import QUOTA, REFERENCE
from tests.real.plane import RealControlPlane, free_port

if TYPE_CHECKING:
    from koord.kube.client import Client

PATIENCE_SECONDS = 60.0
GONE = "elasticquotas.scheduling.sigs.k8s.io"


def _webhook(cluster: Cluster, folder: Path, life: ExitStack) -> subprocess.Popen[bytes]:
    address = cluster.url.removeprefix("http://")
    words = [
        sys.executable, "-m", "koord.cli.daemons.webhook", f"--kubeconfig={cluster.kubeconfig}",
        f"--health-probe-addr={address}", f"--metrics-addr=127.0.0.1:{free_port()}",
        "--leader-election-namespace=default",
    ]  # fmt: skip
    environment = {
        "WEBHOOK_PORT": str(free_port()), "WEBHOOK_HOST": "127.0.0.1",
        "WEBHOOK_CERT_DIR": str(folder / "certs"),
    }  # fmt: skip
    process = subprocess.Popen(words, env={**os.environ, **environment}, stderr=subprocess.PIPE)
    life.callback(process.kill)
    return process


async def _install(client: Client) -> None:
    async for _ in installing.install(client, REFERENCE):
        pass


async def _delete(client: Client) -> None:
    await client.delete(installing.CRD, GONE)


@pytest.mark.real
def test_the_other_programs_on_a_kube_apiserver(
    own_plane: RealControlPlane, tmp_path: Path
) -> None:
    with ExitStack() as life:
        clusters = [Cluster(own_plane.kubeconfig, tmp_path) for _ in range(2)]
        processes = [
            life.enter_context(clusters[0].descheduler()),
            _webhook(clusters[1], tmp_path, life),
        ]
        for cluster in clusters:
            cluster.asked("/readyz?verbose", lambda text: QUOTA in text)
        clusters[0].do(_install)
        for cluster in clusters:
            cluster.asked("/readyz?verbose", lambda text: QUOTA not in text)
        clusters[0].do(_delete)
        for cluster in clusters:
            cluster.asked("/readyz?verbose", lambda text: QUOTA in text)
        for process in processes:
            assert process.poll() is None
            process.terminate()
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
            assert process.returncode == 0, said
            lines = [line for line in said.decode().splitlines() if "kinds are not served" in line]
            assert len(lines) == 1, said
