# SPDX-License-Identifier: Apache-2.0
"""Names that tenants write, in the tables that go by them: nothing stays when they are gone.

A table whose step takes the decoding of a pod is gone through less often than the others.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec import structs

from koord.api import Event
from koord.api.kinds.meta import LabelSelector, ObjectMeta, ObjectReference
from koord.base.clock import VirtualClock
from koord.controllers.cluster.label_index import PodSelector
from koord.controllers.cluster.node_labels import NodeLabels, NodeTaints
from koord.controllers.cluster.pods import PodInfo, Shapes
from koord.controllers.cluster.quota_objects import QuotaObject
from koord.controllers.scheduler.explain.attempt_history import AttemptHistory
from koord.controllers.scheduler.plugins.coscheduling.objects.gang_declaration import GangDefaults
from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
from koord.controllers.scheduler.plugins.deviceshare.state.columns import DeviceColumns
from koord.controllers.scheduler.plugins.elasticquota.objects.pod_request import QuotaRequest
from koord.controllers.scheduler.plugins.elasticquota.state.quota_index import QuotaIndex
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTrees
from koord.controllers.scheduler.plugins.kubernetes.pod_counts import PodCounts
from koord.kernels.quota import GroupSpec
from koord.kube.event_correlation import Correlator
from tests.controllers.scheduler.plugins.coscheduling.gangs import member
from tests.controllers.scheduler.plugins.elasticquota.objects import quota
from tests.controllers.scheduler.pods import node, pod, table
from tests.controllers.scheduler.stock import Stock
from tests.hostile.growth import at_least, churn

FEWER = at_least(5_000)


def test_shapes_are_bounded_by_count() -> None:
    shapes = Shapes(limit=200)
    one = pod("p", cpu="1")

    def step(i: int) -> None:
        labels = structs.replace(one.metadata, labels={f"key-{i}": f"value-{i}"})
        shapes.of(structs.replace(one, metadata=labels))

    churn(step, shapes, steps=at_least(20_000))


def test_shapes_are_bounded_by_size() -> None:
    shapes = Shapes(size=1 << 20)
    for i in range(200):
        shapes.of(pod(f"p{i}", cpu="1", annotations={"of/mine": f"{i}" + "x" * 100_000}))
    assert len(shapes._by_text.large) <= 11
    assert len(shapes._by_parts.large) <= 11
    for i in range(200):
        name = f"{i}" + "x" * 100_000
        shapes.of(pod(f"q{i}", requests={f"example.com/{name}": "1"}))
    assert len(shapes._by_containers_text.large) <= 11
    assert len(shapes._by_containers.large) <= 11
    # One that is larger than all may be together is still one shape.
    large = pod("large", annotations={"of/mine": "x" * (2 << 20)})
    assert shapes.of(large) is shapes.of(structs.replace(large))


def test_labels_and_taints_of_nodes() -> None:
    labels, taints, one = NodeLabels(), NodeTaints(), node("n", taints=[{"key": "a"}])
    stays = structs.replace(one, metadata=structs.replace(one.metadata, labels={"zone": "a"}))
    labels.set(1, stays, 8)
    taints.set(1, node("stays", taints=[{"key": "stays", "effect": "NoSchedule"}]), 8)

    def step(i: int) -> None:
        one.metadata.labels = {"zone": f"zone-{i}", f"key-{i}": ""}
        one.spec.taints[0].value = f"{i}"
        labels.set(0, one, 8)
        column = labels.column("zone")
        assert column.values[column.ids[0]] == f"zone-{i}"
        assert column.values[column.ids[1]] == "a"
        labels.column(f"key-{i}")
        labels.column(f"absent-{i}")
        taints.set(0, one, 8)
        assert taints.lists[taints.ids[1]][0].key == "stays"

    churn(step, labels, taints)


def test_a_kept_answer_about_taints_is_not_read_by_other_numbers() -> None:
    stock = Stock(only=("TaintToleration",))
    stock.add(node("open"), node("closed", taints=[{"key": "a", "effect": "NoSchedule"}]))
    wanted = pod("p")
    assert stock.where(wanted) == "open"
    for i in range(300):
        stock.add(node("open", taints=[{"key": f"b{i}", "effect": "NoSchedule"}]))
        assert stock.where(wanted).startswith("0/2 nodes are available")
    stock.add(node("closed"))
    assert stock.where(wanted) == "closed"


def test_names_of_gangs() -> None:
    cache = GangCache(GangDefaults(), lambda: 1_700_000_000.0, lambda uids: None)

    def step(i: int) -> None:
        cache.pod_changed(member("p", f"gang-{i}"))
        cache.pod_deleted("uid-p")

    churn(step, cache, steps=FEWER)


def test_names_of_quotas_parents_and_namespaces() -> None:
    index = QuotaIndex()

    def step(i: int) -> None:
        group, namespace = f"quota-{i}", f"namespace-{i}"
        spec = GroupSpec(parent=f"parent-{i}")
        item = QuotaObject(
            group, "ElasticQuota", namespace, group, group, spec, 1, f"tree-{i}", {}, False,
            (f"team-{i}",),
        )  # fmt: skip
        index.put(item)
        assert not index.has(f"other-{i}", namespace)
        index.remove(group, namespace)

    churn(step, index)


def test_trees_and_resources_of_quotas() -> None:
    trees = QuotaTrees()

    def step(i: int) -> None:
        labels = {"tree-id": f"tree-{i}"}
        amounts = {f"example.com/{i}": "1", "cpu": "1"}
        item = quota(f"quota-{i}", namespace=f"namespace-{i}", labels=labels, max=amounts)
        assert trees.put(item) is None
        trees.remove(item)

    churn(step, trees, steps=FEWER)


def test_resources_that_quotas_count_are_read_anew_when_they_change() -> None:
    shape = Shapes().of(pod("p", requests={"example.com/a": "1", "example.com/b": "2"}))
    request = QuotaRequest(shape)
    trees = QuotaTrees()
    trees._count({"example.com/a": 5})
    first = request.amounts(trees.counted, overhead=True)
    trees._uncount({"example.com/a": 5})
    trees._count({"example.com/b": 5})
    second = request.amounts(trees.counted, overhead=True)
    assert "example.com/a" in first.forth
    assert "example.com/a" not in second.forth
    assert "example.com/b" in second.forth


def test_namespaces_and_selectors_of_counted_pods() -> None:
    counts = PodCounts()

    def step(i: int) -> None:
        wanted = LabelSelector({f"key-{i}": f"value-{i}"})
        counts.acquire(i, PodSelector(wanted, [f"namespace-{i}"]))
        counts.release(i)

    churn(step, counts)


def test_ports_priorities_topology_keys_and_terms_of_pods() -> None:
    stock = Stock()
    stock.world.shapes = Shapes(limit=64)
    stock.add(node("n0"), node("n1"))

    def step(i: int) -> None:
        row, info = i % 2, _various(stock.world.shapes, i)
        stock.world.accounts.add(row, info)
        if i % 10 == 0:
            stock.decide(info.pod)
        stock.world.accounts.drop(info)

    churn(step, stock.world.accounts, *stock.plugins.values(), steps=FEWER)


def test_isolation_that_pods_ask_for_gets_no_number() -> None:
    columns = DeviceColumns()
    ours = columns.code("of the node")

    def step(i: int) -> None:
        assert columns.known_code(f"provider-{i}") == -1

    churn(step, columns)
    assert columns.known_code("of the node") == ours
    assert columns.known_code("") == 0


def test_attempts_are_remembered_up_to_a_size() -> None:
    history = AttemptHistory(table(node("n0")), VirtualClock(1.0), limit=500, size=100_000)

    def step(i: int) -> None:
        decision: Any = SimpleNamespace(
            cycle=SimpleNamespace(pod=SimpleNamespace(uid=f"uid-{i}")), row=0
        )
        history.observe(decision, "x" * (i % 1000))

    churn(step, history)
    assert history._last.size <= 100_000


def test_event_keys() -> None:
    correlator = Correlator()

    for i in range(at_least(20_000)):
        about = ObjectReference(kind="Pod", name=f"p{i}", namespace=f"namespace-{i}")
        event = Event(
            metadata=ObjectMeta(name=f"{i}"), involved_object=about, reason=f"R{i}", message=f"{i}",
            count=1,
        )  # fmt: skip
        assert correlator.correlate(event, float(i)) is not None
    kept = (correlator._similar, correlator._stored, correlator._buckets)
    assert all(len(each) <= 4096 for each in kept)


def _various(shapes: Shapes, i: int) -> PodInfo:
    """A pod all of whose names are new."""
    selector = {"labelSelector": {"matchLabels": {f"label-{i}": ""}}}
    term = {**selector, "topologyKey": f"topology.example/{i}"}
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    spread = {**term, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    made = pod(
        f"p{i}",
        namespace=f"namespace-{i}",
        labels={f"label-{i}": f"value-{i}"},
        owners=[{"apiVersion": "v1", "kind": "Job", "name": f"o{i}", "uid": f"{i}",
                 "controller": True}],
        priority=i,
        nodeSelector={f"selector-{i}": ""},
        affinity={
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        },
        topologySpreadConstraints=[spread],
        containers=[{"name": "main", "image": f"image-{i}", "ports": [
            {"containerPort": 80, "hostPort": 1 + i % 65_000, "hostIP": f"10.0.{i % 250}.1"}
        ]}],
    )  # fmt: skip
    return shapes.info(made)
