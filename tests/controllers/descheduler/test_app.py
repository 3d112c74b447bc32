# SPDX-License-Identifier: Apache-2.0
"""The descheduler on a cluster: rounds, events, limits, the lead, dry runs, plugins that fail."""

from __future__ import annotations

import asyncio
import logging

import pytest

from koord.api.kinds.cluster import Lease
from koord.api.kinds.node import Node
from koord.api.protocol import keys
from koord.controllers.descheduler.app import NAME, supervise
from koord.controllers.descheduler.metrics import DeschedulerMetrics
from koord.kube.election import LeadLostError
from koord.kube.patches import Patch
from tests.controllers.descheduler.program_scene import (
    SYSTEM,
    ProgramScene,
    Watchful,
    configuration,
    perform,
)
from tests.kube.harness import logged
from tests.striking import Striking, loops_in_turn, unsupervised


def test_a_round_evicts_says_so_and_is_remembered() -> None:
    async def script(scene: ProgramScene) -> None:
        for name in ("a", "b", "c"):
            await scene.add_pod(name)
        await scene.add_pod("stays", metadata={"labels": {}})
        wish = configuration("MarkedPods", maxNoOfPodsToEvictPerNode=2)
        async with scene.running(wish) as app:
            await asyncio.sleep(5)
            assert await scene.pods() == ["c", "stays"]
            assert await scene.events() == [
                ("Node", "n1", "Descheduled"), ("Pod", "a", "Descheduled"),
                ("Pod", "b", "Descheduled"),
            ]  # fmt: skip
            (first,) = app.history.newest_first()
            assert first.counts == {"evicted": 2, "refused": 1}
            assert first.outcomes[2].message.startswith("2 pods of node n1 were evicted")
            exposed = app.metrics.registry.expose().decode()
            series = 'result="{}",strategy="MarkedPods",namespace="default",node="n1"'
            for result, count in (("success", "2.0"), ("limited", "1.0")):
                labels = ",".join(sorted(series.format(result).split(",")))
                assert f"descheduler_pods_evicted{{{labels}}} {count}" in exposed
            await asyncio.sleep(10)
            assert await scene.pods() == ["stays"]
            # Rounds in which nothing happens are one entry.
            await asyncio.sleep(100)
            quiet, second, _ = app.history.newest_first()
            assert (quiet.outcomes, second.counts) == ([], {"evicted": 1})
            assert quiet.rounds == 10
            assert app.history.rounds == 12

    perform(script)


def test_a_node_offers_what_its_reservation_leaves() -> None:
    async def script(scene: ProgramScene) -> None:
        requests = {"resources": {"requests": {"cpu": "2500m"}}}
        for name in ("a", "b"):
            containers = [{"name": "c", "image": "i", **requests}]
            await scene.add_pod(name, containers=containers)
        # The server has marked the new node as one that is not ready yet.
        await scene.client.patch(Node, "n2", Patch.merge({"spec": {"taints": None}}))
        async with scene.running(configuration("EvictPodsOnReservedResources")) as app:
            await asyncio.sleep(1000)
            assert await scene.pods() == ["a", "b"]
            # 8 CPUs less 4 are less than the 5 that the pods request.
            reservation = {keys.NODE_RESERVATION: '{"resources": {"cpu": "4"}}'}
            patch = Patch.merge({"metadata": {"annotations": reservation}})
            await scene.client.patch(Node, "n1", patch)
            await asyncio.sleep(1000)
            assert len(await scene.pods()) == 1
            assert {"evicted": 1} in [each.counts for each in app.history.newest_first()]

    perform(script)


def test_what_is_told_of_a_pod_and_of_a_node() -> None:
    async def script(scene: ProgramScene) -> None:
        await scene.add_pod("goes")
        await scene.add_pod("bare", metadata={"ownerReferences": []})
        async with scene.running(configuration("MarkedPods")) as app:
            await asyncio.sleep(5)
            gone = app.explainer.pod("default", "goes")
            assert (gone.exists, gone.counts) == (False, {"evicted": 1})
            assert gone.outcomes[0].reason == "it is marked"
            kept = app.explainer.pod("default", "bare")
            assert (kept.exists, kept.node, kept.outcomes) == (True, "n1", [])
            assert [each.refusal for each in kept.verdicts] == [
                "DefaultEvictor: it has no owner that would make it again"
            ]
            node = app.explainer.node("n1")
            assert [each.pod for each in node.outcomes] == ["default/goes"]
            assert [each.refusal for each in app.explainer.node("n2").verdicts] == [""]

    perform(script)


def test_a_dry_run_judges_and_writes_nothing() -> None:
    async def script(scene: ProgramScene) -> None:
        for name in ("a", "b"):
            await scene.add_pod(name)
        async with scene.running(configuration("MarkedPods", dryRun=True), dry_run=True) as app:
            await asyncio.sleep(3600)
            assert next(app.history.newest_first()).counts == {"evicted": 2}
        assert set(scene.sent[""]) == {"GET"}
        assert await scene.pods() == ["a", "b"]
        assert await scene.events() == []

    with logged("koord.descheduler", logging.INFO) as told:
        perform(script)
    assert any("would evict a pod" in record.message for record in told)


def test_of_two_the_leader_acts_and_the_other_takes_over() -> None:
    async def script(scene: ProgramScene) -> None:
        wish = configuration("MarkedPods", "Watchful")
        Watchful.begun = 0
        apps = [scene.app(wish, name) for name in ("one", "two")]
        tasks = [asyncio.create_task(app.run()) for app, _ in apps]
        for app, _ in apps:
            await app.ready()
        await asyncio.sleep(5)
        leading = [app.leading for app, _ in apps]
        assert sorted(leading) == [False, True]
        assert Watchful.begun == Watchful.running == 1
        first, name = leading.index(True), ("one", "two")[leading.index(True)]
        # Somebody else writes the Lease: the leader must stop at once, and says why it ends.
        stolen = {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 1}}
        await scene.client.patch(Lease, NAME, Patch.merge(stolen), SYSTEM)
        with pytest.raises(ExceptionGroup) as ended:
            await tasks[first]
        assert ended.value.subgroup(LeadLostError) is not None
        written = scene.sent[name]["POST"]
        await scene.add_pod("late")
        await asyncio.sleep(60)
        assert await scene.pods() == []
        assert scene.sent[name]["POST"] == written
        assert apps[1 - first][0].leading
        assert (Watchful.begun, Watchful.running) == (2, 1)
        tasks[1 - first].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    perform(script)


def test_a_restart_goes_on_from_the_cluster_alone() -> None:
    async def script(scene: ProgramScene) -> None:
        wish = configuration("MarkedPods", maxNoOfPodsToEvictTotal=1)
        for name in ("a", "b", "c"):
            await scene.add_pod(name)
        for left in (["b", "c"], ["c"], []):
            async with scene.running(wish, name=f"life {len(left)}"):
                await asyncio.sleep(5)
                assert await scene.pods() == left

    perform(script)


def test_a_plugin_that_raises_spoils_its_own_turn_only() -> None:
    async def script(scene: ProgramScene) -> None:
        await scene.add_pod("a")
        async with scene.running(configuration("Spoiled", "MarkedPods")) as app:
            await asyncio.sleep(5)
            assert await scene.pods() == []
            (past,) = app.history.newest_first()
            assert past.errors == ["koord-descheduler/Spoiled: ZeroDivisionError: of the test"]
            parts = {part["name"]: part for part in app.supervisor.status()}
            assert parts["koord-descheduler/Spoiled"]["failures"] == 1
            assert parts["koord-descheduler/MarkedPods"]["error"] == ""
            exposed = app.metrics.registry.expose().decode()
            assert 'koord_descheduler_rounds_total{result="error"} 1.0' in exposed
            await asyncio.sleep(20)
            assert parts["round"]["failures"] == 0

    perform(script)


def test_rounds_rest_while_a_pod_has_nowhere_to_go(caplog: pytest.LogCaptureFixture) -> None:
    """No failure, told of once; the next round with two nodes works."""
    caplog.set_level("INFO")

    async def script(scene: ProgramScene) -> None:
        ready = [{"type": "Ready", "status": "False"}]
        from koord.api.kinds.node import Node

        await scene.client.patch(
            Node, "n2", Patch.merge({"status": {"conditions": ready}}), subresource="status"
        )
        await scene.add_pod("a")
        async with scene.running(configuration("MarkedPods")) as app:
            await asyncio.sleep(25)
            (past,) = app.history.newest_first()
            assert (past.rounds, past.errors) == (3, [])
            assert past.idle == (
                "nothing to do with 1: it takes 2 ready nodes or more that nodeSelector matches"
            )
            assert app.explainer.node("n2").idle == past.idle
            exposed = app.metrics.registry.expose().decode()
            assert 'koord_descheduler_rounds_total{result="idle"} 3.0' in exposed
            told = [record for record in caplog.records if record.getMessage() == "rounds rest"]
            assert [record.levelname for record in told] == ["INFO"]
            assert app.explainer.node("n2").verdicts[0].refusal == "it is not ready"
            ready[0]["status"] = "True"
            await scene.client.patch(
                Node, "n2", Patch.merge({"status": {"conditions": ready}}), subresource="status"
            )
            await asyncio.sleep(10)
            assert await scene.pods() == []

    perform(script)


def test_without_an_interval_there_is_one_round_unless_a_plugin_is_a_controller() -> None:
    async def script(scene: ProgramScene) -> None:
        await scene.add_pod("a")
        app, _ = scene.app(configuration("MarkedPods", deschedulingInterval="0s"))
        await asyncio.wait_for(app.run(), 60)
        assert app.history.rounds == 1
        assert await scene.pods() == []
        app, _ = scene.app(configuration("Watchful", deschedulingInterval="0s"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(app.run(), 600)
        assert app.history.rounds == 1

    perform(script)


def test_each_loop_fails_alone() -> None:
    async def script(scene: ProgramScene) -> None:
        metrics = DeschedulerMetrics()
        supervisor = Striking("descheduler", metrics.registry, scene.clock)
        wish = configuration("MarkedPods", "Watchful", deschedulingInterval="1s")
        app, recorder = scene.app(wish, supervisor=supervisor, metrics=metrics)
        running = asyncio.create_task(app.run())
        before = asyncio.all_tasks()
        events = supervisor.start("events", recorder.run)
        await app.ready()
        await asyncio.sleep(5)
        assert unsupervised(supervisor, before) == []
        made = 0

        async def works() -> None:
            nonlocal made
            made += 1
            await scene.add_pod(f"p{made}")
            await asyncio.sleep(5)
            assert await scene.pods() == []

        names = await loops_in_turn(supervisor, works)
        assert {
            "events", "informers", "informer of Node", "informer of Pod", "rounds",
            "koord-descheduler/Watchful controller",
        } <= set(names)  # fmt: skip
        for task in (running, events):
            task.cancel()
        await asyncio.gather(running, events, return_exceptions=True)

    perform(script)


def test_its_supervisor_counts_under_its_name() -> None:
    metrics = DeschedulerMetrics()
    supervise(metrics, Striking("x")._clock).failed("rounds", ValueError("x"))
    text = metrics.registry.expose().decode()
    assert 'koord_descheduler_failures_total{part="rounds"} 1.0' in text
