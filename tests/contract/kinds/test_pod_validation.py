# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a pod, told field by field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import JSON_PATCH, Api, at
from tests.contract.documents import container, pod

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
PORT = "must be between 1 and 65535, inclusive"
NEEDED = "Required value"
CONTAINER = "spec.containers[0]"
REQUIRED_TERMS = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
)
SHORT = {
    "FieldValueRequired": NEEDED,
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotFound": "Not found",
}


def one(**fields: Any) -> dict[str, Any]:
    """A spec with one container that differs."""
    return {"containers": [container(**fields)]}


def resources(**given: Any) -> dict[str, Any]:
    return one(resources=given)


def node_terms(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": required}}


def toleration(**fields: Any) -> dict[str, Any]:
    return {"tolerations": [fields]}


CASES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"containers": []}, [("spec.containers", NEEDED)]),
    ({"containers": [{"name": "a"}]}, [(f"{CONTAINER}.image", NEEDED)]),
    ({"containers": [{"image": "a"}]}, [(f"{CONTAINER}.name", NEEDED)]),
    ({"containers": [container("A_")]}, [(f"{CONTAINER}.name", f'Invalid value: "A_": {LABEL}')]),
    (
        {"containers": [container("a"), container("a")]},
        [("spec.containers[1].name", 'Duplicate value: "a"')],
    ),
    (
        {"initContainers": [container("main")]},
        [("spec.initContainers[0].name", 'Duplicate value: "main"')],
    ),
    (
        {"restartPolicy": "Sometimes"},
        [
            (
                "spec.restartPolicy",
                'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
            )
        ],
    ),
    (
        {"dnsPolicy": "x"},
        [
            (
                "spec.dnsPolicy",
                'Unsupported value: "x": supported values: "ClusterFirstWithHostNet", '
                '"ClusterFirst", "Default", "None"',
            )
        ],
    ),
    (
        one(imagePullPolicy="x"),
        [
            (
                f"{CONTAINER}.imagePullPolicy",
                'Unsupported value: "x": supported values: "Always", "IfNotPresent", "Never"',
            )
        ],
    ),
    (
        resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
        [
            (
                f"{CONTAINER}.resources.requests",
                'Invalid value: "2": must be less than or equal to cpu limit of 1',
            )
        ],
    ),
    (
        resources(requests={"cpu": "-1"}),
        [
            (
                f"{CONTAINER}.resources.requests[cpu]",
                'Invalid value: "-1": must be greater than or equal to 0',
            )
        ],
    ),
    (
        resources(requests={"example.com/gpu": "1"}),
        [
            (
                f"{CONTAINER}.resources.limits",
                "Required value: Limit must be set for non overcommitable resources",
            )
        ],
    ),
    (
        resources(limits={"example.com/gpu": "500m"}),
        [
            (
                f"{CONTAINER}.resources.{part}[example.com/gpu]",
                'Invalid value: "500m": must be an integer',
            )
            for part in ("limits", "requests")
        ],
    ),
    (
        resources(requests={"gpus": "1"}),
        [
            (f"{CONTAINER}.resources.requests[gpus]", f'Invalid value: "gpus": must be a {what}')
            for what in (
                "standard resource type or fully qualified",
                "standard resource for containers",
            )
        ],
    ),
    (
        one(ports=[{"containerPort": 70000}]),
        [(f"{CONTAINER}.ports[0].containerPort", f"Invalid value: 70000: {PORT}")],
    ),
    (
        one(ports=[{"containerPort": 1, "protocol": "X"}]),
        [
            (
                f"{CONTAINER}.ports[0].protocol",
                'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
            )
        ],
    ),
    (
        {"hostNetwork": True, **one(ports=[{"containerPort": 1, "hostPort": 2}])},
        [
            (
                f"{CONTAINER}.ports[0].hostPort",
                "Invalid value: 2: must match `containerPort` when `hostNetwork` is true",
            )
        ],
    ),
    (
        one(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        [(f"{CONTAINER}.volumeMounts[0].name", 'Not found: "v"')],
    ),
    (
        {"volumes": [{"name": "v"}, {"name": "v"}]},
        [("spec.volumes[1].name", 'Duplicate value: "v"')],
    ),
    (one(env=[{"name": "", "value": "a"}]), [(f"{CONTAINER}.env[0].name", NEEDED)]),
    (
        {"activeDeadlineSeconds": 0},
        [
            (
                "spec.activeDeadlineSeconds",
                "Invalid value: 0: must be between 1 and 2147483647, inclusive",
            )
        ],
    ),
    (
        toleration(key="a", operator="Maybe"),
        [
            (
                "spec.tolerations[0].operator",
                'Unsupported value: "Maybe": supported values: "Equal", "Exists"',
            )
        ],
    ),
    (
        toleration(operator="Equal", value="a"),
        [
            (
                "spec.tolerations[0].operator",
                'Invalid value: "Equal": operator must be Exists when `key` is empty, which means '
                '"match all values and all keys"',
            )
        ],
    ),
    (
        toleration(key="a", operator="Exists", value="a"),
        [
            (
                "spec.tolerations[0].operator",
                "Invalid value: \"a\": value must be empty when `operator` is 'Exists'",
            )
        ],
    ),
    (
        toleration(key="a", effect="NoSchedule", tolerationSeconds=1),
        [
            (
                "spec.tolerations[0].effect",
                "Invalid value: \"NoSchedule\": effect must be 'NoExecute' when "
                "`tolerationSeconds` is set",
            )
        ],
    ),
    (
        node_terms(),
        [(REQUIRED_TERMS, "Required value: must have at least one node selector term")],
    ),
    (
        node_terms({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        [
            (
                f"{REQUIRED_TERMS}[0].matchExpressions[0].values",
                "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            )
        ],
    ),
    (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x"}
            ]
        },
        [
            (
                "spec.topologySpreadConstraints[0].maxSkew",
                "Invalid value: 0: must be greater than zero",
            ),
            ("spec.topologySpreadConstraints[0].topologyKey", "Required value: can not be empty"),
            (
                "spec.topologySpreadConstraints[0].whenUnsatisfiable",
                'Unsupported value: "x": supported values: "DoNotSchedule", "ScheduleAnyway"',
            ),
        ],
    ),
]


@pytest.mark.parametrize(("spec", "causes"), CASES, ids=lambda value: str(value)[:60])
def test_a_pod_that_is_wrong(
    api: Api, namespace: str, spec: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    answer = api.post(at("pods", namespace), pod("bad", **spec))
    listed = [f"{field}: {message}" for field, message in causes]
    told = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    assert answer.refusal == (422, "Invalid", f'Pod "bad" is invalid: {told}')
    assert [(field, message) for field, _, message in answer.causes] == causes
    assert all(message.startswith(SHORT[reason]) for _, reason, message in answer.causes)
    assert api.get(at("pods", namespace, "bad")).code == 404


UNCHANGEABLE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


@pytest.mark.parametrize(
    ("patch", "field", "message"),
    [
        ({"nodeName": "n"}, "spec", UNCHANGEABLE),
        ({"priority": 9}, "spec", UNCHANGEABLE),
        ({"nodeSelector": {"a": "b"}}, "spec", UNCHANGEABLE),
        ({"schedulerName": "b"}, "spec", UNCHANGEABLE),
        (
            {"containers": [container(), container("b")]},
            "spec.containers",
            "Forbidden: pod updates may not add or remove containers",
        ),
        (
            {"tolerations": []},
            "spec.tolerations",
            "Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            {"schedulingGates": [{"name": "a"}]},
            "spec.schedulingGates[0].name",
            "Forbidden: only deletion is allowed, but found new scheduling gate 'a'",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_an_update_of_a_pod_may_not_change(
    api: Api, namespace: str, patch: dict[str, Any], field: str, message: str
) -> None:
    body = pod("a", tolerations=[{"key": "a", "operator": "Exists"}])
    api.post(at("pods", namespace), body).ok["metadata"]
    answer = api.patch(at("pods", namespace, "a"), {"spec": patch})
    assert answer.refusal[:2] == (422, "Invalid")
    # The real server adds a textual difference, one line of which each field has.
    ((told, reason, why),) = answer.causes
    assert (told, reason, why.split("\n")[0]) == (field, "FieldValueForbidden", message)


def test_what_an_update_of_a_pod_may_change(api: Api, namespace: str) -> None:
    api.post(at("pods", namespace), pod("a", schedulingGates=[{"name": "wait"}])).ok["metadata"]
    patch = [
        {"op": "replace", "path": "/spec/containers/0/image", "value": "other:2"},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 60},
        {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "b", "operator": "Exists"}},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        {"op": "remove", "path": "/spec/schedulingGates"},
    ]
    changed = api.patch(at("pods", namespace, "a"), patch, JSON_PATCH).ok
    assert changed["spec"]["containers"][0]["image"] == "other:2"
    assert changed["spec"]["activeDeadlineSeconds"] == 60
    assert "schedulingGates" not in changed["spec"]
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "no-such"}, "no PriorityClass with name no-such was found"),
        (
            {"priority": 7},
            "the integer value of priority (7) must not be provided in pod spec; priority "
            "admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given "
            "PriorityClass name",
        ),
    ],
)
def test_priority_comes_from_the_class_alone(
    api: Api, namespace: str, spec: dict[str, Any], why: str
) -> None:
    answer = api.post(at("pods", namespace), pod("a", **spec))
    assert answer.refusal == (403, "Forbidden", f'pods "a" is forbidden: {why}')
