# SPDX-License-Identifier: Apache-2.0
"""All stock plugins together against brute force: random clusters, pods that come and go."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import convert
from koord.api.kinds.cluster import Namespace
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.framework.feasibility import best_node
from tests.controllers.scheduler.stock import Stock
from tests.models.stock_reading import Document
from tests.models.stock_scheduler import Cluster

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
KEYS = st.sampled_from([HOSTNAME, ZONE, "rack"])
APPS = st.sampled_from(["a", "b", "c"])
TAINTS = st.lists(
    st.fixed_dictionaries({
        "key": st.sampled_from(["k1", "k2"]),
        "value": st.sampled_from(["", "v"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    }),
    max_size=2,
)  # fmt: skip
TOLERATIONS = st.lists(
    st.fixed_dictionaries({
        "key": st.sampled_from(["k1", "k2", "node.kubernetes.io/unschedulable"]),
        "operator": st.sampled_from(["Exists", "Equal"]),
        "value": st.sampled_from(["", "v"]),
        "effect": st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]),
    }),
    max_size=2,
)  # fmt: skip
SELECTORS = st.one_of(
    st.just({"matchLabels": {"app": "a"}}),
    st.just({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}),
    st.just({}),
    st.none(),
)
NODE_TERMS = st.fixed_dictionaries({
    "matchExpressions": st.lists(
        st.one_of(
            st.fixed_dictionaries({
                "key": st.sampled_from([ZONE, "size"]),
                "operator": st.sampled_from(["In", "NotIn"]),
                "values": st.lists(st.sampled_from(["z0", "z1", "4"]), max_size=2),
            }),
            st.fixed_dictionaries({
                "key": st.sampled_from([ZONE, "size"]),
                "operator": st.sampled_from(["Gt", "Lt", "Exists", "DoesNotExist", "Odd"]),
                "values": st.sampled_from([[], ["3"], ["x"]]),
            }),
        ),
        max_size=2,
    ),
})  # fmt: skip
POD_TERMS = st.fixed_dictionaries(
    {"topologyKey": KEYS, "labelSelector": SELECTORS},
    optional={
        "namespaces": st.just(["other"]),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "x"}}]),
    },
)
SPREAD = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 3),
        "topologyKey": KEYS,
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": SELECTORS,
    },
    optional={
        "minDomains": st.integers(1, 3),
        "matchLabelKeys": st.just(["app"]),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
    },
)


HELD = {"name": "c", "allocatedResources": {"cpu": "1", "memory": "1Gi"},
        "resources": {"requests": {"cpu": "2"}}}  # fmt: skip
REFUSED = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
# Of pods on nodes it counts what they hold while they are resized; of those that wait it does not.
STATUSES = st.sampled_from(
    [{}, {}, {"containerStatuses": [HELD]}, {"containerStatuses": [HELD], "conditions": [REFUSED]}]
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Document:
    labels = {HOSTNAME: name}
    for key, values in ((ZONE, ["z0", "z1", "z2"]), ("rack", ["r0", "r1"]), ("size", ["2", "4"])):
        value = draw(st.sampled_from([None, *values]))
        if value is not None:
            labels[key] = value
    cpu, pods = draw(st.sampled_from(["0", "2", "8"])), draw(st.sampled_from(["3", "9"]))
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": draw(TAINTS), "unschedulable": draw(st.integers(0, 9)) == 0},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}},
    }


def terms(strength: str, term: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[Any]:
    made = st.lists(term, max_size=most)
    return made.map(lambda found: {f"{strength}DuringSchedulingIgnoredDuringExecution": found})


@st.composite
def templates(draw: st.DrawFn) -> Document:
    """All that equal pods share."""
    weight = st.integers(1, 100)
    spec: Document = {"tolerations": draw(TOLERATIONS)}
    requests = draw(
        st.fixed_dictionaries({}, optional={
            "cpu": st.sampled_from(["100m", "1500m", "0"]),
            "memory": st.sampled_from(["1Gi", "3Gi"]),
        })
    )  # fmt: skip
    ports = draw(st.lists(st.fixed_dictionaries({
        "hostPort": st.sampled_from([80, 81]),
        "protocol": st.sampled_from(["TCP", "UDP"]),
        "hostIP": st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
    }), max_size=1))  # fmt: skip
    spec["containers"] = [{"name": "c", "resources": {"requests": requests}, "ports": ports}]
    kind = draw(st.sampled_from(["plain", "node", "spread", "near", "far", "weighted"]))
    if kind == "node":
        spec["nodeSelector"] = draw(st.sampled_from([{}, {ZONE: "z0"}]))
        required = st.lists(NODE_TERMS, max_size=2).map(lambda t: {"nodeSelectorTerms": t})
        good = NODE_TERMS.filter(
            lambda t: all(
                e["operator"] in ("In", "NotIn") and e["values"] for e in t["matchExpressions"]
            )
        )
        preferred = st.fixed_dictionaries({"weight": weight, "preference": good})
        spec["affinity"] = {"nodeAffinity": {
            **draw(terms("preferred", preferred)),
            **draw(st.sampled_from([{}, {"requiredDuringSchedulingIgnoredDuringExecution": 0}])),
        }}  # fmt: skip
        if "requiredDuringSchedulingIgnoredDuringExecution" in spec["affinity"]["nodeAffinity"]:
            key = "requiredDuringSchedulingIgnoredDuringExecution"
            spec["affinity"]["nodeAffinity"][key] = draw(required)
    elif kind == "spread":
        spec["topologySpreadConstraints"] = draw(st.lists(SPREAD, min_size=1, max_size=2))
    elif kind in ("near", "far"):
        group = "podAffinity" if kind == "near" else "podAntiAffinity"
        spec["affinity"] = {group: draw(terms("required", POD_TERMS))}
    elif kind == "weighted":
        term = st.fixed_dictionaries({"weight": weight, "podAffinityTerm": POD_TERMS})
        spec["affinity"] = {
            "podAffinity": draw(terms("preferred", term)),
            "podAntiAffinity": draw(terms("preferred", term, 1)),
        }
    meta = {"namespace": draw(st.sampled_from(["default", "other"])), "labels": {"app": draw(APPS)}}
    return {"metadata": meta, "spec": spec, "status": draw(STATUSES)}


class Twin:
    """The scheduler and the model side by side."""

    def __init__(self) -> None:
        self.stock = Stock()
        self.model = Cluster(namespaces={"default": {}, "other": {"team": "x"}})
        for name, labels in self.model.namespaces.items():
            meta = {"name": name, "labels": labels}
            namespace = convert({"metadata": meta}, Namespace, "Namespace")
            self.stock.views.view(Namespace).put(namespace)
        self.count = 0
        self.infos: list[Any] = []

    def put(self, node: Document) -> None:
        self.model.nodes[node["metadata"]["name"]] = node
        self.stock.add(convert(node, Node, "Node"))

    def pod(self, template: Document, deleting: bool) -> Document:
        self.count += 1
        pod = copy.deepcopy(template)
        pod["metadata"] |= {"name": f"p{self.count}", "uid": f"u{self.count}"}
        if deleting:
            pod["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
        return pod

    def place(self, template: Document, where: int, deleting: bool) -> None:
        """Puts a pod on a node, whether it fits or not."""
        pod = self.pod(template, deleting)
        name = sorted(self.model.nodes)[where % len(self.model.nodes)]
        self.infos.append(self.stock.put(convert(pod, Pod, "Pod"), name))
        self.model.placed.append((pod, name))

    def remove(self, which: int) -> None:
        if self.infos:
            at = which % len(self.infos)
            self.stock.world.accounts.drop(self.infos.pop(at))
            self.model.placed.pop(at)

    def check(self, template: Document) -> None:
        pod = self.pod(template, False)
        decision = self.stock.decide(convert(pod, Pod, "Pod"))
        table = self.stock.table
        self._check_bits(decision.cycle)
        evaluator = self.stock.decider.evaluator
        verdict = evaluator.entry(decision.cycle)
        refused = evaluator.rejections(decision.cycle, verdict)
        for name in self.model.nodes:
            row = table.row(name)
            assert row is not None
            expected = self.model.refusal(pod, name)
            got = refused.get(row)
            found = (got.reasons, got.unresolvable) if got is not None else None
            if expected is not None and found is not None:
                assert sorted(found[0]) == sorted(expected[0])
                assert found[1] == expected[1]
            assert (found is None) == (expected is None), (name, found, expected)
        feasible = [row for row in range(table.size) if table.open[row] and row not in refused]
        if feasible:
            rows = np.array(feasible, np.intp)
            scores = self.stock.decider.plugins.score
            total, _ = best_node.totals(decision.cycle, verdict, scores, rows)
            names = [table.name(row) for row in feasible]
            found_total = dict(zip(names, total.tolist(), strict=True))
            assert found_total == self.model.totals(pod, names)
        best = self.model.best(pod)
        assert (table.name(decision.row) if decision.row >= 0 else None) == best

    def _check_bits(self, cycle: Any) -> None:
        """What plugins say of all rows as bits is what they say by row."""
        table, plugins = self.stock.table, self.stock.decider.plugins
        rows = np.flatnonzero(table.open[: table.size])
        for plugin in plugins.filter:
            applies = getattr(plugin, "filter_applies", plugin.applies)
            if not hasattr(plugin, "filter_bits") or not applies(cycle):
                continue
            found, expected = plugin.filter_bits(cycle), plugin.filter(cycle, table.rows)
            passes = found if isinstance(found, bool) else _by_row(found)[rows]
            assert np.all(expected[rows] == passes), plugin.name
        for plugin, _ in plugins.score:
            if hasattr(plugin, "score_bits") and plugin.applies(cycle):
                raw = np.zeros(table.size, np.int64)
                for weight, bits in plugin.score_bits(cycle):
                    raw += weight * _by_row(bits)[: table.size]
                assert np.all(raw[rows] == plugin.score(cycle, table.rows)[rows]), plugin.name


def _by_row(bits: Any) -> Any:
    return np.unpackbits(bits.astype("<u8").view(np.uint8), bitorder="little").astype(np.bool_)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("check"), st.integers(0, 3), st.just(0), st.just(False)),
        st.tuples(st.just("place"), st.integers(0, 3), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 9), st.just(0), st.just(False)),
        st.tuples(st.just("relabel"), st.integers(0, 9), st.integers(0, 9), st.just(False)),
    ),
    min_size=3,
    max_size=14,
)


@given(st.data(), st.lists(templates(), min_size=4, max_size=4), STEPS)
def test_every_answer_is_that_of_brute_force(
    data: st.DataObject, made: list[Document], steps: list[tuple[str, int, int, bool]]
) -> None:
    twin = Twin()
    for index in range(data.draw(st.integers(1, 5))):
        twin.put(data.draw(nodes(f"n{index}")))
    for step, which, where, deleting in steps:
        if step == "check":
            twin.check(made[which])
        elif step == "place":
            twin.place(made[which], where, deleting and where > 7)
        elif step == "remove":
            twin.remove(which)
        elif which < 3:
            twin.put(data.draw(nodes(f"n{where % 7}")))
    for template in made:
        twin.check(template)


@pytest.mark.parametrize("seed", range(3))
def test_a_what_if_leaves_nothing_behind(seed: int) -> None:
    twin = Twin()
    labels = [{HOSTNAME: f"n{i}", ZONE: f"z{i % 2}"} for i in range(4)]
    for index, each in enumerate(labels):
        meta = {"name": f"n{index}", "labels": each}
        status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9"}}
        twin.put({"metadata": meta, "spec": {}, "status": status})
    selector = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": ZONE}
    spread = {**selector, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    far = {
        "requiredDuringSchedulingIgnoredDuringExecution": [{**selector, "topologyKey": HOSTNAME}]
    }
    template = {
        "metadata": {"namespace": "default", "labels": {"app": "a"}},
        "spec": {
            "containers": [{"name": "c"}],
            "topologySpreadConstraints": [spread],
            "affinity": {"podAntiAffinity": far},
        },
        "status": {},
    }
    twin.place(template, seed, False)
    twin.check(template)
    accounts = twin.stock.world.accounts
    with accounts.what_if():
        accounts.drop(twin.infos[0])
        extra = twin.pod(template, False)
        twin.stock.put(convert(extra, Pod, "Pod"), f"n{(seed + 1) % 4}")
        twin.stock.decide(convert(twin.pod(template, False), Pod, "Pod"))
    twin.check(template)
