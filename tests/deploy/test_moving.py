# SPDX-License-Identifier: Apache-2.0
"""Koordinator's Deployments become koord's one after the other, in place: docs/guide-moving.md."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from koord.check.original.installation import WORKLOAD_KINDS
from koord.kube.client import Client
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.cli.commands.check.cluster import fill
from tests.cli.commands.check.manifests import NAMESPACE, installation
from tests.deploy.chart_files import CHART
from tests.deploy.helm import helm
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

PROGRAMS = {
    "scheduler": "koord-scheduler",
    "manager": "koord-manager",
    "descheduler": "koord-descheduler",
    "koordlet": "koordlet",
}


@pytest.mark.real
def test_each_program_is_replaced_in_its_own_workload(tmp_path: Path) -> None:
    """One container is left in each, koord's, and what was not asked for stays the original's."""
    need("etcd", "kube-apiserver", "helm")
    moved: list[str] = []
    with RealControlPlane(tmp_path, api_flags=("--allow-privileged=true",)) as plane:
        fill(plane.kubeconfig, NAMESPACE, installation())
        for name in PROGRAMS:
            moved.append(name)
            helm("upgrade", "--install", "koord", CHART, "--take-ownership", *_settings(moved),
                 home=tmp_path, kubeconfig=plane.kubeconfig)  # fmt: skip
            images = _images(plane.kubeconfig)
            for component, program in PROGRAMS.items():
                (image,) = images[program]
                assert image.startswith("koord/") == (component in moved), images
        assert images["koord-device-daemon"] == [
            "example.com/koordinator-sh/koord-device-daemon:v1.8.0"
        ]


def _settings(moved: list[str]) -> list[str]:
    switches = {f"{name}.enabled": name in moved for name in PROGRAMS}
    switches |= {
        "installation.createNamespace": False,
        "webhookConfiguration.enabled": "manager" in moved,
    }
    return [word for key, on in switches.items() for word in ("--set", f"{key}={str(on).lower()}")]


def _images(kubeconfig: Path) -> dict[str, list[str]]:
    """The images of each workload of the namespace."""

    async def read() -> dict[str, list[str]]:
        transport = HttpTransport(load_cluster_config(kubeconfig, None))
        client = Client(transport, "test")
        found: list[dict[str, Any]] = []
        for kind in WORKLOAD_KINDS:
            found += (await client.list(kind, namespace=NAMESPACE)).items
        await transport.close()
        return {
            each["metadata"]["name"]: [
                one["image"] for one in each["spec"]["template"]["spec"]["containers"]
            ]
            for each in found
        }

    return asyncio.run(read())
