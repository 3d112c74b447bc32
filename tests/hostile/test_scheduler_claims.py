# SPDX-License-Identifier: Apache-2.0
"""Bound pods whose annotations claim what is not theirs: what counts, and how it is shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from koord.api.kinds.pod import Pod
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.debug import state_dump
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.explain.test_what_if import shipped_scheduler
from tests.controllers.scheduler.plugins.deviceshare.clusters import device, gpu, gpus, nic
from tests.controllers.scheduler.plugins.elasticquota.objects import quota
from tests.controllers.scheduler.plugins.reservation.bench import available
from tests.controllers.scheduler.pods import node, pod

PREFIX = "scheduling.koordinator.sh/"
CARDS, STATUS = PREFIX + "device-allocated", PREFIX + "resource-status"
SITS = PREFIX + "reservation-allocated"
K = "koordinator.sh/"
GIB = 1 << 30


def whole(*minors: int, kind: str = "gpu", **more: Any) -> dict[str, str]:
    """An annotation of whole cards."""
    each = {f"{K}gpu-core": "100", f"{K}gpu-memory-ratio": "100"}
    resources = each if kind == "gpu" else {K + kind: "100"}
    cards = [{"minor": minor, "resources": {**resources, **more}} for minor in minors]
    return {CARDS: json.dumps({kind: cards})}


def started(*objects: Any, cards: Iterable[Any] = (), cpu: str = "32") -> tuple[Scheduler, Any]:
    """A scheduler that begins with a node, its cards and other objects; pods last."""
    made, views, _ = shipped_scheduler([node("n", cpu=cpu, allocatable={"nvidia.com/gpu": "8"})])
    for each in (*([device("n", *cards)] if cards else ()), *objects):
        views.view(type(each)).put(each)
    return made, views


def counted(made: Scheduler, name: str, plugin: str = "DeviceShare") -> Any:
    found = made.world.accounts.get(f"uid-{name}")
    assert found is not None
    return found.allocations.get(plugin)


def minors(made: Scheduler, name: str) -> list[int]:
    return [held.minor for held in counted(made, name) or ()]


def shown(made: Scheduler) -> list[str]:
    lines: list[str] = state_dump.node(made, "n")["contradictions"]
    return lines


def run(story: Any) -> None:
    async def whole() -> None:
        story()

    asyncio.run(whole())


def annotated(views: LocalViews, it: Pod, notes: dict[str, str], version: str) -> Pod:
    """The pod as somebody patches its annotations."""
    meta = msgspec.structs.replace(
        it.metadata, annotations={**it.metadata.annotations, **notes}, resource_version=version
    )
    made = msgspec.structs.replace(it, metadata=meta)
    views.view(Pod).put(made)
    return made


def test_a_pod_of_a_thousandth_of_a_cpu_takes_no_cards() -> None:
    def story() -> None:
        thief = pod("thief", cpu="1m", nodeName="n")
        made, views = started(thief, cards=gpus(8))
        thief = annotated(views, thief, whole(*range(8)), "2")
        assert counted(made, "thief") is None
        (line,) = shown(made)
        assert line.startswith(f"Pod default/thief: annotations[{CARDS}]: got 'gpu 0 (")
        assert line.endswith("no more than its requests justify, which is what counts: nothing")
        gauge = b'koord_scheduler_contradicted_pods{key="%s"} 1.0' % CARDS.encode()
        assert gauge in made.metrics.registry.expose()
        # It takes the annotation off again.
        bare = msgspec.structs.replace(thief.metadata, annotations={}, resource_version="3")
        views.view(Pod).put(msgspec.structs.replace(thief, metadata=bare))
        assert shown(made) == []
        assert gauge.replace(b"1.0", b"0.0") in made.metrics.registry.expose()

    run(story)


@pytest.mark.parametrize(
    ("requests", "notes", "want"),
    [
        ({"nvidia.com/gpu": "2"}, whole(3, 5), {3: (100, 100, 0), 5: (100, 100, 0)}),
        ({"nvidia.com/gpu": "2"}, whole(3, 5, 6), {3: (100, 100, 0), 5: (100, 100, 0)}),
        ({f"{K}gpu": "50"}, whole(3), {3: (50, 50, 0)}),
        ({f"{K}gpu": "300"}, whole(1, 2, 3), dict.fromkeys((1, 2, 3), (100, 100, 0))),
        ({f"{K}gpu.shared": "2", f"{K}gpu-core": "100", f"{K}gpu-memory-ratio": "100"},
         whole(1, 2, 3), {1: (50, 50, 0), 2: (50, 50, 0)}),
        # Memory that follows from the percentage and the card's 16 GiB.
        ({f"{K}gpu": "1"}, whole(1, **{f"{K}gpu-memory": "16Gi"}), {1: (1, 1, 16 * GIB // 100)}),
        ({f"{K}gpu-memory": "4Gi"}, whole(1, **{f"{K}gpu-memory": "4Gi"}), {1: (0, 26, 4 * GIB)}),
        ({f"{K}rdma": "100"}, whole(1), {}),
        ({"cpu": "8"}, whole(1), {}),
    ],
)  # fmt: skip
def test_cards_count_as_far_as_requests_justify_them(
    requests: dict[str, str], notes: dict[str, str], want: dict[int, tuple[int, ...]]
) -> None:
    def story() -> None:
        cards = [gpu(minor) for minor in range(8)]
        made, _ = started(pod("p", requests=requests, annotations=notes, nodeName="n"), cards=cards)
        held = {each.minor: each.amounts[:3] for each in counted(made, "p") or ()}
        assert held == want
        assert bool(shown(made)) is (held != {
            each["minor"]: (100, 100, 0) for each in json.loads(notes[CARDS])["gpu"]
        })  # fmt: skip

    run(story)


def test_memory_is_judged_once_the_card_is_known() -> None:
    def story() -> None:
        notes = whole(1, **{f"{K}gpu-memory": "16Gi"})
        made, views = started(pod("p", requests={f"{K}gpu": "1"}, annotations=notes, nodeName="n"))
        assert counted(made, "p")[0].amounts[:3] == (1, 1, 16 * GIB)
        views.view(type(device("n"))).put(device("n", gpu(1)))
        assert counted(made, "p")[0].amounts[:3] == (1, 1, 16 * GIB // 100)

    run(story)


def test_joint_nics_one_a_root_count() -> None:
    """Two GPUs on two roots bring two NICs, though the pod asks for 100 of RDMA."""

    def story() -> None:
        notes = {
            CARDS: json.dumps({
                **json.loads(whole(0, 1)[CARDS]),
                **json.loads(whole(0, 1, 2, kind="rdma")[CARDS]),
            }),
            PREFIX + "device-joint-allocate":
                '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}',
        }  # fmt: skip
        asks = {"nvidia.com/gpu": "2", f"{K}rdma": "100"}
        cards = [gpu(0), gpu(1, 0, "1"), nic(0), nic(1, 0, "1"), nic(2, 0, "2")]
        made, _ = started(pod("p", requests=asks, annotations=notes, nodeName="n"), cards=cards)
        held = [(each.type, each.minor) for each in counted(made, "p")]
        assert held == [("gpu", 0), ("gpu", 1), ("rdma", 0), ("rdma", 1)]

    run(story)


@pytest.mark.parametrize(
    ("cpu", "status", "cpus", "zones"),
    [
        ("4", {"cpuset": "0-3"}, "0-3", {}),
        ("4", {"cpuset": "8-15"}, "8-11", {}),
        ("1m", {"cpuset": "0-31"}, None, None),
        ("4", {"numaNodeResources": [{"node": 0, "resources": {"cpu": "4"}}]}, "", {0: 4000}),
        ("4", {"numaNodeResources": [{"node": 1, "resources": {"cpu": "3"}},
                                     {"node": 0, "resources": {"cpu": "3"}}]},
         "", {0: 3000, 1: 1000}),
    ],
)  # fmt: skip
def test_cpus_and_zones_count_as_far_as_requests_justify_them(
    cpu: str, status: dict[str, Any], cpus: str | None, zones: dict[int, int] | None
) -> None:
    def story() -> None:
        notes = {STATUS: json.dumps(status)}
        made, _ = started(pod("p", cpu=cpu, annotations=notes, nodeName="n"))
        held = counted(made, "p", "NodeNUMAResource")
        if cpus is None:
            assert held is None
        else:
            assert (str(held.cpus), {z: row["cpu"] for z, row in held.zones.items()}) == (
                cpus, zones,
            )  # fmt: skip
        assert len(shown(made)) == (cpus != status.get("cpuset", "") or zones == {0: 3000, 1: 1000})

    run(story)


def placed(made: Scheduler, views: LocalViews, it: Pod) -> tuple[PodInfo, Pod]:
    """The pod on its node by this scheduler's own decision, as the API then tells of it."""
    views.view(Pod).put(it)
    made.loop.schedule(1.0)
    info = made.world.accounts.get(it.metadata.uid)
    assert info is not None
    spec = msgspec.structs.replace(it.spec, node_name="n")
    return info, msgspec.structs.replace(it, spec=spec)


def test_what_was_decided_wins_over_what_is_written_later() -> None:
    def story() -> None:
        made, views = started(cards=gpus(4))
        it = pod("p", requests={"nvidia.com/gpu": "1"})
        _, bound = placed(made, views, it)
        assert minors(made, "p") == [0]
        bound = annotated(views, bound, whole(0, **{f"{K}gpu-memory": "16Gi"}), "2")
        assert (minors(made, "p"), shown(made)) == ([0], [])
        # One whole card is what it asks for, but it was given another one.
        bound = annotated(views, bound, whole(3), "3")
        assert minors(made, "p") == [0]
        (line,) = shown(made)
        assert "expected what this scheduler has decided, which is what counts: [" in line
        bound = annotated(views, bound, {CARDS: "{}"}, "4")
        assert (minors(made, "p"), len(shown(made))) == ([0], 1)
        annotated(views, bound, whole(0, **{f"{K}gpu-memory": "16Gi"}), "5")
        assert (minors(made, "p"), shown(made)) == ([0], [])

    run(story)


def test_a_pod_that_was_there_before_follows_its_annotation() -> None:
    """Placed by another scheduler: what is justified counts, also when it is written anew."""

    def story() -> None:
        it = pod("p", requests={"nvidia.com/gpu": "1"}, annotations=whole(2), nodeName="n")
        made, views = started(it, cards=gpus(4))
        assert minors(made, "p") == [2]
        annotated(views, it, whole(3), "2")
        assert (minors(made, "p"), shown(made)) == ([3], [])

    run(story)


@pytest.mark.parametrize("first", ["reservation", "pod"])
@pytest.mark.parametrize(("app", "sits"), [("R", True), ("other", False)])
def test_only_an_owner_sits_in_a_reservation(app: str, first: str, sits: bool) -> None:
    def story() -> None:
        notes = {SITS: '{"name":"R","uid":"r-R"}'}
        it = pod("p", cpu="4", labels={"app": app}, annotations=notes, nodeName="n")
        held = available("R", "n", cpu="8", allocateOnce=False)
        made, _ = started(*((held, it) if first == "reservation" else (it, held)))
        table = made.world.table
        used = table.requested[table.resource("cpu"), table.row("n")]
        # An owner takes the place of what is held for it; anybody else counts beside it.
        assert used == (8000 if sits else 12000)
        assert (counted(made, "p", "Reservation") is not None) is sits
        assert len(shown(made)) == (not sits)

    run(story)


def test_a_pod_that_went_is_shown_no_more() -> None:
    def story() -> None:
        made, views = started(
            pod("thief", cpu="1m", annotations=whole(0), nodeName="n"), cards=gpus(2)
        )
        assert len(shown(made)) == 1
        views.view(Pod).remove("default/thief")
        assert (shown(made), made.world.contradictions.of("uid-thief")) == ([], [])

    run(story)


def test_it_is_told_by_an_event() -> None:
    async def story() -> None:
        made, views = started(cards=gpus(2))
        told: list[tuple[str, str]] = []
        made.world.invalid._event = lambda about, kind, reason, text: told.append((reason, text))
        views.view(Pod).put(pod("thief", cpu="1m", annotations=whole(0), nodeName="n"))
        await made.world.invalid.step()
        ((reason, text),) = told
        assert (reason, [text]) == ("Contradicted", shown(made))

    asyncio.run(story())


def labelled(views: LocalViews, it: Pod, labels: dict[str, str], version: str) -> Pod:
    meta = msgspec.structs.replace(it.metadata, labels=labels, resource_version=version)
    made = msgspec.structs.replace(it, metadata=meta)
    views.view(Pod).put(made)
    return made


GANG = "gang.scheduling.koordinator.sh/"


def test_a_bound_pod_makes_up_no_other_gang() -> None:
    """The gang needs two; a pod that has its node already does not become the second."""

    def story() -> None:
        made, views = started()
        gangs = next(plugin for plugin in made.plugins if plugin.name == "Coscheduling").gangs
        notes = {GANG + "name": "g", GANG + "min-available": "2"}
        views.view(Pod).put(pod("waits", cpu="1", annotations=notes))
        thief = pod("thief", cpu="1", nodeName="n")
        views.view(Pod).put(thief)
        thief = annotated(views, thief, notes, "2")
        assert [len(gang.members) for gang in gangs.gangs.values()] == [1]
        assert shown(made) == [
            "Pod default/thief: gang: got 'default/g', expected the gang in which it got its "
            "node, which is what counts: None"
        ]
        bare = msgspec.structs.replace(thief.metadata, annotations={}, resource_version="3")
        views.view(Pod).put(msgspec.structs.replace(thief, metadata=bare))
        assert shown(made) == []

    run(story)


def test_a_pod_stays_in_the_quota_that_it_was_placed_in() -> None:
    def story() -> None:
        name = "quota.scheduling.koordinator.sh/name"
        made, views = started(quota("mine", max={"cpu": "4"}), quota("theirs", max={"cpu": "4"}))
        plugin = next(plugin for plugin in made.plugins if plugin.name == "ElasticQuota")
        it = pod("p", cpu="3", labels={name: "mine"})
        _, bound = placed(made, views, it)
        views.view(Pod).put(bound)
        bound = labelled(views, bound, {name: "theirs"}, "2")
        used = [plugin.figures_of(each)["used"]["cpu"] for each in ("mine", "theirs")]
        assert used == ["3", "0"]
        (line,) = shown(made)
        assert line.endswith("expected the quota that it was placed in, which is what counts: mine")
        # What it asks for is followed all the same.
        bound = labelled(views, bound, {name: "theirs", "other": "label"}, "3")
        assert plugin.figures_of("mine")["used"]["cpu"] == "3"
        assert not [each for each in plugin.recount() if each]
        labelled(views, bound, {name: "mine"}, "4")
        assert shown(made) == []
        views.view(Pod).remove("default/p")
        assert plugin.figures_of("mine")["used"]["cpu"] == "0"

    run(story)
