# SPDX-License-Identifier: Apache-2.0
"""A profile that is passed over says so itself, until it is mended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from koord.api import definitions
from koord.api.kinds.meta import Condition
from koord.api.kinds.profile import ClusterColocationProfile
from koord.controllers.webhook.framework.webhook_table import MUTATE_POD
from koord.controllers.webhook.pods.mutation.handler import PodMutationHandler
from koord.controlplane.embedded import EmbeddedControlPlane
from koord.kube import crds
from koord.kube.client import Client
from koord.kube.patches import Patch
from tests.controllers.webhook.e2e.scene import AdmissionScene

_META = {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile"}
# Containers are a list.
_WRONG = {"spec": {"containers": "none"}}


def test_a_wrong_share_and_a_wrong_patch_are_conditions_until_they_are_mended() -> None:
    async def script() -> None:
        async with EmbeddedControlPlane() as plane:
            client = Client(plane.transport(), requests_per_second=None)
            wanted = [each for each in definitions.crds() if "profile" in each["metadata"]["name"]]
            names = [name async for name, _ in crds.install(client, wanted)]
            await crds.wait_established(client, names, 60.0)
            scene = AdmissionScene(client)
            await scene.install()
            makers = {MUTATE_POD: PodMutationHandler}
            async with scene.replica(makers=makers), scene.replica(leading=False, makers=makers):
                await _play(scene)

    asyncio.run(script())


async def _play(scene: AdmissionScene) -> None:
    client = scene.client
    await _create(client, "share", {"probability": "most", "labels": {"a": "b"}})
    found = await _until(client, "share", lambda each: each.status == "False")
    assert "spec.probability: got 'most'" in found.message
    await _create(client, "patch", {"selector": {}, "labels": {"by": "it"}, "patch": _WRONG})
    await _create(client, "good", {"selector": {}, "labels": {"seen": "yes"}})
    # The pod goes through, changed by what can be used.
    async with asyncio.timeout(30):
        number = 0
        while "seen" not in (await scene.create_pod(f"p{number}"))["metadata"].get("labels", {}):
            number += 1
    found = await _until(client, "patch", lambda each: each.status == "False")
    assert "spec.patch" in found.message
    assert not (await client.get(ClusterColocationProfile, "good")).status.conditions
    for name, change in (("share", {"probability": "10%"}), ("patch", {"patch": None})):
        await client.patch(ClusterColocationProfile, name, Patch.merge({"spec": change}))
        found = await _until(client, name, lambda each: each.status == "True")
        assert (found.reason, found.message) == ("Usable", "")


async def _create(client: Client, name: str, spec: dict[str, Any]) -> None:
    await client.create({**_META, "metadata": {"name": name}, "spec": spec})


async def _until(client: Client, name: str, holds: Callable[[Condition], bool]) -> Condition:
    async with asyncio.timeout(30):
        while True:
            profile = await client.get(ClusterColocationProfile, name)
            for each in profile.status.conditions:
                assert each.type == "Valid"
                if holds(each) and each.observed_generation == profile.metadata.generation:
                    return each
            await asyncio.sleep(0.02)
