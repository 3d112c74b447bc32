# SPDX-License-Identifier: Apache-2.0
"""What pods and PodGroups say of gangs, well and badly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl
from koord.controllers.scheduler.plugins.coscheduling.objects.gang_declaration import GangDefaults
from tests.controllers.scheduler.plugins.coscheduling.gangs import member, pod_group
from tests.controllers.scheduler.pods import pod

DEFAULTS = GangDefaults(600.0, decl.ONCE_SATISFIED)
OLD_NAME, OLD_LEAST = keys.POD_GROUP_OLD, keys.POD_GROUP_MIN_AVAILABLE_OLD


def read(pod: Pod) -> decl.GangDeclaration:
    return decl.of_pod(pod, decl.gang_id(pod), DEFAULTS)


def test_what_is_not_said_is_the_default() -> None:
    assert read(member("p", least=3)) == decl.GangDeclaration(
        minimum=3,
        total=3,
        mode="Strict",
        policy="once-satisfied",
        wait_seconds=600.0,
        groups=("default/g",),
        topology=None,
        from_pod_group=False,
    )


def test_all_that_can_be_said() -> None:
    notes = {
        "total-number": "5",
        "mode": "NonStrict",
        "match-policy": "only-waiting",
        "waiting-time": "1m30s",
        "groups": '["default/h","default/g"]',
        "network-topology-spec": '{"gatherStrategy":[{"layer":"x","strategy":"MustGather"}]}',
    }
    found = read(member("p", least=3, notes=notes))
    assert found[:6] == (
        3, 5, "NonStrict", "only-waiting", 90.0, ("default/g", "default/h")
    )  # fmt: skip
    assert found.topology is not None
    assert found.topology.gather_strategy[0].layer == "x"


@pytest.mark.parametrize(
    ("notes", "field", "expected"),
    [
        ({"total-number": "many"}, "total", 3),
        ({"total-number": "1"}, "total", 3),
        ({"total-number": "2147483647"}, "total", 2147483647),
        ({"total-number": "2147483648"}, "total", 3),
        ({"network-topology-spec": ""}, "topology", None),
        ({"mode": "strict"}, "mode", "Strict"),
        ({"match-policy": "whatever"}, "policy", "once-satisfied"),
        ({"waiting-time": "soon"}, "wait_seconds", 600.0),
        ({"waiting-time": "-5s"}, "wait_seconds", 600.0),
        ({"waiting-time": "0"}, "wait_seconds", 600.0),
        ({"groups": "default/h"}, "groups", ("default/g",)),
        ({"groups": "[]"}, "groups", ("default/g",)),
        ({"groups": '["default/h"]'}, "groups", ("default/g", "default/h")),
    ],
)
def test_what_cannot_be_read_counts_as_not_said(
    notes: dict[str, str], field: str, expected: object
) -> None:
    assert getattr(read(member("p", least=3, notes=notes)), field) == expected


@pytest.mark.parametrize(
    ("least", "line"),
    [
        ("two", "got 'two', expected an integer of 32 bits"),
        ("", "got '', expected an integer of 32 bits"),
        (None, "got '', expected an integer of 32 bits"),
        ("2147483648", "got '2147483648', expected an integer of 32 bits"),
        ("-1", "got -1, expected an integer of at least 0"),
    ],
)
def test_a_bad_minimum_is_refused(least: Any, line: str) -> None:
    with pytest.raises(KoordError) as error:
        read(member("p", notes={"min-available": least}))
    where = "Pod default/p: annotations[gang.scheduling.koordinator.sh/min-available]: "
    assert str(error.value) == where + line


def test_a_bad_topology_is_refused() -> None:
    with pytest.raises(KoordError) as error:
        read(member("p", notes={"network-topology-spec": "[1]"}))
    assert "annotations[gang.scheduling.koordinator.sh/network-topology-spec]" in str(error.value)


def test_the_old_labels_still_work() -> None:
    old = pod("p", labels={OLD_NAME: "g", OLD_LEAST: "4"})
    assert decl.gang_id(old) == "default/g"
    assert not decl.by_pod_group(old)
    assert read(old).minimum == 4
    assert decl.by_pod_group(pod("p", labels={OLD_NAME: "g"}))
    both = member("p", least=2, labels={keys.POD_GROUP: "h", OLD_NAME: "i"})
    assert decl.gang_id(both) == "default/h"
    assert decl.by_pod_group(both)


def test_a_bad_minimum_of_an_old_label_is_told_of_the_label() -> None:
    with pytest.raises(KoordError) as error:
        read(pod("p", labels={OLD_NAME: "g", OLD_LEAST: "-1"}))
    assert str(error.value) == (
        "Pod default/p: labels[pod-group.scheduling.sigs.k8s.io/min-available]: "
        "got -1, expected an integer of at least 0"
    )


def test_a_pod_group_says_it_in_its_spec() -> None:
    found = decl.of_pod_group(
        pod_group(least=3, scheduleTimeoutSeconds=20, notes={"mode": "NonStrict"}),
        "default/g",
        DEFAULTS,
    )
    assert (found.minimum, found.wait_seconds, found.mode) == (3, 20.0, "NonStrict")
    assert found.from_pod_group
    assert decl.of_pod_group(
        pod_group(scheduleTimeoutSeconds=-1), "default/g", DEFAULTS
    ).wait_seconds == 600.0  # fmt: skip
    with pytest.raises(KoordError) as error:
        decl.of_pod_group(pod_group(least=-1), "default/g", DEFAULTS)
    assert str(error.value) == (
        "PodGroup default/g: spec.minMember: got -1, expected an integer of at least 0"
    )


def test_an_index_that_cannot_be_read_is_none() -> None:
    for text, index in [("3", 3), ("-2", -2), ("first", -1), ("", -1), (None, -1)]:
        assert decl.index_of(member("p", notes={"network-topology-index": text})) == index


@given(st.dictionaries(st.sampled_from([
    "min-available", "total-number", "mode", "match-policy", "waiting-time", "groups",
    "network-topology-spec", "network-topology-index",
]), st.text(max_size=20)))  # fmt: skip
def test_nothing_that_can_be_written_breaks_the_reader(notes: dict[str, str]) -> None:
    made = member("p", notes=notes)
    decl.index_of(made)
    try:
        found = read(made)
    except KoordError as error:
        line = str(error)
    else:
        line = ""
        assert found.minimum >= 0
        assert found.total >= found.minimum
    assert "\n" not in line
