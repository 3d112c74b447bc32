# SPDX-License-Identifier: Apache-2.0
"""What pods ask for, and what they count as on their nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import requests
from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from tests.models.pod_requests import NONZERO, counted_of, scored_of

CPUS = st.sampled_from(["0", "250m", "1", "2", "3"])
AMOUNTS = st.fixed_dictionaries(
    {}, optional={"cpu": CPUS, "memory": st.sampled_from(["0", "1Gi", "2Gi"]),
                  "example.com/x": st.sampled_from(["1", "4"])},
)  # fmt: skip
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS})
NAMES = st.sampled_from(["a", "b", "c", "d"])
CONTAINERS = st.fixed_dictionaries({"name": NAMES, "resources": RESOURCES})
INITS = st.fixed_dictionaries(
    {"name": NAMES, "resources": RESOURCES}, optional={"restartPolicy": st.just("Always")}
)
STATES = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={"allocatedResources": AMOUNTS, "resources": RESOURCES | st.none()},
    ),
    max_size=3,
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["PodResizePending", "PodResizePending", "Ready"])},
        optional={"reason": st.sampled_from(["Infeasible", "Deferred"]),
                  "status": st.sampled_from(["True", "False"])},
    ),
    max_size=2,
)  # fmt: skip
PODS = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(CONTAINERS, min_size=1, max_size=2)},
            optional={"initContainers": st.lists(INITS, max_size=3), "resources": RESOURCES,
                      "overhead": AMOUNTS},
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={"containerStatuses": STATES, "initContainerStatuses": STATES,
                      "conditions": CONDITIONS},
        ),
    }
)  # fmt: skip


def _pod(document: dict[str, Any]) -> Pod:
    return convert(document, Pod, "Pod x")


def _known(amounts: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in amounts.items() if value and name != requests.PODS}


@given(PODS)
def test_counted_and_asked_for_are_what_the_model_says(document: dict[str, Any]) -> None:
    pod, unseen = _pod(document), {"spec": document["spec"]}
    assert _known(requests.counted(pod)) == _known(counted_of(document))
    assert _known(requests.requested(pod)) == _known(counted_of(unseen))
    if requests.holds_what_it_asks(pod):
        assert requests.counted(pod) == requests.requested(pod)
    least = NONZERO["cpu"], NONZERO["memory"]
    for found, model in (
        (requests.nonzero(pod, *least, held=True), scored_of(document)),
        (requests.nonzero(pod, *least), counted_of(unseen, NONZERO)),
    ):
        assert found == (model.get("cpu", 0), model.get("memory", 0))


@pytest.mark.parametrize(
    ("whole", "to_come", "on_node"),
    [
        ({}, (1100, 400 << 20), (1100, 400 << 20)),  # each container that says nothing
        ({"cpu": "3"}, (3000, 400 << 20), (3000, 400 << 20)),  # of memory none says anything
        ({"memory": "1Gi"}, (1100, 1 << 30), (1000, 1 << 30)),  # of CPU one does
    ],
)
def test_what_a_container_counts_as_that_says_nothing_depends_on_the_whole_pod(
    whole: dict[str, str], to_come: tuple[int, int], on_node: tuple[int, int]
) -> None:
    says = {"name": "a", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [says, {"name": "b"}], "resources": {"requests": whole}}
    pod, least = _pod({"spec": spec}), (NONZERO["cpu"], NONZERO["memory"])
    assert requests.nonzero(pod, *least) == to_come
    assert requests.nonzero(pod, *least, held=True) == on_node


def _resized(
    asks: str, allocated: str, runs: str | None, reason: str = "", **container: Any
) -> dict[str, Any]:
    """A container ``c`` that asks for some CPU while its node says otherwise."""
    state: dict[str, Any] = {"name": "c", "allocatedResources": {"cpu": allocated}}
    if runs is not None:
        state["resources"] = {"requests": {"cpu": runs}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    asking = {"name": "c", "resources": {"requests": {"cpu": asks}}, **container}
    return {
        "spec": {"containers": [asking]},
        "status": {"containerStatuses": [state], "conditions": conditions if reason else []},
    }


@pytest.mark.parametrize(
    ("document", "cpu_milli"),
    [
        (_resized("4", "1", "1"), 4000),  # up: the room is taken before the node gives it
        (_resized("1", "4", "4"), 4000),  # down: it is held until the node takes it away
        (_resized("1", "1", "4"), 4000),  # set aside already, and not yet in force
        (_resized("1", "1", "1"), 1000),
        (_resized("4", "1", "1", "Deferred"), 4000),
        (_resized("4", "1", "1", "Infeasible"), 1000),  # what will never be is not counted
        (_resized("1", "4", None), 1000),  # a node that tells of no resources resizes nothing
        (_resized("1", "4", "4", name="other"), 1000),  # no state of that name
    ],
)
def test_a_pod_that_is_resized_counts_as_the_most_of_what_it_asks_and_holds(
    document: dict[str, Any], cpu_milli: int
) -> None:
    pod = _pod(document)
    assert requests.counted(pod) == {"cpu": cpu_milli, "pods": 1}
    asks = document["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    assert requests.requested(pod) == {"cpu": int(asks) * 1000, "pods": 1}


@pytest.mark.parametrize(("policy", "cpu_milli"), [({}, 1000), ({"restartPolicy": "Always"}, 5000)])
def test_of_init_containers_only_sidecars_are_resized(
    policy: dict[str, str], cpu_milli: int
) -> None:
    document = _resized("1", "1", "1", name="main")
    small = {"name": "c", "resources": {"requests": {"cpu": "1"}}, **policy}
    document["spec"]["initContainers"] = [small]
    document["status"] = _resized("1", "4", "4")["status"]
    document["status"]["initContainerStatuses"] = document["status"].pop("containerStatuses")
    assert requests.counted(_pod(document))["cpu"] == cpu_milli


@pytest.mark.parametrize(
    ("document", "is_so"),
    [(_resized("1", "1", "1"), True), (_resized("1", "1000m", "1"), True),
     (_resized("1", "2", None), True), (_resized("1", "2", "1"), False),
     (_resized("1", "1", "2"), False), (_resized("2", "1", "1", "Infeasible"), False)],
)  # fmt: skip
def test_a_pod_that_is_not_resized_is_known_without_a_sum(
    document: dict[str, Any], is_so: bool
) -> None:
    assert requests.holds_what_it_asks(_pod(document)) is is_so


def test_amounts_for_the_whole_pod_stay_those_of_the_spec() -> None:
    document = _resized("1", "4", "4")
    document["spec"]["resources"] = {"requests": {"cpu": "2"}}
    document["spec"]["overhead"] = {"cpu": "100m"}
    assert requests.counted(_pod(document))["cpu"] == 2100


@pytest.mark.parametrize(
    ("conditions", "is_so"),
    [
        ([], False),
        ([("Ready", "Infeasible")], False),
        ([("PodResizePending", "Infeasible")], True),
        ([("PodResizePending", "Deferred"), ("PodResizePending", "Infeasible")], False),
        ([("PodResizeInProgress", "Infeasible")], False),
    ],
)
def test_the_first_pending_condition_says_whether_a_resize_will_ever_be(
    conditions: list[tuple[str, str]], is_so: bool
) -> None:
    # Whatever its status says.
    found = [{"type": kind, "status": "False", "reason": reason} for kind, reason in conditions]
    document = {"spec": {"containers": []}, "status": {"conditions": found}}
    assert requests.resize_is_infeasible(_pod(document)) is is_so


ODD = st.sampled_from(["0", "1n", "-1n", "-1", "250m", "3", "1e30", "-1e30", "9Ei", "8192Pi"])


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/x"]), ODD),
        min_size=1, max_size=2,
    )
)  # fmt: skip
def test_one_pass_finds_what_two_do(containers: list[dict[str, str]]) -> None:
    document = {
        "spec": {"containers": [{"name": "c", "resources": {"requests": r}} for r in containers]}
    }
    pod = _pod(document)
    problem, asked = requests.problem_and_request(pod)
    assert problem == requests.problem(pod)
    assert asked == requests.effective(pod)


def test_a_fraction_below_zero_cannot_be_meant() -> None:
    document = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1n"}}}]}}
    problem, asked = requests.problem_and_request(_pod(document))
    assert problem == "spec.containers[0].resources.requests[cpu]: got -1n, expected 0 or more"
    assert asked == {"cpu": 0}
