# SPDX-License-Identifier: Apache-2.0
"""deploy/rbac/koord-descheduler.yaml grants what koord-descheduler does, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.controllers.descheduler.e2e import rbac_scene
from tests.real.plane import RealControlPlane
from tests.real.rbac.account import Account
from tests.real.rbac.contract import check_nothing_was_refused, check_parts, documents
from tests.real.rbac.grants import Grant, granted
from tests.real.rbac.recording import Recorder

MANIFEST = Path(__file__).parents[4] / "deploy" / "rbac" / "koord-descheduler.yaml"
# With what stands beside it: each is played in the scene.
BESIDE = ("evict-policies", "strategies", "surge")
MANIFESTS = (MANIFEST, *(MANIFEST.with_name(f"koord-descheduler-{each}.yaml") for each in BESIDE))
GRANTS = granted(documents(*MANIFESTS))
# Only where a watch is later than who asks for its object, the server loses something, or the way
# is longer than this scene: an event that repeats, a Reservation that a job is given, a job that is
# collected minutes after its time.
SELDOM = {
    "patch events", "get pods", "get reservations.scheduling.koordinator.sh",
    "get podmigrationjobs.scheduling.koordinator.sh",
    "patch reservations.scheduling.koordinator.sh",
    "delete podmigrationjobs.scheduling.koordinator.sh",
    "update leases.coordination.k8s.io koord-descheduler in koordinator-system",
}  # fmt: skip


def _unused(recorder: Recorder) -> list[Grant]:
    return [each for each in GRANTS if not any(map(each.covers, recorder.used))]


def _is_enough(recorder: Recorder) -> bool:
    return {str(each) for each in _unused(recorder)} <= SELDOM


def test_the_manifest_has_the_parts_it_needs() -> None:
    check_parts(documents(MANIFEST), "koord-descheduler")
    alone = [granted(documents(each)) for each in MANIFESTS]
    assert all(len(grants) == len(set(grants)) for grants in alone)
    assert {str(each) for each in GRANTS} >= SELDOM


def test_without_the_other_manifests_no_pod_goes_but_by_eviction() -> None:
    own = [each for each in granted(documents(MANIFEST)) if each.resource.startswith("pods")]
    assert [str(each) for each in own] == [
        "get pods", "list pods", "watch pods", "create pods/eviction",
    ]  # fmt: skip


@pytest.mark.real
def test_what_the_descheduler_does_is_granted_and_nothing_else(
    own_plane: RealControlPlane,
) -> None:
    async def run() -> Recorder:
        account = Account(own_plane, *MANIFESTS)
        try:
            return await rbac_scene.play(account, _is_enough)
        finally:
            await account.close()

    recorder = asyncio.run(run())
    check_nothing_was_refused(GRANTS, recorder)
    assert {str(each) for each in _unused(recorder)} <= SELDOM
