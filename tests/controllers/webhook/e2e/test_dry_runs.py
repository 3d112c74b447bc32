# SPDX-License-Identifier: Apache-2.0
"""A dry run is judged as the real request, and writes nothing: no charge, no claim on a parent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from koord.api import definitions
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys
from koord.kube import crds
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.transport.messages import Request
from tests.controllers.webhook.e2e.scene import PATIENCE_SECONDS, AdmissionScene, Play

QUOTA = "scheduling.sigs.k8s.io/v1alpha1"
LABELS = "quota.scheduling.koordinator.sh"
CLAIMS = "koord.sh/claimed-minimums"
QUOTAS = f"/apis/{QUOTA}/namespaces/default/elasticquotas"
PODS = "/api/v1/namespaces/default/pods"
_DRY = (("dryRun", "All"),)


def test_a_dry_run_is_judged_and_charges_nothing(play: Play) -> None:
    async def script(scene: AdmissionScene) -> None:
        client = scene.client
        wanted = [each for each in definitions.crds() if each["spec"]["names"]["kind"] in _KINDS]
        names = [name async for name, _ in crds.install(client, wanted)]
        await crds.wait_established(client, names, 60.0)
        await scene.install("Fail")
        async with scene.replica(gates="EnableQuotaAdmission=true", koords=True):
            await _made(client, _quota("top", "koordinator-root-quota", "8", "true"))
            await _dry(client, QUOTAS, _quota("team", "top", "5"))
            with pytest.raises(ApiError, match=r"spec\.min"):
                await _dry(client, QUOTAS, _quota("team", "top", "9"))
            assert CLAIMS not in (await _annotations(client, "top"))
            await client.create(_quota("team", "top", "5"))
            assert CLAIMS in (await _annotations(client, "top"))
            await _dry(client, PODS, _pod("a", "2"))
            with pytest.raises(ApiError, match="exceeded quota"):
                await _dry(client, PODS, _pod("a", "11"))
            assert keys.QUOTA_CHILD_REQUEST not in await _annotations(client, "team")
            await client.create(_pod("a", "2"))
            used = (await _annotations(client, "team"))[keys.QUOTA_CHILD_REQUEST]
            assert json.loads(used) == {"cpu": "2"}

    play(script)


_KINDS = ("ElasticQuota", "ClusterColocationProfile", "ElasticQuotaProfile")


async def _made(client: Client, document: dict[str, Any]) -> None:
    """Creates an object once the API server trusts whom it calls, which it follows by a watch."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await client.create(document)
            except ApiError as error:
                if "failed calling webhook" not in str(error):
                    raise
                await asyncio.sleep(0.05)
            else:
                return


async def _dry(client: Client, path: str, document: dict[str, Any]) -> None:
    await client.request(Request("POST", path, _DRY, json.dumps(document).encode()))


async def _annotations(client: Client, name: str) -> dict[str, str]:
    return (await client.get(ElasticQuota, name, "default")).metadata.annotations


def _quota(name: str, parent: str, least: str, is_parent: str = "false") -> dict[str, Any]:
    labels = {f"{LABELS}/parent": parent, f"{LABELS}/is-parent": is_parent}
    return {
        "apiVersion": QUOTA, "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"max": {"cpu": "10"}, "min": {"cpu": least}},
    }  # fmt: skip


def _pod(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {f"{LABELS}/name": "team"}},
        "spec": {"containers": [container]},
    }  # fmt: skip
