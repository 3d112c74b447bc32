# SPDX-License-Identifier: Apache-2.0
"""What large objects took is given back when they are gone, and not only when the collector comes.

Programs that hold much let the collector look seldom (``koord.base.memory.garbage_collection``);
what lies in a circle until then is as good as kept. Rules: docs/limits.md, docs/limits-server.md.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from koord.api.kinds.pod import Container, ContainerPort, Pod
from koord.controllers.cluster.bounded_table import TieredTable
from koord.controllers.cluster.pods import PodShape, Shapes
from koord.controllers.manager.overcommit.objects.pod_term_cache import PodTermCache
from koord.controlplane.storage.collection import HistoryLimits
from koord.controlplane.storage.store import Store
from koord.kube.transport.messages import JSON
from tests.contract.api import Api, at
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.pods import pod
from tests.hostile.places import running_place
from tests.hostile.served import PODS, STRATEGIC_PATCH, Document, Target, attack, encoded
from tests.hostile.test_neighbours import BOTH, GROWTH_BYTES

MIB = 1 << 20
# Without a server's history that is to be full, fewer are enough.
PODS_A_SPAN = {"embedded": 20, "real": 6}


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def greedy(name: str, names: int) -> Document:
    amounts = {f"example.com/{name}-{number}": "1" for number in range(names)}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"schedulerName": "koord-scheduler", "containers": [container]}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.usefixtures("no_collector")
def test_shapes_of_pods_that_went_are_freed_at_once() -> None:
    kept = 4

    async def story(history: History) -> None:
        await history.add_node(False)
        for table in vars(history.app.world.shapes).values():
            if isinstance(table, TieredTable):
                table.usual._most = table.large._most = kept
        before = shapes()
        for number in range(40):
            name = f"greedy-{number}"
            await history.client.create(greedy(name, 20))
            await asyncio.sleep(2.0)
            await history._delete("Pod", name, "default")
            await asyncio.sleep(2.0)
        # Those that are remembered, in each of several tables, and those of the last pods.
        assert shapes() - before <= 4 * kept

    live(story)


def shapes() -> int:
    return sum(type(each) is PodShape for each in gc.get_objects())


def traced_bytes(remember: Callable[[Pod], object], made: Callable[[int], Pod], count: int) -> int:
    """The memory of all that is remembered of so many pods that are gone."""
    remember(made(0))
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, count):
            for _ in range(3):  # As it comes with each change of its status.
                remember(made(number))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def many_names(number: int) -> Pod:
    return pod(f"p{number}", requests={f"example.com/{number}-{i}": "1" for i in range(2000)})


def many_ports(number: int) -> Pod:
    ports = [ContainerPort(container_port=i + 300, host_port=i + 300) for i in range(2000)]
    return pod(f"p{number}", containers=[Container(name=f"c{number}", ports=ports)])


def own_labels(number: int) -> Pod:
    labels = {f"key-{number}-{i}": f"value-{number}-{i}" for i in range(10)}
    return pod(f"p{number}", labels=labels, requests={"cpu": f"{number + 1}m"})


@pytest.mark.parametrize(("made", "count"), [(many_names, 12), (many_ports, 20), (own_labels, 400)])
def test_all_that_is_remembered_of_gone_pods_takes_what_it_may(
    made: Callable[[int], Pod], count: int
) -> None:
    """Together and as memory, whatever the pods have many of: four tables know each of them."""
    size = 3 * MIB
    assert traced_bytes(Shapes(size=size).of, made, count) <= size + size // 3


@pytest.mark.parametrize(("made", "count"), [(many_names, 12), (many_ports, 20), (own_labels, 400)])
def test_rows_of_gone_pods_take_what_they_may(made: Callable[[int], Pod], count: int) -> None:
    assert traced_bytes(PodTermCache(size=MIB).of, made, count) <= 1.1 * MIB


def test_large_pods_push_out_no_usual_ones() -> None:
    shapes = Shapes(size=6 * MIB)
    usual = [shapes.of(own_labels(number)) for number in range(50)]
    for number in range(20):
        shapes.of(many_names(number))
    assert [shapes.of(own_labels(number)) for number in range(50)] == usual


def config_map(number: int, size: int) -> Document:
    metadata = {"namespace": "default", "name": f"c{number}", "uid": f"u{number}"}
    data = {"a": "x" * size}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_events_of_large_objects_are_not_kept_as_texts_of_their_own() -> None:
    store = Store()
    for number in range(40):
        store.put("pods", config_map(number, MIB // 2), ())
        collection = store.collection("pods")
        assert json.loads(collection.event_of(collection.log[-1]))["type"] == "ADDED"
        assert sum(len(change.event) for change in collection.log) <= 5 * MIB


def test_history_of_all_resources_is_bounded_and_the_longest_gives() -> None:
    store = Store(limits=HistoryLimits(change_bytes=MIB, all_bytes=2 * MIB))
    store.put("leases", config_map(0, 10), ())
    for number in range(100):
        for resource in ("pods", "configmaps", "secrets", "events"):
            store.put(resource, config_map(number, 50_000), ())
        total = sum(each.log_bytes for each in store.collections())
        assert total <= 2 * MIB + 4 * 60_000
    assert len(store.collection("leases").log) == 1
    assert store.collection("leases").floor == 0


@pytest.mark.usefixtures("no_collector")
def test_a_refused_request_leaves_nothing_for_the_collector() -> None:
    """As a kubelet's status of a pod of 5,000 containers, which is too large: 100,000 objects."""

    async def test(target: Target) -> None:
        names = [f"c{number}" for number in range(5_000)]
        containers = [{"name": name, "image": "i"} for name in names]
        body = {"metadata": {"name": "a"}, "spec": {"containers": containers}}
        assert (await target.ask("POST", PODS, encoded(body), JSON)).status == 201
        statuses = [{"name": name, "image": "i", "imageID": "x" * 300} for name in names]
        patch = encoded({"status": {"containerStatuses": statuses}})
        gc.collect()
        for _ in range(4):
            answer = await target.ask("PATCH", f"{PODS}/a/status", patch, STRATEGIC_PATCH)
            assert answer.status == 413
        del answer
        assert gc.collect() < 10_000

    attack(test)


@pytest.mark.parametrize("name", BOTH)
def test_pods_that_came_and_went_take_no_more_the_fifth_time(name: str, tmp_path: Path) -> None:
    """What programs remember of gone pods is bounded, and fills up soon.

    In ``koord up`` last of all the server's history, with 64 MiB of pods. On a real control plane
    scheduler and manager each are a process of their own, and looked at alone.
    """
    with running_place(name, tmp_path) as place:
        api, used = place.api("mallory"), [place.resident()]
        for span in range(5):
            for number in range(PODS_A_SPAN[name]):
                greedy_pod_comes_and_goes(api, f"greedy-{span}-{number}")
            place.check()
            used.append(place.resident())
        api.close()
    for program in used[0]:
        sizes = [each[program] for each in used]
        print(f"{program}: memory {[each >> 20 for each in sizes]} MiB")
        first, *_, last = (after - before for before, after in pairwise(sizes))
        assert max(sizes) <= sizes[0] + GROWTH_BYTES
        assert last <= max(first, 16 * MIB) / 2, program


def greedy_pod_comes_and_goes(api: Api, name: str) -> None:
    path = at("pods", "default", name)
    assert api.post(at("pods", "default"), greedy(name, 4000)).code == 201
    while not api.get(path).ok.get("status", {}).get("conditions"):
        time.sleep(0.02)
    assert api.delete(path, {"gracePeriodSeconds": 0}).code == 200


TEXTS: dict[str, Document] = {
    "image": {"spec": {"containers": [{"name": "c", "image": "TEXT"}]}},
    "label": {"metadata": {"labels": {"a": "TEXT"}}},
    "label key": {"metadata": {"labels": {"TEXT": "a"}}},
    "container": {"spec": {"containers": [{"name": "TEXT", "image": "i"}]}},
    "variable": {"spec": {"containers": [{"name": "c", "env": [{"name": "TEXT"}]}]}},
}


@pytest.mark.parametrize("where", TEXTS)
def test_long_texts_of_requests_are_forgotten(where: str) -> None:
    """Refused or not, what was worked out of a text was kept by it, a few thousand of each kind."""
    length, requests = 500_000, 30

    async def test(target: Target) -> None:
        template = encoded({"metadata": {}, **TEXTS[where]}).decode()
        for number in range(-2, requests):
            if number == 0:
                gc.collect()
                tracemalloc.start()
                before = tracemalloc.get_traced_memory()[0]
            text = f"{number}" + "x" * length
            await target.ask("POST", PODS, template.replace("TEXT", text).encode())
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        # The last one of some caches may still be there; without their bound all are.
        assert grown <= requests / 2 * length

    attack(test)
