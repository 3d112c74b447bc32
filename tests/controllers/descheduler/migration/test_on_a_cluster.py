# SPDX-License-Identifier: Apache-2.0
"""Whole migrations on the embedded server: the quick start, both modes, gangs, roll-backs."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.controllers.descheduler.migration.world import World, play

IN_ORDER = ["ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete"]


def test_quick_start(reference_data: Path) -> None:
    """Release 0.6: the pod of a Deployment comes back in its reservation."""
    text = (reference_data / "examples/releases/podmigrationjob-demo.yaml").read_text()
    document = yaml.safe_load(text)

    async def story(world: World) -> None:
        await world.deployment("pod-demo", 4)
        before = await world.running(4)
        moved = before[0]
        document["spec"]["podRef"]["name"] = moved.metadata.name
        await world.client.create(document)
        job = await world.ended("migrationjob-demo")
        assert (job.status.phase, job.status.status) == ("Succeeded", "Complete")
        after = await world.running(4)
        fresh = [p for p in after if p.metadata.uid not in {q.metadata.uid for q in before}]
        assert len(fresh) == 1
        assert fresh[0].spec.node_name == job.status.node_name != moved.spec.node_name
        assert job.status.pod_ref is not None
        assert job.status.pod_ref.name == fresh[0].metadata.name
        options = job.spec.reservation_options
        assert options is not None and options.reservation_ref is not None
        assert options.reservation_ref.name == job.metadata.uid
        told = [event.reason for event in await world.events("PodMigrationJob")]
        assert [reason for reason in told if reason in IN_ORDER] == IN_ORDER
        assert await world.reservations() == []

    play(story)
