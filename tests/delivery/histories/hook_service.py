# SPDX-License-Identifier: Apache-2.0
"""A proxy that asks the agent's hook service anything, many calls at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from koord.delivery.hooks.messages import HOOKS, POD_STAGES
from koord.delivery.hooks.service import LIMIT_SECONDS, STAGES
from tests.delivery.histories import noise
from tests.delivery.hooks.test_service import CREATE, ServiceSetting, of_container
from tests.delivery.nri.test_plugin import batch
from tests.kube.harness import run_virtual

_BURSTS = (1, 1, 1, 1, 4, 100)
_REMAINING = (None, 0.0, -1.0, 0.01, 2.0, 1e9)


def play(folder: Path, draw: Random, messages: int) -> None:
    """So many calls."""
    setting = ServiceSetting(folder)
    run_virtual(_play(setting, draw, messages), setting.clock)


async def _play(setting: ServiceSetting, draw: Random, messages: int) -> None:
    await setting.knows(batch("u1"), batch("u2"))
    left = messages
    while left > 0:
        setting.aside = draw.random() < 0.1
        burst = min(left, draw.choice(_BURSTS))
        left -= burst
        began = setting.clock.monotonic_seconds()
        await asyncio.gather(*(_one(setting, draw) for _ in range(burst)))
        assert setting.clock.monotonic_seconds() - began <= LIMIT_SECONDS
    setting.aside = False
    assert {each["method"] for each in setting.calls.status()["calls"]} <= set(STAGES)
    # Whatever was asked, a container gets what hooks want as ever.
    answer = await setting.answer(CREATE, of_container(batch("u1")))
    resources = answer.container_resources
    wanted = (512, 50_000, 1 << 30)
    found = (resources.cpu_shares, resources.cpu_quota, resources.memory_limit_in_bytes)
    assert found == wanted


async def _one(setting: ServiceSetting, draw: Random) -> None:
    stage = draw.choice(STAGES)
    kind = "PodSandbox" if stage in POD_STAGES else "ContainerResource"
    asked = noise.filled(draw, getattr(HOOKS, f"{kind}HookRequest"))
    asked.pod_meta.uid = draw.choice(("u1", "u2", "gone", noise.text(draw)))
    raw = asked.SerializeToString()
    whole = draw.random() < 0.7
    raw = raw if whole else noise.mangled(draw, raw)
    answer = await setting.service.handle(stage, raw, draw.choice(_REMAINING))
    response: Any = getattr(HOOKS, f"{kind}HookResponse").FromString(answer)
    if whole and answer and stage not in POD_STAGES:
        # Variables that a container has are not taken from it.
        assert (
            asked.container_envs.items()
            <= {**asked.container_envs, **response.container_envs}.items()
        )
