# SPDX-License-Identifier: Apache-2.0
"""deploy/rbac/koord-webhook.yaml grants what admission does, with all its gates on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from koord.api import definitions
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.webhook.framework.webhook_table import WEBHOOKS
from koord.controllers.webhook.lead import LEASE
from koord.controllers.webhook.options import WebhookOptions
from koord.kube import crds
from koord.kube.client import Client
from koord.kube.election import LeaderElector
from tests.controllers.webhook.e2e.scene import AdmissionScene
from tests.real.plane import RealControlPlane
from tests.real.rbac.account import Account
from tests.real.rbac.contract import check_nothing_was_refused, documents
from tests.real.rbac.grants import granted
from tests.real.rbac.recording import Recorder

MANIFEST = Path(__file__).parents[4] / "deploy" / "rbac" / "koord-webhook.yaml"
OFF = ("DisableDefaultQuota", "DisableExtendedResourceSpec", "DisableDeviceResourceSpec")
GATES = ",".join(
    f"{gate.name}=true" for gate in feature_gates().known() if gate.effect and gate.name not in OFF
)
QUOTA = "scheduling.sigs.k8s.io/v1alpha1"
LABELS = "quota.scheduling.koordinator.sh"
# Only where the server loses something, a watch is later than who asks for its object (of the
# Secret and both configurations, which are read then), or the way is longer than this scene.
SELDOM = {
    "create events", "patch events", "get namespaces", "get elasticquotas", "get priorityclasses",
    "get secrets", "get mutatingwebhookconfigurations", "get validatingwebhookconfigurations",
    "update secrets", "list nodes", "patch clustercolocationprofiles/status",
}  # fmt: skip


@pytest.mark.real
def test_what_admission_does_is_granted(own_plane: RealControlPlane) -> None:
    asyncio.run(_play(own_plane))


async def _play(plane: RealControlPlane) -> None:
    account = Account(plane, MANIFEST)
    admin = Client(account.admin, "admin", requests_per_second=None)
    names = [name async for name, _ in crds.install(admin, definitions.crds())]
    await crds.wait_established(admin, names, 60.0)
    await account.apply()
    recorder = Recorder(account.transport())
    own = Client(recorder, "koord-webhook", requests_per_second=None)
    scene = AdmissionScene(admin, own=own)
    await scene.install("Fail")
    try:
        await LeaderElector(own, LEASE, "koordinator-system", "scene").lead(
            lambda: asyncio.sleep(0)
        )
        judging = WebhookOptions(binding_admission_user_name="koord")
        async with scene.replica(gates=GATES, koords=True, options=judging) as app:
            assert app.paths == {each.path for each in WEBHOOKS}
            await _happen(admin)
    finally:
        await recorder.close()
        await account.close()
    grants = granted(documents(MANIFEST))
    check_nothing_was_refused(grants, recorder)
    unused = {str(grant) for grant in grants if not any(map(grant.covers, recorder.used))}
    assert {" ".join(each.split(".")[0].split()[:2]) for each in unused} <= SELDOM, unused


async def _happen(admin: Client) -> None:
    """Quotas, a profile with a class that was made a moment ago, a pod that is charged."""
    for name, parent, least, labels in (
        ("top", "koordinator-root-quota", "20", {f"{LABELS}/is-parent": "true"}),
        ("team", "top", "5", {}),
    ):
        await admin.create(_quota(name, parent, least, labels))
    await admin.create(
        {
            "apiVersion": "config.koordinator.sh/v1alpha1",
            "kind": "ClusterColocationProfile",
            "metadata": {"name": "batch"},
            "spec": {
                "selector": {"matchLabels": {"app": "spark"}},
                "priorityClassName": "just-made",
                "qosClass": "BE",
            },
        }
    )
    async with asyncio.timeout(60):
        number = 0
        made: dict[str, Any] = {"metadata": {}}
        while "koordinator.sh/qosClass" not in made["metadata"].get("labels", {}):
            number += 1
            name = f"just-made-{number}"
            await _class(admin, name)
            await admin.patch(_profile_kind(), "batch", _named_class(name))
            await asyncio.sleep(0.1)
            made = await admin.create(_pod(f"p{number}"))


def _quota(name: str, parent: str, least: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": QUOTA,
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {f"{LABELS}/parent": parent, **labels},
        },
        "spec": {"max": {"cpu": "40"}, "min": {"cpu": least}},
    }


def _pod(name: str) -> dict[str, Any]:
    labels = {"app": "spark", f"{LABELS}/name": "team"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "containers": [
                {"name": "main", "image": "a", "resources": {"requests": {"cpu": "100m"}}}
            ]
        },
    }


async def _class(admin: Client, name: str) -> None:
    await admin.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 5500,
        }
    )


def _profile_kind() -> Any:
    from koord.api.kinds.profile import ClusterColocationProfile

    return ClusterColocationProfile


def _named_class(name: str) -> Any:
    from koord.kube.patches import Patch

    return Patch.merge({"spec": {"priorityClassName": name}})
