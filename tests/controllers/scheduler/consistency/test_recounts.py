# SPDX-License-Identifier: Apache-2.0
"""Accounts that are made wrong, and events that get lost, are found and told of by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from koord.api.kinds.pod import Pod
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.consistency import checker
from koord.controllers.scheduler.plugins.elasticquota.state import recount
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.kernels.cpuset import CPUSet
from koord.kube.patches import Patch
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.documents import kind

DIFFERS = "the cache differs from the API"


async def busy(made: History) -> None:
    """Nodes, pods that have CPUs, cards and quotas, and one that sits in a reservation."""
    await made.set_quota("company", 10)
    await made.set_quota("team-a", 6)
    for gpus in (True, False):
        await made.add_node(gpus)
    await made.add_reservation(2, "Aligned", False)
    await made.settle()
    for form, owner in (("bound", ""), ("share", ""), ("plain", "r")):
        await made.add_pod(form, 2, "team-a", owner)
    await made.settle()


def plugin(made: History, name: str) -> Any:
    return next(each for each in made.app.scheduler.plugins if each.name == name)


def with_plugin(made: History, name: str) -> PodInfo:
    """A pod that has something from a plugin."""
    pods = made.app.world.accounts.pods().values()
    return next(pod for pod in pods if pod.allocations.get(name))


# Each makes one account wrong, and right again; it says whose.


@contextmanager
def forgotten_cpus(made: History) -> Iterator[str]:
    pod = with_plugin(made, "NodeNUMAResource")
    state = plugin(made, "NodeNUMAResource").cache.state(pod.row)
    held = state.pods[pod.uid]
    state.release(pod.uid)
    yield made.app.world.table.name(pod.row)
    state.add(pod.uid, held)


@contextmanager
def cpus_of_nobody(made: History) -> Iterator[str]:
    state = plugin(made, "NodeNUMAResource").cache.state(0)
    state.cpus.add("nobody", CPUSet.parse("7"), "")
    yield made.app.world.table.name(0)
    state.cpus.release("nobody")


@contextmanager
def a_card_of_nobody(made: History) -> Iterator[str]:
    cache = plugin(made, "DeviceShare").cache
    table = cache.tables["gpu"]
    row = next(row for row, node in enumerate(cache.nodes) if node.inventory is not None)
    table.charge(row, 1, {"koordinator.sh/gpu-core": 5})
    yield cache.nodes[row].name
    table.discharge(row, 1, {"koordinator.sh/gpu-core": 5})


@contextmanager
def a_forgotten_card(made: History) -> Iterator[str]:
    pod, cache = with_plugin(made, "DeviceShare"), plugin(made, "DeviceShare").cache
    cache.drop(pod.row, pod.uid)
    yield made.app.world.table.name(pod.row)
    cache.add(pod.row, pod.uid, pod.key, pod.allocations["DeviceShare"])


@contextmanager
def too_much_given_away(made: History) -> Iterator[str]:
    ledger = plugin(made, "Reservation").book.ledger
    record = next(each for each in ledger.records.values() if each.owners)
    record.used["cpu"] += 1000
    yield made.app.world.table.name(record.row)
    record.used["cpu"] -= 1000


@contextmanager
def an_owner_too_few(made: History) -> Iterator[str]:
    ledger = plugin(made, "Reservation").book.ledger
    record = next(each for each in ledger.records.values() if each.owners)
    uid, owner = record.owners.popitem()
    yield made.app.world.table.name(record.row)
    record.owners[uid] = owner


@contextmanager
def used_by_nobody(made: History) -> Iterator[str]:
    tree = plugin(made, "ElasticQuota").groups.tree("")
    tree.add_used("team-a", {"cpu": 500})
    yield "team-a"
    tree.add_used("team-a", {"cpu": -500})


@contextmanager
def an_unlisted_pod(made: History) -> Iterator[str]:
    ledger, pod = plugin(made, "ElasticQuota").ledger, with_plugin(made, "DeviceShare")
    ledger.unlist(pod.uid)
    yield "team-a"
    ledger.list_pod(pod)


@contextmanager
def unwritten_cpus(made: History) -> Iterator[str]:
    """Pod and ledger agree, and the annotation says something else."""
    pod, ledger = with_plugin(made, "NodeNUMAResource"), plugin(made, "NodeNUMAResource").cache
    held = pod.allocations["NodeNUMAResource"]
    for other in (NUMAAllocation(CPUSet.parse("6-7") - held.cpus or CPUSet.parse("0-1")), held):
        ledger.removed(pod.row, pod)
        pod.allocations["NodeNUMAResource"] = other
        ledger.added(pod.row, pod)
        if other is not held:
            yield pod.key


WRONG = (
    ("cpus", forgotten_cpus),
    ("cpus", cpus_of_nobody),
    ("devices", a_card_of_nobody),
    ("devices", a_forgotten_card),
    ("reservations", too_much_given_away),
    ("reservations", an_owner_too_few),
    ("quotas", used_by_nobody),
    ("quotas", an_unlisted_pod),
    ("allocation", unwritten_cpus),
)


def test_an_account_that_is_wrong_is_found_under_its_name() -> None:
    async def run(made: History) -> None:
        await busy(made)
        for account, wrong in WRONG:
            with wrong(made) as name:
                found = checker.drift(made.app.scheduler)
                assert found.pop(account) == [name], wrong.__name__
                assert not any(found.values()), (wrong.__name__, found)
            assert not any(checker.drift(made.app.scheduler).values()), wrong.__name__

    live(run)


def test_what_stays_wrong_is_counted() -> None:
    async def run(made: History) -> None:
        await busy(made)
        with used_by_nobody(made):
            await asyncio.sleep(3 * checker.ROUND_SECONDS)
            assert gauge(made, "quotas") == 1.0
            assert gauge(made, "devices") == 0.0
        await asyncio.sleep(3 * checker.ROUND_SECONDS)
        assert gauge(made, "quotas") == 0.0

    live(run, DIFFERS)


def test_nothing_differs_while_pods_come_and_go_between_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every account is counted a step at a time, with something happening before each."""
    monkeypatch.setattr(checker, "STEPS", 1)
    monkeypatch.setattr(recount, "_SLICE", 1)

    async def run(made: History) -> None:
        await busy(made)
        for number in range(6):
            await made.add_pod("plain", 1, ("team-a", "")[number % 2])
        now, turn, left = checker.CheckRound(made.app.scheduler), 0, True
        while left:
            left = now.tick()
            turn += 1
            if turn % 3 == 0:
                form = ("plain", "share", "bound")[turn % 9 // 3]
                await made.add_pod(form, 1, ("team-a", "")[turn % 2])
            elif turn % 3 == 1:
                await made.delete("Pod", turn)
            elif turn % 10 == 5:
                # Its pods are charged to the default quota, and come back.
                await made.delete("ElasticQuota", 1)
                await asyncio.sleep(0.3)
                await made.set_quota("team-a", 6)
            await asyncio.sleep(0.3)
        assert turn > 20
        assert not any(now.differences.values()), now.differences

    live(run)


def gauge(made: History, account: str) -> float:
    wanted = f'koord_scheduler_cache_drift{{kind="{account}"}} '
    lines = made.app.metrics.registry.expose().decode().splitlines()
    return next((float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), -1)


async def _created(made: History) -> None:
    await made.add_pod("plain", 1)


async def _changed(made: History) -> None:
    change = Patch.merge({"metadata": {"labels": {"colour": "red"}}})
    await made.client.patch(kind("Pod"), "pod-001", change, "default")


async def _gone(made: History) -> None:
    await made.client.delete(kind("Pod"), "pod-001", "default", grace_period_seconds=0)


@pytest.mark.parametrize(
    ("happens", "name"),
    [(_created, "pod-004"), (_changed, "pod-001"), (_gone, "pod-001")],
)
def test_a_lost_event_is_found(happens: Callable[[History], Awaitable[None]], name: str) -> None:
    async def run(made: History) -> None:
        await busy(made)
        await asyncio.sleep(400.0)
        assert gauge(made, "api") == 0.0
        made.app.spot_check.period_seconds = 1.0
        made.weather.swallows = lambda line: b'"kind":"Pod"' in line
        await happens(made)
        await asyncio.sleep(1.0)
        made.weather.swallows = lambda line: False
        # With a later event of its kind the watch is past the lost one for good.
        await made.add_pod("plain", 1)
        await asyncio.sleep(600.0)
        assert gauge(made, "api") == 1.0
        found = await made.app.drift()
        assert found.pop("api") == [f"Pod default/{name}"]
        assert not any(found.values())

    live(run, DIFFERS)


def test_what_is_on_its_way_is_no_difference() -> None:
    async def run(made: History) -> None:
        await busy(made)
        made.storm("late", 7)
        pods = next(each for each in made.app.views.followed() if each.kind is Pod)
        check = asyncio.create_task(made.app.spot_check.check(pods))
        for _ in range(5):
            await made.add_pod("plain", 1)
            await made.delete("Pod", 1)
        await check
        assert not made.app.spot_check.differing()

    live(run)
