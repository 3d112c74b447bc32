# SPDX-License-Identifier: Apache-2.0
"""Koordinator's Deployments become koord's one after the other, in place: docs/guide-moving.md."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.check.original.installation import WORKLOAD_KINDS
from koord.kube.client import Client
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.cli.commands.check.cluster import fill
from tests.cli.commands.check.manifests import NAMESPACE, installation
from tests.deploy.admin import Admin, Document
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
CONFIG = "slo-controller-config"
DEFAULT, CHANGED = '{"enable": true}', '{"enable": true, "cpuReclaimThresholdPercent": 71}'


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


class Story:
    """A release with the objects of Koordinator's, and one of koord's that takes them over."""

    def __init__(self, plane: RealControlPlane, admin: Admin, folder: Path) -> None:
        self._plane, self._admin, self._folder = plane, admin, folder
        chart = folder / "koordinator"
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text("{apiVersion: v2, name: koordinator, version: 1.8.0}")
        slo = {
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"colocation-config": DEFAULT},
            "metadata": {"name": CONFIG, "namespace": NAMESPACE},
        }  # fmt: skip
        text = yaml.safe_dump_all([*installation(), slo])
        (chart / "templates" / "all.yaml").write_text(text, encoding="utf-8")
        admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.helm("install", "koordinator", chart)
        self.set_configuration({"data": {"colocation-config": CHANGED}})

    def helm(self, *words: object) -> None:
        helm(*words, home=self._folder, kubeconfig=self._plane.kubeconfig)

    def forget(self, release: str) -> None:
        """Takes what helm keeps of a release, and no object of it."""
        path = "/api/v1/namespaces/default/secrets"
        selected = f"{path}?labelSelector=owner%3Dhelm%2Cname%3D{release}"
        secrets = self._admin.items(selected)
        assert secrets
        for secret in secrets:
            self._admin.delete(f"{path}/{secret['metadata']['name']}")

    def move(self, moved: list[str], *more: str) -> None:
        """The guide's command."""
        taking = ("upgrade", "--install", "koord", CHART, "--take-ownership")
        self.helm(*taking, *_settings(moved), *more)

    def disable_manager(self) -> None:
        """The guide's other one."""
        without = ("--set", "manager.enabled=false")
        self.helm("upgrade", "koord", CHART, "--reuse-values", *without)
        assert PROGRAMS["manager"] not in _images(self._plane.kubeconfig)

    def set_configuration(self, change: Document) -> None:
        """What somebody changes of it in the cluster."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG}"
        self._admin.patch(path, change)

    def configuration(self) -> str | None:
        """What is offered, as the cluster says it; None without the ConfigMap."""
        items = self._admin.items(f"/api/v1/namespaces/{NAMESPACE}/configmaps")
        found = [each["data"] for each in items if each["metadata"]["name"] == CONFIG]
        return found[0]["colocation-config"] if found else None


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    need("etcd", "kube-apiserver", "helm")
    flags = ("--allow-privileged=true",)
    with RealControlPlane(tmp_path, api_flags=flags) as plane, closing(Admin(plane)) as admin:
        yield Story(plane, admin, tmp_path)


@pytest.mark.real
def test_a_configuration_left_to_others_stays_as_it_is(story: Story) -> None:
    """Whether koord's manager comes or goes."""
    story.move(["manager"], "--set-json", "sloControllerConfig=null")
    assert story.configuration() == CHANGED
    story.disable_manager()
    assert story.configuration() == CHANGED


@pytest.mark.real
def test_a_configuration_of_the_values_goes_with_the_manager_unless_it_is_kept(
    story: Story,
) -> None:
    values = json.dumps({"colocation-config": CHANGED})
    story.move(["manager"], "--set-json", f"sloControllerConfig={values}")
    story.disable_manager()
    assert story.configuration() is None
    story.move(["manager"], "--set-json", f"sloControllerConfig={values}")
    assert story.configuration() == CHANGED
    story.set_configuration({"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}})
    story.disable_manager()
    assert story.configuration() == CHANGED


@pytest.mark.real
def test_a_former_release_is_forgotten_and_nothing_goes_with_it(
    story: Story, tmp_path: Path
) -> None:
    story.move(list(PROGRAMS))
    before = _images(tmp_path / "kubeconfig")
    story.forget("koordinator")
    assert _images(tmp_path / "kubeconfig") == before
    story.move(list(PROGRAMS))
    assert _images(tmp_path / "kubeconfig") == before


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
