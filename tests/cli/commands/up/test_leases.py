# SPDX-License-Identifier: Apache-2.0
"""Leases that an earlier ``koord up`` left are given back; those of others are not."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.cluster import Lease
from koord.base.clock import VirtualClock
from koord.cli.commands.up import leases
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.patches import Patch
from tests.kube.harness import run_virtual

NAMESPACE = "koordinator-system"
MINE, OTHERS = "host_koord-up_1", "host_7"


class Late(Client):
    """Somebody else takes a lease between the list and the update."""

    async def update(self, value: Any, *arguments: Any, **options: Any) -> Any:
        if value.metadata.name == "taken":
            take = Patch.merge({"spec": {"holderIdentity": OTHERS}})
            await self.patch(Lease, "taken", take, NAMESPACE)
        return await super().update(value, *arguments, **options)


def test_a_lease_that_somebody_takes_meanwhile_stays_his() -> None:
    clock = VirtualClock(1_900_000_000.0)

    async def story() -> dict[str, str]:
        async with EmbeddedControlPlane(Options(port=None, clock=clock)) as plane:
            client = Late(plane.transport(), requests_per_second=None)
            await client.create({"apiVersion": "v1", "kind": "Namespace",
                                 "metadata": {"name": NAMESPACE}})  # fmt: skip
            for name, holder in (("left", MINE), ("taken", MINE), ("theirs", OTHERS)):
                await client.create(
                    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                     "metadata": {"name": name, "namespace": NAMESPACE},
                     "spec": {"holderIdentity": holder}}
                )  # fmt: skip
            await leases.release(client, clock)
            found = (await client.list(Lease, namespace=NAMESPACE)).items
            return {each.metadata.name: each.spec.holder_identity for each in found}

    assert run_virtual(story(), clock) == {"left": "", "taken": OTHERS, "theirs": OTHERS}
