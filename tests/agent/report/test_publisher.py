# SPDX-License-Identifier: Apache-2.0
"""What is left of a status in the API server once the next one is written."""

from __future__ import annotations

from koord.agent.report.publisher import Publisher
from koord.agent.states.state_store import StateStore
from koord.api import crds, decode_as, to_document
from koord.api.kinds.nodemetric import NodeMetric
from koord.base.clock import VirtualClock
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.crds import install
from tests.kube.harness import run_virtual

FULL = {
    "updateTime": "2023-11-14T22:13:20Z",
    "nodeMetric": {"nodeUsage": {"resources": {"cpu": "2", "memory": "4Gi"}}},
    "podsMetric": [{"name": "web", "namespace": "default"}],
    "hostApplicationMetric": [{"name": "nginx"}],
    "prodReclaimableMetric": {"resource": {"resources": {"cpu": "3"}}},
}
EMPTY = {
    "updateTime": "2023-11-14T22:14:20Z",
    "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1"}}},
}


def test_what_is_not_reported_any_more_goes() -> None:
    """The last pod ended, nothing is predicted: who reads the report must not take it for there."""
    clock = VirtualClock(1_700_000_000.0)

    async def story() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            async for _ in install(client, crds()):
                pass
            metric = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
            await client.create({**metric, "metadata": {"name": "n1"}})
            publisher = Publisher(client, StateStore(clock))
            for told in (FULL, EMPTY):
                there = await client.get(NodeMetric, "n1")
                status = decode_as({**metric, "status": told}, NodeMetric).status
                await publisher.write_status(there, status, 10.0)
                assert to_document((await client.get(NodeMetric, "n1")).status) == told

    run_virtual(story(), clock)
