# SPDX-License-Identifier: Apache-2.0
"""How many gangs there are in which state, as series."""

from __future__ import annotations

from koord.base.metrics import registry
from koord.controllers.scheduler.plugins.coscheduling.metrics import GangMetrics
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl
from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
from tests.controllers.scheduler.plugins.coscheduling.gangs import bound, grouped, member


def test_gangs_and_their_pods_by_state() -> None:
    cache = GangCache(decl.GangDefaults(), lambda: 0.0, lambda uids: None)
    for pod in (
        member("a0", "short"),
        grouped("b0", "undeclared"),
        *(member(f"c{number}", "whole") for number in range(2)),
        *(bound(member(f"d{number}", "runs"), "n1") for number in range(2)),
    ):
        cache.pod_changed(pod)
    cache.reserved("uid-c0")
    series = registry()
    GangMetrics.of(series).update(cache.gangs.values())
    # A second profile's plugin has the same series, which are told once.
    GangMetrics.of(series).update([])
    lines = set(series.expose().decode().splitlines())
    for state, count in (("incomplete", 2), ("waiting", 1), ("placed", 1)):
        assert f'koord_scheduler_gangs{{state="{state}"}} {count}.0' in lines
    for state, count in (("pending", 3), ("waiting", 1), ("bound", 2)):
        assert f'koord_scheduler_gang_pods{{state="{state}"}} {count}.0' in lines
