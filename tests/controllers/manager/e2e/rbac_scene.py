# SPDX-License-Identifier: Apache-2.0
"""A scene in which koord-manager, as its own service account, does all that it ever does."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from koord.api import ConfigMap, ElasticQuota, Node, NodeMetric, definitions
from koord.base.clock import SystemClock
from koord.controllers.manager.app import LEASE, NAME, ManagerApp
from koord.controllers.manager.options import ManagerOptions
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.election import LeaderElector
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from tests.real.rbac.account import Account
from tests.real.rbac.grants import Grant
from tests.real.rbac.recording import Recorder

SYSTEM, CONFIG = "koordinator-system", "slo-controller-config"
PATIENCE_SECONDS = 120.0
GATE = "ColocationProfileController=true"
Document = dict[str, Any]


async def play(account: Account) -> Recorder:
    """Plays the scene until every grant was used, or for a time; what was used and refused."""
    admin = Client(account.admin, "admin", requests_per_second=None)
    names = [name async for name, _ in installing.install(admin, definitions.crds())]
    await installing.wait_established(admin, names, PATIENCE_SECONDS)
    await account.apply()
    recorder = Recorder(account.transport())
    try:
        await _play(admin, Client(recorder, NAME, requests_per_second=None), recorder, account)
    finally:
        await recorder.close()
    return recorder


async def _play(admin: Client, client: Client, recorder: Recorder, account: Account) -> None:
    events = EventRecorder(client, NAME)
    elector = LeaderElector(client, LEASE, SYSTEM, "scene")
    options = ManagerOptions(
        feature_gates=GATE,
        colocation_profile_reconcile_by_default=True,
        colocation_profile_reconcile_interval=1.0,
    )
    app = ManagerApp(client, options, SystemClock(), events, elector)
    tasks = [asyncio.create_task(app.run()), asyncio.create_task(events.run())]
    try:
        await app.ready()
        # Answers that are lost: what was written is met again, and looked up.
        recorder.lose = {("patch", "nodes/status"), ("patch", "noderesourcetopologies")}
        await _happen(admin)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while unused(account.grants, recorder):
                    await _again(admin)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def unused(grants: list[Grant], recorder: Recorder) -> list[Grant]:
    """What is granted and was not needed."""
    return [each for each in grants if not any(each.covers(used) for used in recorder.used)]


async def _happen(admin: Client) -> None:
    await admin.create(_config_map(_sections(60)))
    for name in ("a", "gone"):
        await admin.create(_node(name))
    await admin.create(
        {
            "apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
            "metadata": {"name": "a"}, "topologyPolicies": ["None"],
            "zones": [
                {"name": f"node-{number}", "type": "Node", "resources": [
                    {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
                    for name, amount in (("cpu", "16"), ("memory", "32Gi"))
                ]} for number in (0, 1)
            ],
        }
    )  # fmt: skip
    await admin.create(_pod())
    await admin.create(
        {
            "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": {"name": "wrong"}, "spec": {"probability": "most"},
        }
    )  # fmt: skip
    await admin.create(
        {
            "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": {"name": "p"},
            "spec": {"selector": {}, "namespaceSelector": {}, "qosClass": "BE"},
        }
    )  # fmt: skip
    await admin.create(
        {
            "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"quotaName": "root", "nodeSelector": {"matchLabels": {"pool": "x"}}},
        }
    )  # fmt: skip


async def _again(admin: Client) -> None:
    """Agents report, people change their minds: what the manager has done it has to do again."""
    for seconds, threshold in ((60, "{"), (30, "{}")):
        data = _sections(seconds) | {"resource-threshold-config": threshold}
        await admin.patch(ConfigMap, CONFIG, Patch.merge({"data": data}), SYSTEM)
        burst = {"clusterStrategy": {"cpuBurstPercent": seconds}}
        text = {"cpu-burst-config": json.dumps(burst)}
        await admin.patch(ConfigMap, CONFIG, Patch.merge({"data": text}), SYSTEM)
        with suppress(Exception):
            await _report(admin)
        await asyncio.sleep(1)
    with suppress(Exception):
        await admin.delete(Node, "gone")
        await admin.patch(
            ElasticQuota, "root", Patch.merge({"spec": {"min": {"cpu": "1"}}}), "default"
        )


async def _report(admin: Client) -> None:
    """What the agent of the node would say."""
    usage = {"resources": {"cpu": "2", "memory": "4Gi"}}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"updateTime": now, "nodeMetric": {"nodeUsage": usage, "systemUsage": usage}}
    await admin.patch(NodeMetric, "a", Patch.merge({"status": status}), subresource="status")


def _sections(report_seconds: int) -> dict[str, str]:
    amplified = {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5}}
    colocation = {"enable": True, "metricReportIntervalSeconds": report_seconds}
    return {
        "colocation-config": json.dumps(colocation),
        "resource-amplification-config": json.dumps(amplified),
    }


def _config_map(data: dict[str, str]) -> Document:
    meta = {"name": CONFIG, "namespace": SYSTEM}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _node(name: str) -> Document:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": "x"}},
        "status": {"capacity": amounts, "allocatable": amounts,
                   "conditions": [{"type": "Ready", "status": "True", "reason": "Kubelet"}]},
    }  # fmt: skip


def _pod() -> Document:
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "waits", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }  # fmt: skip
