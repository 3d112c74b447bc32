# SPDX-License-Identifier: Apache-2.0
"""Counts of pods that selectors match, and terms of pods on nodes, as all of these come and go."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api import selectors
from koord.api.codec import convert
from koord.api.kinds.cluster import Namespace
from koord.api.kinds.meta import LabelSelector
from koord.controllers.cluster.label_index import PodSelector
from koord.controllers.cluster.pods import PodInfo, Shapes
from koord.controllers.scheduler.plugins.kubernetes.pod_counts import PodCounts, RowCounts
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.stock import Stock

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
APPS, NAMESPACES, ROWS = ["a", "b", "c"], ["default", "other"], 3
SELECTORS = [
    {"matchLabels": {"app": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
    {},
]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.sampled_from([*APPS, None]), st.sampled_from(NAMESPACES),
                  st.integers(0, ROWS - 1), st.booleans()),
        st.tuples(st.just("gone"), st.integers(0, 99)),
        st.tuples(st.just("use"), st.integers(0, len(SELECTORS) - 1), st.sampled_from(NAMESPACES),
                  st.booleans()),
        st.tuples(st.just("release"), st.integers(0, 99)),
    ),
    max_size=30,
)  # fmt: skip


@given(steps=STEPS)
def test_counts_are_those_of_a_plain_count(steps: list[tuple[Any, ...]]) -> None:
    counts, shapes, numbers = PodCounts(), Shapes(), itertools.count()
    placed: list[tuple[int, PodInfo]] = []
    used: list[tuple[int, str, bool]] = []
    row_counts: dict[tuple[int, str, bool], Any] = {}
    for what, *rest in steps:
        if what == "pod":
            app, namespace, row, terminating = rest
            labels = {} if app is None else {"app": app}
            made = shapes.info(pod(f"p{next(numbers)}", labels=labels, namespace=namespace))
            made.pod.metadata.deletion_timestamp = MOMENT if terminating else None
            counts.pod_added(row, made)
            placed.append((row, made))
        elif what == "gone" and placed:
            row, made = placed.pop(rest[0] % len(placed))
            if rest[0] % 2:
                made.pod.metadata.deletion_timestamp = MOMENT  # Said since it was counted.
            counts.pod_removed(row, made)
        elif what == "use":
            number, namespace, terminating = rest
            wanted = PodSelector(_selector(number), (namespace,))
            row_counts[number, namespace, terminating] = counts.acquire(
                (number, namespace), wanted, terminating=terminating
            )
            used.append((number, namespace, terminating))
        elif what == "release" and used:
            *key, terminating = used.pop(rest[0] % len(used))
            counts.release(tuple(key), terminating=terminating)
        for key in used:
            assert _summed(row_counts[key]) == _counted(placed, *key)
    for each in placed:
        counts.pod_removed(*each)
    for *key, terminating in used:
        counts.release(tuple(key), terminating=terminating)
    assert not counts._known
    assert not counts._terminating
    assert not counts._terminating_rows
    assert not counts._row_counts
    assert not counts._every_of
    assert not counts._shapes._having
    assert not len(counts._selectors)


def _summed(pods: Sequence[tuple[RowCounts, int]]) -> dict[int, int]:
    found: Counter[int] = Counter()
    for row_counts, weight in pods:
        for row, count in row_counts.by_row.items():
            found[row] += weight * count
    return {row: count for row, count in found.items() if count}


def _selector(number: int) -> LabelSelector:
    return convert(SELECTORS[number], LabelSelector, "labelSelector")


def _counted(
    placed: list[tuple[int, PodInfo]], number: int, namespace: str, terminating: bool
) -> dict[int, int]:
    wanted = _selector(number)
    return Counter(
        row for row, each in placed
        if each.shape.namespace == namespace and selectors.matches(wanted, each.shape.labels)
        and (terminating or each.pod.metadata.deletion_timestamp is None)
    )  # fmt: skip


def _namespace(name: str, team: str) -> Namespace:
    document = {"metadata": {"name": name, "labels": {"team": team}}}
    return convert(document, Namespace, f"Namespace {name}")


def _guard(number: int, far_from: str) -> Any:
    """A pod that keeps pods of an app away from its node, in namespaces of team x."""
    term = {"labelSelector": {"matchLabels": {"app": far_from}}, "topologyKey": HOSTNAME,
            "namespaceSelector": {"matchLabels": {"team": "x"}}}  # fmt: skip
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(f"guard-{number}", cpu="1m", affinity={"podAntiAffinity": anti})


def test_terms_of_many_pods_on_nodes_hold_as_namespaces_change_and_pods_go() -> None:
    stock = Stock()
    stock.add(node("n0", cpu="1000", memory="40Ti", pods="5000"), node("n1", cpu="1"))
    stock.views.view(Namespace).put(_namespace("default", "y"))
    guards = [stock.put(_guard(i, f"app-{i}"), "n0") for i in range(1_500)]
    waits = pod("waits", cpu="500m", labels={"app": "app-1000"})
    for team, where in (("y", "n0"), ("x", "n1"), ("y", "n0"), ("x", "n1")):
        stock.views.view(Namespace).put(_namespace("default", team))
        assert stock.where(waits) == where
    affinity: Any = stock.plugins["InterPodAffinity"]
    for each in guards[:900]:
        stock.world.accounts.drop(each)
    # What no pod carries any more is given back once it is much.
    assert len(affinity._existing_terms) < 1_000
    assert stock.where(waits) == "n1"
    stock.world.accounts.drop(guards[1_000])
    assert stock.where(waits) == "n0"
    again = stock.put(_guard(1_000, "app-1000"), "n0")
    assert stock.where(waits) == "n1"
    for each in (again, *guards[900:1_000], *guards[1_001:]):
        stock.world.accounts.drop(each)
    assert len(affinity._existing_terms) <= 1_024
    assert stock.where(waits) == "n0"
