# SPDX-License-Identifier: Apache-2.0
"""What a release's notes say of values that have no effect.

helm asks an API server for its versions before it renders notes; the embedded one tells them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.embedded import start_embedded
from tests.deploy.chart_files import CHART
from tests.deploy.helm import helm
from tests.real.fixtures import need

Document = dict[str, Any]
pytestmark = pytest.mark.real

IMAGES = {
    f"{name}.image": {"repository": f"koordinator-sh/{program}", "tag": "v1.8.0"}
    for name, program in {
        "scheduler": "koord-scheduler",
        "manager": "koord-manager",
        "descheduler": "koord-descheduler",
        "koordlet": "koordlet",
    }.items()
}
# What Koordinator's chart 1.8 has by default and koord's does not use, and what it has and koord's
# uses: its keys and values.
WITHOUT_EFFECT: dict[str, object] = {
    "installation.roleListGroups": ["*"],
    "scheduler.compatible122FeatureGates": "CompatibleCSIStorageCapacity=true",
    "scheduler.compatibleBelow122FeatureGates": "DisableCSIStorageCapacityInformer=true",
    "scheduler.enableJobPreemption": True,
    "scheduler.deviceShare": {
        "gpuShareUnsupportedModels": [{"vendor": "huawei", "model": "Ascend-310P3-300I-DUO"}]
    },
    "koordlet.hostDirs.podResourcesProxyPath": "/var/run/koordlet/pod-resources/",
    "deviceDaemon": {"resources": {"requests": {"cpu": "0"}}, "nodeAffinity": {}},
}
WITH_EFFECT: dict[str, object] = {
    "crds": {"managed": True, "clustercolocationprofiles": True, "podmigrationjobs": True},
    "installation.namespace": "koordinator-system",
    "featureGates": "",
    "koordlet.log.level": "4",
    "koordlet.features": "",
    "koordlet.resources": {"limits": {"cpu": "200m"}, "requests": {"memory": "0"}},
    "koordlet.hostDirs.kubeletConfigDir": "/etc/kubernetes/",
    "koordlet.hostDirs.kubeletLibDir": "/var/lib/kubelet/",
    "koordlet.hostDirs.koordProxyRegisterDir": "/etc/runtime/hookserver.d/",
    "koordlet.hostDirs.koordletSockDir": "/var/run/koordlet",
    "koordlet.hostDirs.predictionCheckpointDir": "/var/run/koordlet/prediction-checkpoints",
    # Empty, it says that samples are kept in memory, as they are.
    "koordlet.hostDirs.koordletTSDBDir": "",
    "koordlet.metrics.port": 9316,
    "koordlet.enableServiceMonitor": False,
    "manager.replicas": 2,
    "manager.webhook.port": 9876,
    "manager.metrics": {"addr": "", "port": 8080},
    "manager.healthProbe.port": 8000,
    "manager.resyncPeriod": "0",
    "manager.nodeSelector": {},
    "webhookConfiguration.failurePolicy": {"pods": "Ignore", "reservations": "Ignore"},
    "webhookConfiguration.timeoutSeconds": 30,
    "serviceAccount.annotations": {},
    "scheduler.port": 10251,
    "scheduler.featureGates": "",
    "scheduler.hostNetwork": False,
    "scheduler.monitorEnabled": False,
    "descheduler.log.level": "4",
    "descheduler.tolerations": [],
}
# A value for each key that the schema says has no effect but that chart leaves empty.
OTHERWISE_EMPTY: dict[str, object] = {"koordlet.hostDirs.koordletTSDBDir": "/var/lib/samples"}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a server that tells its versions; nothing is installed."""
    need("helm")
    with start_embedded(tmp_path_factory.mktemp("versions"), controllers=False) as server:
        yield server.kubeconfig


def without_effect(kubeconfig: Path, folder: Path, values: Mapping[str, object]) -> list[str]:
    """Values, by their paths, of which the notes of a release say that they have no effect."""
    file = folder / "given.yaml"
    file.write_text(yaml.safe_dump(_nested(values)), encoding="utf-8")
    printed = helm(
        *("install", "koord", CHART, "--dry-run=client", "-f", file),
        home=folder,
        kubeconfig=kubeconfig,
    )
    _, _, notes = printed.rpartition("\nNOTES:\n")
    lines = [line.partition(" has no effect: ") for line in notes.splitlines()]
    return sorted(name.strip() for name, found, why in lines if found and why)


def _nested(values: Mapping[str, object]) -> Document:
    whole: Document = {}
    for path, value in values.items():
        *folders, last = path.split(".")
        inner = whole
        for name in folders:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return whole


def said_by_the_schema() -> set[str]:
    """Paths of what the schema of the chart's values describes as without effect."""

    def of(node: Document, path: str) -> Iterator[str]:
        if "has no effect" in node.get("description", ""):
            yield path
        for name, inner in node.get("properties", {}).items():
            yield from of(inner, f"{path}.{name}" if path else name)

    return set(of(json.loads((CHART / "values.schema.json").read_text(encoding="utf-8")), ""))


def test_values_of_koordinators_chart(kubeconfig: Path, tmp_path: Path) -> None:
    """One line for each that has no effect, and none for the others."""
    given = {**WITHOUT_EFFECT, **IMAGES, **WITH_EFFECT}
    found = without_effect(kubeconfig, tmp_path, given)
    assert found == sorted([*WITHOUT_EFFECT, *IMAGES])
    assert set(found) - set(IMAGES) == said_by_the_schema() - set(OTHERWISE_EMPTY)


def test_all_that_the_schema_says(kubeconfig: Path, tmp_path: Path) -> None:
    given = {**WITHOUT_EFFECT, **OTHERWISE_EMPTY}
    assert set(given) == said_by_the_schema()
    assert without_effect(kubeconfig, tmp_path, given) == sorted(given)


def test_values_that_have_an_effect(kubeconfig: Path, tmp_path: Path) -> None:
    """Nor has an image of one's own a line, nor what the chart has by itself."""
    own = {path: {"repository": "example/koord", "tag": "1"} for path in IMAGES}
    assert without_effect(kubeconfig, tmp_path, {**WITH_EFFECT, **own}) == []
