# SPDX-License-Identifier: Apache-2.0
"""In which order groups are told of: a bare name means the first that has it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from koord.api import definitions
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.transport.messages import JSON, Request

AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CUSTOM = [
    "analysis.koordinator.sh",
    "config.koordinator.sh",
    "scheduling.koordinator.sh",
    "scheduling.sigs.k8s.io",
    "slo.koordinator.sh",
    "topology.node.k8s.io",
    "quota.koordinator.sh",
]


def test_the_guides_group_comes_last() -> None:
    async def run() -> None:
        async with EmbeddedControlPlane(Options(port=None)) as plane:
            transport = plane.transport()
            client = Client(transport, "test", requests_per_second=None)
            names = [name async for name, _ in installing.install(client, definitions.crds())]
            await installing.wait_established(client, names, 10.0)

            async def groups(accept: str, of: str) -> list[Any]:
                answer = await transport.send(Request("GET", "/apis", accept=accept))
                found: list[Any] = json.loads(answer.body)[of]
                return found

            plain = [each["name"] for each in await groups(JSON, "groups")]
            told = await groups(AGGREGATED, "items")
            assert plain == [each["metadata"]["name"] for each in told]
            assert [name for name in plain if name in CUSTOM] == CUSTOM
            assert plain[-1] == "quota.koordinator.sh"
            short = {
                resource["responseKind"]["kind"]: resource.get("shortNames")
                for each in told
                if each["metadata"]["name"] == "scheduling.sigs.k8s.io"
                for resource in each["versions"][0]["resources"]
            }
            assert short == {"ElasticQuota": ["eq", "eqs"], "PodGroup": ["pg", "pgs"]}

    asyncio.run(run())
