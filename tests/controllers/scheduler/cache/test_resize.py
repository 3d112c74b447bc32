# SPDX-License-Identifier: Apache-2.0
"""Pods on nodes that are resized in place: what they count as, and whom that wakes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import convert, to_json
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.pods import Shapes
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.scheduler.consistency import checker
from koord.controllers.scheduler.scheduler import Scheduler
from koord.controlplane.controllers.base.objects import POD
from koord.kube.codec.decoder import decoder_of
from koord.kube.codec.interner import Interner
from koord.kube.codec.page_reader import PageReader
from koord.kube.patches import Patch
from koord.kube.requests.options import resolve
from tests.controllers.scheduler.cycles.test_scheduling_loop import points
from tests.controllers.scheduler.pods import node
from tests.controllers.scheduler.test_on_a_cluster import node_of, pod, scheduled
from tests.controllers.scheduler.world import scheduler
from tests.controlplane.scene import Scene
from tests.models.pod_requests import Document, counted_of, scored_of

REFUSED = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = REFUSED | {"reason": "Deferred"}
CPUS = st.sampled_from(["", "0", "1", "2", "4"])


def resources(cpu: str) -> Document:
    return {"requests": {"cpu": cpu} if cpu else {}}


def state(allocated: str, runs: str) -> Document:
    """What a node says of the container ``c``."""
    return {
        "name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0,
        "allocatedResources": resources(allocated)["requests"], "resources": resources(runs),
    }  # fmt: skip


def there(name: str, cpu: str, where: str, *states: Document, **status: Any) -> Document:
    """A pod on a node, as a wire document."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {"nodeName": where, "containers": [{"name": "c", "resources": resources(cpu)}]}
    status = {"phase": "Running", "containerStatuses": list(states), **status}
    return {"metadata": metadata, "spec": spec, "status": status}


@st.composite
def stages(draw: st.DrawFn) -> tuple[str, str, str, str | None, list[Document]]:
    """A pod's name, and what it asks for, has set aside and runs with; and its conditions."""
    name, asks, allocated = draw(st.sampled_from("xyz")), draw(CPUS), draw(CPUS)
    runs = draw(st.none() | CPUS)
    return name, asks, allocated, runs, draw(st.sampled_from([[], [], [REFUSED], [DEFERRED]]))


def document_of(stage: tuple[str, str, str, str | None, list[Document]]) -> Document:
    name, asks, allocated, runs, conditions = stage
    states = [] if runs is None else [state(allocated, runs)]
    where = "a" if name == "x" else "b"
    return there(name, asks, where, *states, conditions=conditions)


def shared(documents: list[Document]) -> list[Pod]:
    """The pods as an informer shares their parts."""
    kind, _ = resolve(Pod)
    page = to_json({"metadata": {"resourceVersion": "1"}, "items": documents})
    return list(decoder_of(kind, TrimmedPod).page(page, PageReader(TrimmedPod, Interner())).items)


def columns(made: Scheduler) -> dict[str, tuple[int, int, int]]:
    """By node requested CPU, and both amounts that scores count."""
    table = made.world.table
    return {
        name: (
            int(table.requested[0, row]), int(table.nonzero[0, row]), int(table.nonzero[1, row])
        )
        for row, name in ((table.row(name), name) for name in "ab")
        if row is not None
    }  # fmt: skip


def modelled(documents: dict[str, Document]) -> dict[str, tuple[int, int, int]]:
    found = {}
    for name in "ab":
        mine = [each for each in documents.values() if each["spec"]["nodeName"] == name]
        scored = [scored_of(each) for each in mine]
        found[name] = (
            sum(counted_of(each).get("cpu", 0) for each in mine),
            sum(each["cpu"] for each in scored), sum(each["memory"] for each in scored),
        )  # fmt: skip
    return found


def told_anew(documents: list[Document], page: bool) -> Scheduler:
    """A scheduler that begins with these pods."""
    made, views, _, _ = scheduler(points(), [node("a"), node("b")])
    pods = shared(documents)
    if page:
        views.view(Pod).put_page(pods)
    else:
        for each in pods:
            views.view(Pod).put(each)
    return made


@given(st.lists(stages(), min_size=1, max_size=10), st.booleans(), st.booleans())
def test_columns_follow_every_resize_as_a_scheduler_that_begins_then_counts(
    history: list[Any], informed: bool, page: bool
) -> None:
    made, views, _, _ = scheduler(points(), [node("a"), node("b")])
    documents: dict[str, Document] = {}
    # Parts are shared between all pods and all states of them, as with an informer, or none are.
    drawn = [document_of(each) for each in history]
    pods = shared(drawn) if informed else [convert(each, Pod, "Pod") for each in drawn]
    for document, each in zip(drawn, pods, strict=True):
        documents[each.metadata.name] = document
        views.view(Pod).put(each)
        assert columns(made) == modelled(documents)
    assert not any(checker.drift(made).values())
    assert columns(told_anew(list(documents.values()), page)) == columns(made)
    for uid in list(made.world.accounts.pods()):
        views.view(Pod).remove(f"default/{uid.removeprefix('uid-')}")
    assert columns(made) == {"a": (0, 0, 0), "b": (0, 0, 0)}


@given(st.lists(stages(), min_size=8, max_size=12), st.booleans())
def test_a_page_counts_each_pod_as_what_it_holds(drawn: list[Any], page: bool) -> None:
    documents = [document_of((f"p{number}", *each[1:])) for number, each in enumerate(drawn)]
    by_name = {each["metadata"]["name"]: each for each in documents}
    assert columns(told_anew(documents, page)) == modelled(by_name)


def test_a_resize_makes_no_shape_and_equal_pods_hold_one_account() -> None:
    plain = [there(f"p{i}", "1", "a", state("1", "1")) for i in range(3)]
    moving = [there(f"m{i}", "1", "a", state("4", "4")) for i in range(3)]
    shapes = Shapes()
    infos = shapes.infos(shared([*plain, *moving, there("new", "1", "a")]))
    assert len({info.shape for info in infos}) == 1
    asked = infos[0].shape.container_requests
    assert all(info.counted is asked for info in (*infos[:3], infos[6]))
    (held,) = {info.counted for info in infos[3:6]}
    assert (held.request, asked.request) == ({"cpu": 4000}, {"cpu": 1000})


def test_a_resize_that_nobody_told_of_is_found() -> None:
    made, views, _, _ = scheduler(points(), [node("a")])
    views.view(Pod).put(convert(there("x", "1", "a"), Pod, "Pod"))
    assert not any(checker.drift(made).values())
    grown = convert(there("x", "1", "a", state("4", "4")), Pod, "Pod")
    views.view(Pod)._objects.put("default/x", grown)
    found = checker.drift(made)
    assert found.pop("requested") == ["a"]
    assert not any(found.values())


def test_a_what_if_takes_off_and_puts_back_what_a_pod_counts_as() -> None:
    made, views, _, _ = scheduler(points(), [node("a")])
    views.view(Pod).put(convert(there("x", "1", "a", state("4", "4")), Pod, "Pod"))
    info = made.world.accounts.get("uid-x")
    assert info is not None
    with made.world.accounts.what_if():
        made.world.accounts.drop(info)
        assert made.world.table.requested[0, 0] == 0
    assert made.world.table.requested[0, 0] == 4000


# On an API server.


async def resize(scene: Scene, name: str, cpu: str) -> None:
    """As a user does."""
    change = Patch.strategic({"spec": {"containers": [{"name": "c", "resources": resources(cpu)}]}})
    await scene.client.patch(POD, name, change, "default", "resize")


async def report(scene: Scene, name: str, allocated: str, runs: str, *conditions: Document) -> None:
    """As a kubelet does."""
    status = {"containerStatuses": [state(allocated, runs)], "conditions": list(conditions)}
    change = Patch.merge({"status": status})
    await scene.client.patch(POD, name, change, "default", "status")


async def waits(scene: Scene, name: str, why: str = "Insufficient cpu") -> None:
    """Whether a pod has no node and nobody tries it again."""
    await asyncio.sleep(30)
    found = await scene.get(POD, name)
    assert found is not None
    assert not found["spec"].get("nodeName"), name
    (told,) = [each for each in found["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert why in told["message"]


def test_who_grows_takes_room_at_once_and_who_shrinks_gives_it_when_the_node_does() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1, cpu=4)
        await scene.client.create(pod("big", "1"))
        await node_of(scene, "big")
        await report(scene, "big", "1", "1")
        await resize(scene, "big", "3")
        await scene.client.create(pod("next", "2"))
        await waits(scene, "next")
        await report(scene, "big", "3", "3")
        await resize(scene, "big", "2")
        await waits(scene, "next")
        await report(scene, "big", "2", "3")
        await waits(scene, "next")
        # It is woken by the report; nothing else happens that could.
        started = scene.clock.wall_seconds()
        await report(scene, "big", "2", "2")
        await node_of(scene, "next")
        assert scene.clock.wall_seconds() - started < 60

    scheduled(story)


def test_what_the_node_calls_infeasible_is_not_counted() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1, cpu=4)
        await scene.client.create(pod("big", "1"))
        await node_of(scene, "big")
        await report(scene, "big", "1", "1")
        await resize(scene, "big", "100")
        await scene.client.create(pod("next", "3"))
        await waits(scene, "next")
        await report(scene, "big", "1", "1", DEFERRED)
        await waits(scene, "next")
        await report(scene, "big", "1", "1", REFUSED)
        await node_of(scene, "next")

    scheduled(story)


def test_a_pod_that_makes_room_gives_what_it_holds() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1, cpu=4)
        for name, value in (("low", 1), ("high", 100)):
            await scene.client.create(
                {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                 "metadata": {"name": name}, "value": value}
            )  # fmt: skip
        for name in ("grown", "small"):
            await scene.client.create(pod(name, "1", priorityClassName="low"))
            await node_of(scene, name)
        await report(scene, "grown", "3", "3")
        await scene.client.create(pod("high", "3", priorityClassName="high"))
        await node_of(scene, "high")
        assert {each["metadata"]["name"] for each in await scene.pods()} == {"small", "high"}

    scheduled(story)


@pytest.mark.parametrize(("asks", "holds"), [("1", "3"), ("3", "1")])
def test_a_scheduler_that_begins_in_the_middle_counts_the_same(asks: str, holds: str) -> None:
    async def first(scene: Scene) -> None:
        await scene.client.create(pod("next", "2"))
        await waits(scene, "next")
        await report(scene, "big", "1", "1", REFUSED)
        await resize(scene, "big", "1")
        await node_of(scene, "next")

    async def before(scene: Scene) -> None:
        await scene.add_nodes(1, cpu=4)
        await scene.client.create(pod("big", asks, nodeName="n0"))
        await report(scene, "big", holds, holds)

    scheduled(first, before)


@pytest.mark.parametrize(("states", "cpu_milli"), [([], 1000), ([state("4", "1")], 4000)])
@pytest.mark.parametrize("page", [False, True])
def test_beside_amounts_for_the_whole_pod_scores_guess_less_on_a_node(
    states: list[Document], cpu_milli: int, page: bool
) -> None:
    document = there("x", "1", "a", *states)
    document["spec"]["containers"].append({"name": "silent"})
    document["spec"]["resources"] = {"requests": {"memory": "1Gi"}}
    made = told_anew([document], page)
    counts = columns(made)["a"]
    assert counts == modelled({"x": document})["a"] == (cpu_milli, cpu_milli, 1 << 30)
    placed = made.world.accounts.get("uid-x")
    assert placed is not None
    assert placed.shape.nonzero == (1100, 1 << 30)
