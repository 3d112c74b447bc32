# SPDX-License-Identifier: Apache-2.0
"""What a scheduler asks the API server to tell it of."""

from __future__ import annotations

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import SystemClock
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.kube.client import Client
from tests.kube.harness import FakeTransport


def test_leases_are_not_watched() -> None:
    # A kubelet renews its node's every ten seconds: of a million nodes that is 100,000 a second.
    registry = Registry(outside=[])
    app = App(
        Client(FakeTransport([]), requests_per_second=None),
        shipped(registry, "koord-scheduler"),
        SystemClock(),
        registry=registry,
    )
    kinds = app.views.kinds()
    assert {Node, Pod} <= set(kinds)
    assert all(kind.__name__ != "Lease" for kind in kinds)
