# SPDX-License-Identifier: Apache-2.0
"""Leaders of ``koord up`` whose process was stopped: they begin anew, the cluster stays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from koord.api.kinds.cluster import Lease
from koord.base.clock import VirtualClock
from koord.cli.commands.up.cluster import UpCluster
from koord.cli.commands.up.descheduler_component import descheduler_component
from koord.cli.commands.up.installation import install
from koord.cli.commands.up.manager_component import manager_component
from koord.cli.commands.up.scheduler_component import scheduler_component
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.simulator.nodes.pools import NodePools
from tests.kube.harness import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.kube.daemon.lifecycle import Component


@pytest.mark.parametrize(
    ("lease", "made"),
    [
        ("koord-scheduler", scheduler_component),
        ("koordinator-manager", manager_component),
        ("koord-descheduler", descheduler_component),
    ],
)
def test_a_lost_lead_is_won_again(
    lease: str, made: Callable[[UpCluster], Component], caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock(1_700_000_000.0)

    async def story() -> list[str]:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            cluster = UpCluster(plane, NodePools([]), clock, 1)
            client = cluster.client("test")
            await install(cluster, ())
            part = made(cluster)
            running = asyncio.ensure_future(part.run())
            assert part.ready is not None
            await part.ready()
            await asyncio.sleep(10)
            found = await client.get(Lease, lease, "koordinator-system")
            mine = found.spec.holder_identity
            found.spec.holder_identity = "somebody"
            await client.update(found)
            await asyncio.sleep(120)
            assert not running.done()
            again = await client.get(Lease, lease, "koordinator-system")
            running.cancel()
            await asyncio.wait({running})
            return [mine, again.spec.holder_identity]

    before, after = run_virtual(story(), clock)
    assert "_koord-up_" in before
    assert "_koord-up_" in after
    assert [r.getMessage() for r in caplog.records if r.name == "koord.up"] == ["begins anew"]
