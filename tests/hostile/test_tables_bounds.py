# SPDX-License-Identifier: Apache-2.0
"""Tables with a fixed bound: filled past it by words that tenants choose, and looked at each time.

Rule: docs/limits.md; that the bounds are those of the page is test_limits_pages'.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from koord.api.kinds.cluster import Namespace
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.quota import ElasticQuota
from koord.base.clock import VirtualClock
from koord.base.turn_queue import TurnQueue
from koord.controllers.descheduler.planning.rest_periods import REST_SECONDS, RestPeriods
from koord.controllers.descheduler.plugins.starvedpods.cooldown import Cooldown
from koord.controllers.descheduler.predicates import fit_columns
from koord.controllers.descheduler.predicates.fit_columns import NodeFitColumns
from koord.controllers.scheduler.plugins.loadaware import workload_histograms
from koord.controllers.scheduler.plugins.loadaware.workload_histograms import WorkloadHistograms
from koord.controllers.scheduler.preemption.dry_run_cache import DryRunCache
from koord.controllers.scheduler.queue.fair_pods import FairPods
from koord.controllers.webhook.profiles import object_lookup
from koord.controllers.webhook.profiles.object_lookup import ObjectLookup
from koord.controllers.webhook.quota_admission import written_quotas
from koord.controllers.webhook.quota_admission.written_quotas import WrittenQuotas
from koord.kube.errors import ApiError, Status
from tests.controllers.scheduler.pods import node, pod, table
from tests.hostile.growth import churn
from tests.kube.harness import run_virtual


def test_workloads_whose_use_is_remembered() -> None:
    most = workload_histograms._MOST_WORKLOADS
    remembered = WorkloadHistograms()
    for number in range(most + 500):
        remembered.add(("default", "ReplicaSet", f"rs-{number}"), 100, 1 << 20, float(number))
        assert len(remembered._by_workload) == min(number + 1, most)


def test_shapes_of_dry_runs() -> None:
    budgets: Any = SimpleNamespace(changed=set(), version=0)
    cache = DryRunCache(table(node("n")), budgets)
    for number in range(1_000):
        cache.shelf(f"shape-{number}", ())
        assert len(cache._shelves) == min(number + 1, 64)


def test_namespaces_that_take_turns() -> None:
    queue: TurnQueue[int] = TurnQueue()
    pods = FairPods()

    def step(number: int) -> None:
        queue.push(f"namespace-{number}", number)
        assert queue.pop() == number
        info = SimpleNamespace(key=f"namespace-{number}/p", priority=number)
        queued: Any = SimpleNamespace(info=info, arrival=number)
        pods.push((0,), queued)
        pods.remove(queued)

    churn(step, pods, steps=20_000)
    assert len(queue._flows) == 0
    assert pods.kept == 0


def test_quotas_as_they_were_written() -> None:
    view: Any = SimpleNamespace(get=lambda key: None)
    client: Any = None
    written = WrittenQuotas(client, view)
    for number in range(1_000):
        written.keep(f"default/q{number}", ElasticQuota(metadata=ObjectMeta(name=f"q{number}")))
        assert len(written._kept) == min(number + 1, written_quotas.MOST_KEPT)


def test_names_that_are_looked_up_in_vain() -> None:
    class Missing:
        async def get(self, kind: type, name: str) -> None:
            raise ApiError(Status(code=404))

    clock = VirtualClock(0.0)
    views = SimpleNamespace(view=lambda kind: SimpleNamespace(get=lambda name: None))
    given: Any = SimpleNamespace(views=views, client=Missing(), clock=clock)
    lookup = ObjectLookup(given, Namespace)

    async def story() -> None:
        for number in range(1_000):
            assert await lookup.get(f"namespace-{number}") is None
            assert len(lookup._missed) <= object_lookup.MAX_LOOKUPS
        clock.advance(object_lookup.LOOKUP_SECONDS + 1)
        await lookup.get("another")
        assert list(lookup._missed) == ["another"]

    run_virtual(story())


def test_moves_of_pods_are_forgotten_after_their_time() -> None:
    rests, cooldown = RestPeriods(), Cooldown(600.0)
    for number in range(3_000):
        now = 60.0 * number
        moved = pod(f"p{number}", owners=[{"uid": f"owner-{number}", "controller": True}])
        rests.begin(moved, "n", now)
        cooldown.note(moved, now)
        cooldown.forget(now)
        assert len(rests._until) <= REST_SECONDS / 60
        assert len(cooldown) <= 10


def test_constraints_that_nodes_have_answered() -> None:
    one = node("n")
    fit: Any = SimpleNamespace(requested=lambda pod: {}, free=lambda node: {})
    columns = NodeFitColumns([one], fit)
    for number in range(1_000):
        columns._answers_of(pod(f"p{number}", nodeSelector={f"key-{number}": "x"}))
        assert len(columns._answers) <= fit_columns._MOST_KEPT
