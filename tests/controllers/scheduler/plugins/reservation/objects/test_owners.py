# SPDX-License-Identifier: Apache-2.0
"""Which reservation a pod may use: the order of decisions.

Rule: docs/reference/reservations.md#what-a-pod-says-of-reservations.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import convert
from koord.api.kinds.constraints import Taint, Toleration
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import ReservationOwner
from koord.api.tolerations import tolerates
from koord.controllers.scheduler.plugins.reservation.objects import owners
from koord.controllers.scheduler.plugins.reservation.state.reservation_index import owns
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available
from tests.controllers.scheduler.pods import node, pod

AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
EXACT = "scheduling.koordinator.sh/exact-match-reservation"
SCHEME = {"app": "R"}


def one(**spec: Any) -> Bench:
    """A node whose 8 cores are all held by R."""
    bench = Bench(node("n", cpu="8", labels={"zone": "a"}))
    bench.put(available("R", "n", cpu="8", **spec))
    return bench


def wants(cpu: str = "1", **affinity: Any) -> Pod:
    """A pod that must use a reservation."""
    return pod("p", cpu=cpu, labels=SCHEME, annotations={AFFINITY: json.dumps(affinity)})


def test_only_owners_use_it() -> None:
    bench = one()
    assert bench.place(pod("p", cpu="1", labels=SCHEME)) == ("n", "R")
    assert one().decide(pod("p", cpu="1", labels={"app": "S"})).row == -1


@pytest.mark.parametrize(
    ("entry", "matches"),
    [
        ({}, True),
        ({"object": {"name": "p", "namespace": "default"}}, True),
        ({"object": {"name": "p", "namespace": "other"}}, False),
        ({"object": {"uid": "uid-p"}}, True),
        ({"object": {"uid": "uid-q"}}, False),
        ({"object": {"name": "p", "uid": "uid-q"}}, False),
        ({"object": {"kind": "Job", "resourceVersion": "7", "fieldPath": "x"}}, True),
        ({"object": {"apiVersion": "v2"}}, False),
        ({"controller": {"name": "web", "kind": "ReplicaSet"}}, True),
        ({"controller": {"name": "web", "namespace": "other"}}, False),
        ({"controller": {"name": "web", "controller": True}}, True),
        ({"controller": {"name": "helper", "controller": True}}, False),
        ({"controller": {"name": "helper"}}, True),
        ({"controller": {"uid": "u1", "apiVersion": "apps/v1"}}, True),
        ({"controller": {"uid": "u1", "apiVersion": "v1"}}, False),
        ({"labelSelector": {"matchLabels": {"app": "R"}}}, True),
        ({"labelSelector": {"matchLabels": {"app": "S"}}}, False),
        ({"object": {"name": "p"}, "labelSelector": {"matchLabels": {"app": "S"}}}, False),
    ],
)
def test_owner_entries(entry: dict[str, Any], matches: bool) -> None:
    refs = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1",
         "controller": True},
        {"apiVersion": "v1", "kind": "Helper", "name": "helper", "uid": "u2"},
    ]  # fmt: skip
    asking = pod("p", cpu="1", labels=SCHEME, owners=refs)
    bench = one(owners=[entry])
    assert (bench.place(asking) == ("n", "R")) is matches
    # Entries are ORed.
    both = one(owners=[{"object": {"name": "nobody"}}, entry])
    assert (both.place(asking) == ("n", "R")) is matches


def test_no_owners_match_nobody() -> None:
    assert one(owners=[]).decide(pod("p", cpu="1", labels=SCHEME)).row == -1


def test_a_malformed_selector_makes_it_unusable() -> None:
    bad = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}
    bench = one(owners=[bad, {}])
    assert bench.decide(pod("p", cpu="1", labels=SCHEME)).row == -1
    record = bench.book.get("r-R")
    assert record is not None
    assert record.error == (
        "Reservation R: spec.owners[0].labelSelector.matchExpressions[0].operator: "
        "got 'Like', expected one of In, NotIn, Exists, DoesNotExist"
    )


def test_pods_of_one_shape_may_match_by_name() -> None:
    """Answers are kept by shape; a reservation held for a name is of that pod alone."""
    bench = Bench(node("a", cpu="4"), node("b", cpu="4"))
    bench.put(
        available("one", "a", cpu="4", owners=[{"object": {"name": "p1"}}]),
        available("two", "b", cpu="4", owners=[{"object": {"name": "p2"}}]),
    )
    pods = {name: pod(name, cpu="2") for name in ("p0", "p1", "p2", "p3")}
    assert len({bench.info(each).shape.id for each in pods.values()}) == 1
    assert bench.decide(pods["p0"]).row == -1
    assert bench.decide(pods["p1"]).row == 0
    assert bench.decide(pods["p3"]).row == -1
    assert bench.place(pods["p2"]) == ("b", "two")
    assert bench.decide(pods["p0"]).row == -1
    assert bench.place(pods["p1"]) == ("a", "one")


def test_unschedulable_and_terminating() -> None:
    assert one(unschedulable=True).decide(pod("p", cpu="1", labels=SCHEME)).row == -1
    gone = {"deletionTimestamp": "2023-11-14T22:13:20Z"}
    assert one(metadata=gone).decide(pod("p", cpu="1", labels=SCHEME)).row == -1
    tolerant = wants(
        tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    )
    assert one(unschedulable=True).decide(tolerant).row == 0
    # A name decides alone.
    assert one(unschedulable=True).decide(wants(name="R")).row == 0


def test_taints_concern_pods_with_an_affinity() -> None:
    taint = [{"key": "k", "value": "v", "effect": "NoExecute"}]
    assert one(taints=taint).decide(wants()).row == -1
    assert one(taints=taint).decide(pod("p", cpu="1", labels=SCHEME)).row == 0
    tolerated = wants(tolerations=[{"key": "k", "value": "v"}])
    assert one(taints=taint).decide(tolerated).row == 0
    assert one(taints=[{"key": "k", "effect": "PreferNoSchedule"}]).decide(wants()).row == 0


def test_selector_and_terms_read_labels_of_reservation_and_node() -> None:
    labels = {"tier": "gold"}
    assert one(labels=labels).decide(wants(reservationSelector={"tier": "gold"})).row == 0
    assert one(labels=labels).decide(wants(reservationSelector={"tier": "tin"})).row == -1
    assert one(labels=labels).decide(wants(reservationSelector={"zone": "a"})).row == 0
    assert one(labels={"zone": "b"}).decide(wants(reservationSelector={"zone": "a"})).row == -1
    by_name = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["R"]}]}]
    assert one().decide(wants(**required(by_name))).row == 0
    number = [{"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["3"]}]}]
    assert one(labels={"n": "4"}).decide(wants(**required(number))).row == 0
    assert one(labels={"n": "3"}).decide(wants(**required(number))).row == -1
    assert one().decide(wants(**required([{}]))).row == -1
    assert one().decide(wants(**required([]))).row == -1


def required(terms: list[Any]) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": terms}}


def test_node_labels_may_be_left_out() -> None:
    bench = Bench(
        node("n", cpu="8", labels={"zone": "a"}), gates="OmitNodeLabelsForReservation=true"
    )
    bench.put(available("R", "n", cpu="8"))
    assert bench.decide(wants(reservationSelector={"zone": "a"})).row == -1


def test_labels_of_a_node_may_change() -> None:
    bench = one()
    asking = wants(reservationSelector={"zone": "b"})
    assert bench.decide(asking).row == -1
    bench.table.put(node("n", cpu="8", labels={"zone": "b"}))
    assert bench.decide(asking).row == 0


def test_names_decide_alone() -> None:
    bench = one(taints=[{"key": "k", "effect": "NoSchedule"}])
    assert bench.decide(wants(name="R", reservationSelector={"no": "such"})).row == 0
    assert bench.decide(wants(name="S")).row == -1


def test_exact_match() -> None:
    def asks(names: list[str], cpu: str) -> Pod:
        text = json.dumps({"resourceNames": names})
        return pod("p", cpu=cpu, labels=SCHEME, annotations={EXACT: text})

    assert one().decide(asks(["cpu"], "8")).row == 0
    assert one().decide(asks(["cpu"], "4")).row == -1
    assert (
        one().decide(asks(["memory", "cpu"], "4")).row == 0
    )  # neither has memory: a match at once
    assert one(requests={"memory": "1Gi"}).decide(asks(["memory"], "8")).row == -1


def test_an_affinity_without_reservations_fails_early() -> None:
    bench = one()
    decision = bench.decide(wants(name="S"))
    assert decision.diagnosis is not None
    assert decision.diagnosis.early is not None
    assert decision.diagnosis.early.unresolvable
    assert decision.diagnosis.message() == (
        "0/1 nodes are available: node(s) no reservations match reservation affinity."
    )
    empty = pod("p", cpu="1", labels={"app": "S"}, annotations={AFFINITY: ""})
    assert bench.decide(empty).row == -1


def test_pods_that_ignore_reservations_use_all() -> None:
    label = {"scheduling.koordinator.sh/reservation-ignored": "true"}
    assert one().place(pod("p", cpu="8", labels=label)) == ("n", "")


def term(part: str, **requirement: Any) -> str:
    return json.dumps(required([{part: [requirement]}]))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "expected JSON"),
        ("[]", "an object"),
        ('{"name": 7}', "name"),
        ('{"tolerations": 1}', "tolerations"),
        (term("matchExpressions", key="a", operator="Is"), "In, NotIn"),
        (term("matchFields", key="a", operator="Exists"), "metadata.name"),
        (term("matchExpressions", key="a", operator="Gt", values=["9" * 5000]), "one integer"),
    ],
)  # fmt: skip
def test_malformed_affinities_are_told_in_one_line(text: str, why: str) -> None:
    bench = one()
    bench.decide(pod("first", cpu="1", labels=SCHEME, annotations={AFFINITY: text}))
    decision = bench.decide(pod("p", cpu="1", labels=SCHEME, annotations={AFFINITY: text}))
    assert decision.diagnosis is not None
    assert decision.diagnosis.error
    message = decision.diagnosis.message()
    assert "Pod default/p: annotations[scheduling.koordinator.sh/reservation-affinity]" in message
    assert why in message
    assert "\n" not in message
    assert bench.plugin.post_filter(decision.cycle, decision.diagnosis).message == ""


names = st.sampled_from(["", "p", "q"])
labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
requirement = st.one_of(
    st.builds(
        lambda k, o, v: {"key": k, "operator": o, "values": v},
        st.sampled_from("ab"),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from("xy"), min_size=1, max_size=2),
    ),
    st.builds(
        lambda k, o: {"key": k, "operator": o},
        st.sampled_from("ab"),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "object": st.fixed_dictionaries({}, optional={"name": names, "uid": names}),
        "controller": st.fixed_dictionaries({}, optional={"name": names, "uid": names}),
        "labelSelector": st.fixed_dictionaries(
            {},
            optional={"matchLabels": labels, "matchExpressions": st.lists(requirement, max_size=2)},
        ),
    },
)


@given(
    entry=entries, name=st.sampled_from("pq"), own=labels, owner=st.sampled_from(["p", "q", None])
)
def test_the_index_finds_all_that_match(
    entry: dict[str, Any], name: str, own: dict[str, str], owner: str | None
) -> None:
    made = convert(entry, ReservationOwner, "owner")
    refs = [{"name": owner, "uid": owner, "kind": "K", "apiVersion": "v1"}] if owner else []
    asking = pod(name, labels=own, owners=refs, uid=name)
    keys = {*owners.shape_keys(asking), *owners.personal_keys(asking)}
    if owners.matches(made, asking):
        assert keys & set(owners.entry_keys(made))


@given(toleration=st.builds(
    Toleration,
    key=st.sampled_from(["", "k", "l"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Other"]),
    value=st.sampled_from(["", "v"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
))  # fmt: skip
def test_tolerations(toleration: Toleration) -> None:
    taint = Taint(key="k", value="v", effect="NoSchedule")
    same_effect = toleration.effect in ("", taint.effect)
    same_key = toleration.key in ("", taint.key)
    value = toleration.operator == "Exists" or (
        toleration.operator in ("", "Equal") and toleration.value == taint.value
    )
    assert tolerates([toleration], taint) is (same_effect and same_key and value)


def test_records_are_dropped_when_all_is_gone() -> None:
    bench = one()
    bench.remove("R")
    assert not bench.book.ledger.records
    assert not bench.book.ledger.by_row
    assert not bench.book.for_shape(pod("p", labels=SCHEME))
    assert not list(bench.book.named("R"))


def test_personal_entries_do_not_count_for_a_shape() -> None:
    bench = one(owners=[{"object": {"name": "p"}}])
    record = bench.book.get("r-R")
    assert record is not None
    assert owns(record, pod("p"), personal=True)
    assert not owns(record, pod("p"), personal=False)
