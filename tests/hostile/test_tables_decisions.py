# SPDX-License-Identifier: Apache-2.0
"""What is remembered of writes and decisions goes with what they were about, or is bounded.

Rule: docs/limits.md and docs/limits-server.md.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np

from koord.api.codec import convert
from koord.api.kinds.service import Service
from koord.base.clock import VirtualClock
from koord.controllers.descheduler.migration.course import surges
from koord.controllers.descheduler.migration.course.object_limiter import ObjectLimiter
from koord.controllers.descheduler.migration.course.surges import Surges
from koord.controllers.descheduler.migration.migration_args import (
    MigrationControllerArgs,
    ObjectLimiterArgs,
)
from koord.controllers.descheduler.predicates import fit_columns
from koord.controllers.descheduler.predicates.fit_columns import NodeFitColumns
from koord.controllers.scheduler.cache.local_views import LocalView
from koord.controllers.scheduler.cycles.failure_writer import FailureWriter, SchedulingFailure
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.default_selector import (
    DefaultSelectors,
)
from koord.controlplane.authorization import rbac
from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.identity import Identity
from koord.controlplane.authorization.rbac import Authorizer
from tests.controllers.scheduler.pods import node, pod
from tests.controlplane.authorization.test_rbac import Objects
from tests.hostile.growth import churn
from tests.kube.harness import run_virtual


def test_services_by_namespace() -> None:
    views: dict[type, LocalView[Any]] = {}
    handle: Any = SimpleNamespace(
        table=SimpleNamespace(advance_generation=lambda: None),
        view=lambda kind: views.setdefault(kind, LocalView()),
    )
    known = DefaultSelectors(handle)

    def step(number: int) -> None:
        meta = {"name": f"s-{number}", "namespace": f"namespace-{number}"}
        spec = {"selector": {"app": f"a-{number}"}}
        service = convert({"metadata": meta, "spec": spec}, Service, "a Service")
        views[Service].put(service)
        assert known.services
        views[Service].remove(f"namespace-{number}/s-{number}")
        assert not known.services

    churn(step, known, steps=5_000)


def test_conditions_to_be_written() -> None:
    class Server:
        async def patch(self, *words: Any, **more: Any) -> None:
            await asyncio.sleep(0)

    async def story() -> None:
        server: Any = Server()
        writer = FailureWriter(server, VirtualClock(0.0), workers=4, fair=True)
        for number in range(3_000):
            one = pod(f"p-{number}", namespace=f"namespace-{number}")
            for message in ("no", "never"):
                writer.report(SchedulingFailure(one, "Unschedulable", f"{message} {number}"))
            if number % 2:
                await asyncio.sleep(0)
            writer.forget(one.metadata.uid)
            if number % 100 == 99:
                await asyncio.sleep(1.0)
                assert not writer._waiting
                assert not writer._last_written
                assert not writer._uid_queue._flows
        await writer.close()

    run_virtual(story())


def test_evictions_by_workload_and_namespace() -> None:
    limit = ObjectLimiterArgs(max_migrating=1)
    limiters = {"workload": limit, "namespace": limit}
    workloads: Any = SimpleNamespace(of=lambda pod: SimpleNamespace(replicas=3))
    limiter = ObjectLimiter(MigrationControllerArgs(object_limiters=limiters), workloads)
    longest = 1.5 * limit.duration.nanoseconds / 1e9
    for number in range(5_000):
        owner = {"uid": f"owner-{number}", "name": "w", "kind": "ReplicaSet", "controller": True}
        moved = pod(f"p-{number}", namespace=f"namespace-{number}", owners=[owner])
        limiter.evicted([moved], 60.0 * number, f"group-{number}")
        assert len(limiter._buckets) <= 2 * (longest / 60 + 2)
        assert len(limiter._charged) <= 62


def test_surges_that_were_refused() -> None:
    workloads: Any = None
    refused = Surges(workloads, VirtualClock(0.0))
    for number in range(surges._MOST_REFUSALS + 500):
        refused._refuse(f"uid-{number}", "an autoscaler has it")
        assert len(refused._refused) <= surges._MOST_REFUSALS


def test_verdicts_about_what_anybody_thinks_of() -> None:
    authorizer = Authorizer(Objects([]))
    somebody = Identity("somebody", ())
    for number in range(rbac._VERDICTS_KEPT + 500):
        asked = AccessRequest(verb="get", group="g", resource=f"kind-{number}", namespace="a")
        assert not authorizer.verdict(somebody, asked).allowed
        kept = len(authorizer._bindings.verdicts)
        assert kept <= rbac._VERDICTS_KEPT
    long = AccessRequest(verb="get", group="g", resource="x" * rbac._LONGEST_KEPT, namespace="a")
    authorizer.verdict(somebody, long)
    assert len(authorizer._bindings.verdicts) == kept


def test_resources_that_pods_of_a_round_request() -> None:
    one = node("n", cpu="4")
    fit: Any = SimpleNamespace(
        requested=lambda pod: {pod.metadata.name: 1}, free=lambda node: {"example.com/p-7": 1}
    )
    columns = NodeFitColumns([one], fit)
    for number in range(1_000):
        asked = pod(f"example.com/p-{number}")
        found = columns.first(asked, np.ones(1, bool))
        assert found == (0 if number == 7 else None)
        assert len(columns._left) <= fit_columns._MOST_COLUMNS
