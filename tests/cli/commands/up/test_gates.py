# SPDX-License-Identifier: Apache-2.0
"""``koord up --feature-gates``: each gate reaches the components that have it."""

from __future__ import annotations

import asyncio

import pytest

from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.cli.commands.up import installation
from koord.cli.commands.up.cluster import UpCluster
from koord.cli.commands.up.components import COMPONENTS, GateTexts, gate_texts, has_webhooks
from koord.controllers.scheduler.app import App
from koord.controllers.webhook.certificates.certificate_keeper import MUTATING
from koord.controllers.webhook.framework.default_configurations import MUTATING_NAME
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.simulator.nodes.pools import NodePools
from tests.kube.harness import run_virtual


def test_each_gate_goes_to_those_who_have_it() -> None:
    given = " MultiQuotaTree=true, ResizePod=true,EnableQuotaAdmission=true,AllAlpha=false"
    assert gate_texts(given) == (
        "MultiQuotaTree=true,ResizePod=true,AllAlpha=false",
        "MultiQuotaTree=true,EnableQuotaAdmission=true,AllAlpha=false",
    )
    assert gate_texts("") == ("", "")


def test_what_nobody_has_is_refused_by_name() -> None:
    with pytest.raises(KoordError, match="a known gate, such as MultiQuotaTree"):
        gate_texts("MultiQuotaTrees=true")
    with pytest.raises(KoordError, match="NAME=true or NAME=false"):
        gate_texts("MultiQuotaTree=maybe")


def test_without_their_gate_there_are_no_webhooks() -> None:
    assert has_webhooks(GateTexts("", ""))
    assert has_webhooks(gate_texts("PodMutatingWebhook=false"))
    assert not has_webhooks(gate_texts("MultiQuotaTree=true,WebhookFramework=false"))


def test_scheduler_and_admission_run_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock(1_700_000_000.0)
    seen = []
    made = App.__init__

    def remembered(self: App, *arguments: object, **named: object) -> None:
        seen.append(arguments[4])
        made(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(App, "__init__", remembered)

    async def story() -> list[str]:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            gates = {
                "scheduler_gates": "ResizePod=true",
                "manager_gates": "PodMutatingWebhook=false",
            }
            cluster = UpCluster(plane, NodePools([]), clock, 1, **gates)
            names = ("scheduler", "webhooks")
            await installation.install(cluster, names)
            client = cluster.client("test")
            parts = [COMPONENTS[name].make(cluster) for name in names]
            running = [asyncio.ensure_future(part.run()) for part in parts]
            for part in parts:
                assert part.ready is not None
                await part.ready()
            document = await client.get(MUTATING, MUTATING_NAME)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            return [each["name"] for each in document["webhooks"]]

    entries = run_virtual(story(), clock)
    assert [gates.enabled("ResizePod") for gates in seen] == [True]
    assert entries
    assert not [name for name in entries if name.startswith("mpod")]
