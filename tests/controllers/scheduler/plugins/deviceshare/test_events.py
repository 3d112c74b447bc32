# SPDX-License-Identifier: Apache-2.0
"""Which events let pods that wait for devices be tried again."""

from __future__ import annotations

from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, gpu


def test_pods_that_go_wake_others_only_if_they_may_have_held_devices() -> None:
    cluster = Cluster()
    row = cluster.add("a", gpu(0))
    waiting = cluster.pod(gpu=100)
    (hinted, _) = cluster.plugin.events()
    assert hinted.hint is not None
    placed, plain = cluster.pod(gpu=50), cluster.pod(cpu="1")
    cluster.place(placed)
    cluster.hold("a", row, plain)
    assert hinted.hint(waiting, placed, None)
    assert not hinted.hint(waiting, plain, None)
    # What reserve chose was given back already: what it asked for still says so.
    placed.allocations.clear()
    assert hinted.hint(waiting, placed, None)
