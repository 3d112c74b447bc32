# SPDX-License-Identifier: Apache-2.0
"""What becomes of single objects as they enter."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from koord.api.codec import convert, to_document
from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.controllers.cluster import transforms
from koord.controllers.scheduler.feature_gates import feature_gates
from tests.kube.harness import logged

OLD_NAMES = {
    "koordinator.sh/batch-cpu": "1",
    "koordinator.sh/batch-memory": "2",
    "kubernetes.io/rdma": "3",
    "kubernetes.io/fpga": "4",
    "kubernetes.io/gpu": "5",
    "kubernetes.io/gpu-core": "6",
    "kubernetes.io/gpu-memory": "7",
    "kubernetes.io/gpu-memory-ratio": "8",
    "cpu": "9",
}
NAMES = {
    "kubernetes.io/batch-cpu": "1",
    "kubernetes.io/batch-memory": "2",
    "koordinator.sh/rdma": "3",
    "koordinator.sh/fpga": "4",
    "koordinator.sh/gpu": "5",
    "koordinator.sh/gpu-core": "6",
    "koordinator.sh/gpu-memory": "7",
    "koordinator.sh/gpu-memory-ratio": "8",
    "cpu": "9",
}
BOTH = {"koordinator.sh/batch-cpu": "1", "kubernetes.io/batch-cpu": "2"}


def _pod_spec(amounts: dict[str, str]) -> dict[str, Any]:
    both = {"requests": amounts, "limits": amounts}
    return {
        "containers": [
            {"name": "plain", "resources": {"requests": {"cpu": "1"}}},
            {"name": "main", "resources": both},
        ],
        "initContainers": [{"name": "first", "resources": both}],
        "overhead": amounts,
    }


def _pod(amounts: dict[str, str]) -> dict[str, Any]:
    held = {"name": "main", "allocatedResources": amounts, "resources": {"requests": amounts}}
    return {
        "metadata": {"name": "p"},
        "spec": _pod_spec(amounts),
        "status": {"containerStatuses": [{"name": "plain"}, held], "initContainerStatuses": [held]},
    }


def _reservation(amounts: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": "r"},
        "spec": {"template": {"metadata": {"name": "t"}, "spec": _pod_spec(amounts)}, "owners": []},
        "status": {"nodeName": "n", "allocatable": amounts},
    }


def _device(amounts: dict[str, str]) -> dict[str, Any]:
    cards = [
        {"type": "gpu", "id": "a", "health": True, "resources": amounts},
        {"type": "gpu", "id": "b", "health": False},
    ]
    return {"metadata": {"name": "n"}, "spec": {"devices": cards}}


def _node(amounts: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "status": {"capacity": amounts, "allocatable": amounts}}


KINDS = [
    (Node, transforms.node, _node),
    (Pod, transforms.pod, _pod),
    (Reservation, transforms.reservation, _reservation),
    (Device, transforms.device, _device),
]


@pytest.mark.parametrize(("kind", "by", "document"), KINDS)
def test_names(kind: Any, by: Any, document: Any) -> None:
    for amounts, expected in ((OLD_NAMES, NAMES), (BOTH, BOTH)):
        was = convert(document(amounts), kind, "x")
        assert by(was) == convert(document(expected), kind, "x")
        # Its parts may be other objects' too.
        assert was == convert(document(amounts), kind, "x")


@pytest.mark.parametrize(("kind", "by", "document"), KINDS)
def test_what_needs_no_change_comes_through_as_it_came(kind: Any, by: Any, document: Any) -> None:
    for _ in range(2):
        found = convert(document(NAMES), kind, "x")
        assert by(found) is found
        assert by(found) is found
    nothing = kind()
    assert by(nothing) is nothing


def test_pods_of_one_workload_and_of_another() -> None:
    """What was found of the pods before says nothing of one that differs in any part."""
    old, new = (convert(_pod(each), Pod, "x") for each in (OLD_NAMES, NAMES))
    for part in ("containers", "init_containers", "overhead"):
        mixed = convert(_pod(NAMES), Pod, "x")
        assert transforms.pod(mixed) is mixed
        setattr(mixed.spec, part, getattr(old.spec, part))
        assert to_document(transforms.pod(mixed).spec) == to_document(new.spec)


def test_a_reservation_that_cannot_be_read_is_told_of_once() -> None:
    def node(name: str, text: str) -> Node:
        meta = {"name": name, "annotations": {"node.koordinator.sh/reservation": text}}
        return convert({"metadata": meta, "status": {"allocatable": {"cpu": "8"}}}, Node, name)

    with logged("koord.cluster", logging.WARNING) as records:
        for name, text in (
            ("bad", "{"), ("bad", "{"), ("cpus", '{"reservedCPUs":"a-b"}'),
            ("less", '{"resources":{"memory":"1Gi","cpu":"-2"}}'),
        ):  # fmt: skip
            found = transforms.node(node(name, text))
            assert to_document(found.status.allocatable) == {"cpu": "8"}
    assert [record.__dict__["koord_fields"]["error"] for record in records] == [
        "Node bad: annotations[node.koordinator.sh/reservation]: got '{', expected JSON (Input data"
        " was truncated)",
        "Node cpus: annotations[node.koordinator.sh/reservation].reservedCPUs: cpu list: got"
        " 'a-b', expected ids and ranges such as 0-3,8",
        "Node less: annotations[node.koordinator.sh/reservation].resources[cpu]: got '-2',"
        " expected an amount of 0 or more",
    ]


def test_gates_add_to_what_pods_pass_through() -> None:
    annotation = "pod.koordinator.sh/replace-resources"
    document = {
        "metadata": {"name": "p", "annotations": {annotation: "cpu:kubernetes.io/batch-cpu"}},
        "spec": {
            "priority": 0,
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "2", "kubernetes.io/gpu": "50"}}}
            ],
        },
    }
    text = "ReplaceResourcesTransformer=true,PriorityTransformer=true"
    change = transforms.transforms(feature_gates(text))[Pod]
    spec = change(convert(document, Pod, "Pod p")).spec
    requests = {name: str(each) for name, each in spec.containers[0].resources.requests.items()}
    assert requests == {"kubernetes.io/batch-cpu": "2k", "koordinator.sh/gpu": "50"}
    # Without native requests it is BestEffort by now, so its class is batch.
    assert spec.priority == 5500
    assert transforms.transforms(feature_gates()) is transforms.TRANSFORMS
