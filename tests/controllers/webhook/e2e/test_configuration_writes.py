# SPDX-License-Identifier: Apache-2.0
"""How often webhook configurations are written, as kube-apiserver counts requests.

Versions of objects would not tell: a write that changes nothing leaves them as they are.
"""

from __future__ import annotations

import asyncio
import http.client
import re
from typing import Any

import pytest

from koord.controllers.webhook.certificates import certificate_keeper
from koord.controllers.webhook.certificates.certificate_keeper import MUTATING, CertificateKeeper
from tests.controllers.webhook.e2e.scene import PATIENCE_SECONDS, AdmissionScene, Play
from tests.real.plane import RealControlPlane

ROUNDS = 20
_COUNT = re.compile(
    r'^apiserver_request_total\{.*resource="(\w+)webhookconfigurations".*verb="PUT".*\} (\d+)$',
    re.M,
)


def puts(plane: RealControlPlane) -> dict[str, int]:
    """Whole configurations that anybody sent so far, refused ones too, by kind."""
    connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=plane.tls())
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    found = dict.fromkeys(("mutating", "validating"), 0)
    for kind, count in _COUNT.findall(text):
        found[kind] += int(count)
    return found


class Rounds:
    """Rounds of keepers that have ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ended = 0
        one = CertificateKeeper.round

        async def counted(keeper: CertificateKeeper) -> None:
            await one(keeper)
            self.ended += 1

        monkeypatch.setattr(CertificateKeeper, "round", counted)
        monkeypatch.setattr(certificate_keeper, "ROUND_SECONDS", 0.02)

    async def pass_by(self, count: int = ROUNDS) -> None:
        """So many more."""
        goal = self.ended + count
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.ended < goal:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("play", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
def test_a_configuration_is_written_only_when_it_differs(
    play: Play, plane: RealControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the server adds to entries nobody writes again; what somebody changes comes back."""
    rounds = Rounds(monkeypatch)

    async def script(scene: AdmissionScene) -> None:
        await scene.install(template=True)
        before = await asyncio.to_thread(puts, plane)

        async def written() -> dict[str, int]:
            now = await asyncio.to_thread(puts, plane)
            return {kind: count - before[kind] for kind, count in now.items()}

        async with scene.replica():
            await rounds.pass_by()
            assert await written() == {"mutating": 1, "validating": 1}
            wanted = await scene.configuration()
            changed: dict[str, Any] = await scene.configuration()
            for each in changed["webhooks"]:
                each["timeoutSeconds"] += 1
            await scene.client.update(changed, kind=MUTATING)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await scene.configuration())["webhooks"] != wanted["webhooks"]:
                    await asyncio.sleep(0.02)
            await rounds.pass_by()
            # Somebody's, and the one that makes it right.
            assert await written() == {"mutating": 3, "validating": 1}

    play(script)
