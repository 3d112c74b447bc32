# SPDX-License-Identifier: Apache-2.0
"""The guide's manifests in canonical form, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api import Draft, GroupQuota, NodeMetric, decode, decode_as, load_manifests, to_document
from koord.api.protocol import keys
from koord.api.protocol.quotas import as_tree_group, ceiling
from koord.base.documents import parse_documents
from koord.base.errors import KoordError

from .samples import DATA

GPU = {
    "koordinator.sh/gpu-core": "100",
    "koordinator.sh/gpu-memory-ratio": "100",
    "koordinator.sh/gpu-memory": "40Gi",
}
A100 = {"node.koordinator.sh/gpu-model": "nvidia-a100"}

CANONICAL: list[tuple[str, int, dict[str, Any]]] = [
    (
        "nodeslo.yaml",
        0,
        {
            "spec": {
                "resourceUsedThresholdWithBE": {
                    "enable": True,
                    "cpuSuppressThresholdPercent": 65,
                    "cpuEvictBEUsageThresholdPercent": 85,
                    "memoryEvictThresholdPercent": 75,
                    "memoryAllocatableEvictThresholdPercent": 80,
                },
                "resourceQOSStrategy": {
                    "lsrClass": {
                        "cpuQOS": {"enable": True, "groupIdentity": 0},
                        "memoryQOS": {
                            "enable": True, "minLimitPercent": 100, "lowLimitPercent": 100,
                            "throttlingPercent": 0, "wmarkRatio": 95, "wmarkScalePermill": 50,
                            "wmarkMinAdj": -25,
                        },
                        "blkioQOS": {"enable": False},
                    },
                    "lsClass": {
                        "cpuQOS": {"enable": True, "groupIdentity": 2},
                        "memoryQOS": {
                            "enable": True, "minLimitPercent": 0, "lowLimitPercent": 0,
                            "throttlingPercent": 100, "wmarkRatio": 90, "wmarkScalePermill": 30,
                            "wmarkMinAdj": -25,
                        },
                    },
                    "beClass": {
                        "cpuQOS": {"enable": True, "groupIdentity": -1},
                        "memoryQOS": {
                            "enable": True, "minLimitPercent": 0, "lowLimitPercent": 0,
                            "throttlingPercent": 100, "wmarkRatio": 80, "wmarkScalePermill": 30,
                            "wmarkMinAdj": 50,
                        },
                    },
                },
            },
        },
    ),
    (
        "nodemetric.yaml",
        0,
        {
            "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
            "status": {
                "updateTime": "2024-01-01T12:00:00Z",
                "nodeMetric": {
                    "usage": {"cpu": "64", "memory": "64Gi"},
                    "request": {"cpu": "100", "memory": "100Gi"},
                    "limit": {"cpu": "128", "memory": "128Gi"},
                },
                "beMetric": {
                    "usage": {"cpu": "20", "memory": "20Gi"},
                    "request": {"cpu": "30", "memory": "30Gi"},
                },
                "lsMetric": {
                    "usage": {"cpu": "44", "memory": "44Gi"},
                    "request": {"cpu": "70", "memory": "70Gi"},
                },
                "podMetrics": [
                    {
                        "podRef": {"namespace": "default", "name": "web-server-1"},
                        "containers": [
                            {
                                "name": "app",
                                "usage": {"cpu": "2", "memory": "2Gi"},
                                "limit": {"cpu": "4", "memory": "4Gi"},
                            }
                        ],
                    }
                ],
            },
        },
    ),
    (
        "device.yaml",
        0,
        {
            "spec": {
                "devices": [
                    {"type": "gpu", "labels": A100, "id": "gpu-uuid-001", "minor": 0,
                     "health": True, "resources": GPU},
                    {"type": "gpu", "labels": A100, "id": "gpu-uuid-002", "minor": 1,
                     "health": True, "resources": GPU},
                    {"type": "rdma", "labels": {"node.koordinator.sh/rdma-model": "mellanox-ib"},
                     "id": "rdma-uuid-001", "minor": 0, "health": True,
                     "resources": {"koordinator.sh/rdma": "100"}},
                    {"type": "fpga", "labels": {"node.koordinator.sh/fpga-model": "xilinx-u250"},
                     "id": "fpga-uuid-001", "minor": 0, "health": True,
                     "resources": {"koordinator.sh/fpga": "100"}},
                ]
            },
            "status": {
                "allocations": [
                    {
                        "type": "gpu",
                        "entries": [
                            {"name": "ml-training-1", "namespace": "default", "minors": [0],
                             "resources": {"koordinator.sh/gpu-core": "50",
                                           "koordinator.sh/gpu-memory-ratio": "50"}},
                            {"name": "ml-training-2", "namespace": "default", "minors": [1],
                             "resources": {"koordinator.sh/gpu-core": "100",
                                           "koordinator.sh/gpu-memory-ratio": "100"}},
                        ],
                    }
                ]
            },
        },
    ),
    (
        "elasticquotas.yaml",
        0,
        {
            "spec": {
                "hard": {"cpu": "100", "memory": "100Gi", "pods": "100"},
                "min": {"cpu": "50", "memory": "50Gi", "pods": "50"},
                "max": {"cpu": "200", "memory": "150Gi", "pods": "150"},
                "priority": 50,
            },
            "status": {},
        },
    ),
    (
        "elasticquotas.yaml",
        1,
        {
            "spec": {
                "hard": {"cpu": "500", "memory": "500Gi"},
                "min": {"cpu": "300", "memory": "300Gi"},
                "max": {"cpu": "500", "memory": "500Gi"},
                "priority": 100,
            },
            "status": {},
        },
    ),
    (
        "reservation-jobs.yaml",
        0,
        {
            "spec": {
                "template": {
                    "metadata": {},
                    "spec": {
                        "containers": [
                            {
                                "name": "spark-executor",
                                "resources": {
                                    "requests": {"cpu": "8", "memory": "16Gi"},
                                    "limits": {"cpu": "8", "memory": "16Gi"},
                                },
                            }
                        ]
                    },
                },
                "owners": [
                    {"labelSelector": {"matchLabels": {
                        "job-id": "spark-123", "app": "spark-executor"}}}
                ],
                "ttl": "10m",
                "preAllocation": True,
            },
            "status": {},
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "index", "expected"), CANONICAL)
def test_the_canonical_form_of_each_manifest(
    name: str, index: int, expected: dict[str, Any]
) -> None:
    manifest = load_manifests((DATA / "guide" / name).read_text(), name)[index]
    document = to_document(manifest)
    for identity in ("apiVersion", "kind", "metadata"):
        del document[identity]
    assert document == expected


def test_a_flat_quota_as_a_group_of_the_tree() -> None:
    quota = load_manifests((DATA / "guide" / "elasticquotas.yaml").read_text())[0]
    assert isinstance(quota, GroupQuota)
    group = as_tree_group(quota)
    assert group.metadata.name == "team-a/team-a-quota"
    assert group.metadata.labels[keys.QUOTA_PARENT] == "koord-guide"
    limits = {"cpu": "100", "memory": "100Gi", "pods": "100"}
    assert to_document(group.spec.max) == limits
    assert to_document(group.spec.min) == {"cpu": "50", "memory": "50Gi", "pods": "50"}
    assert json.loads(group.metadata.annotations[keys.QUOTA_SHARED_WEIGHT]) == limits


def test_a_ceiling_takes_what_only_one_of_max_and_hard_has() -> None:
    spec = {"max": {"cpu": "3", "memory": "1Gi"}, "hard": {"cpu": "2", "pods": "5"}}
    quota = decode({"apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuota",
                    "metadata": {"name": "q"}, "spec": spec})  # fmt: skip
    assert isinstance(quota, GroupQuota)
    assert to_document(ceiling(quota)) == {"cpu": "2", "memory": "1Gi", "pods": "5"}


@pytest.mark.parametrize(("name", "index", "expected"), CANONICAL)
def test_bytes_of_a_known_type_are_normalised_too(
    name: str, index: int, expected: dict[str, Any]
) -> None:
    document = parse_documents((DATA / "guide" / name).read_text(), name)[index]
    found = decode(document)
    assert decode_as(json.dumps(document).encode(), type(found)) == found
    assert to_document(found)["spec"] == expected["spec"]


def test_escapes_hide_no_shape() -> None:
    text = '{"metadata":{"name":"n"},"spec":{"\\u006eodeName":"other"}}'
    with pytest.raises(KoordError, match=r"spec\.nodeName"):
        decode_as(text, NodeMetric)


def test_a_device_is_labelled_with_the_model_of_its_first_gpu() -> None:
    (device,) = load_manifests((DATA / "guide" / "device.yaml").read_text())
    assert device.metadata.labels == A100


def _slo(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
            "metadata": {"name": "n"}, "spec": spec}  # fmt: skip


def _scheduling(kind: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": kind,
            "metadata": {"name": "n"}, **parts}  # fmt: skip


def _metric(spec: dict[str, Any]) -> dict[str, Any]:
    return {**_slo(spec), "kind": "NodeMetric"}


def test_the_canonical_form_wins() -> None:
    spec = {
        "resourceThresholdStrategy": {"enable": True, "thresholds": {"cpu-suppress-percent": 65}},
        "resourceUsedThresholdWithBE": {"enable": False, "cpuSuppressThresholdPercent": 40},
        "resourceQOSStrategy": {
            "beClass": {"blkIOQOS": {"enable": True}, "blkioQOS": {"enable": False}}
        },
    }
    document = to_document(decode(_slo(spec)))["spec"]
    assert document["resourceUsedThresholdWithBE"] == {
        "enable": False,
        "cpuSuppressThresholdPercent": 40,
    }
    assert document["resourceQOSStrategy"]["beClass"] == {"blkioQOS": {"enable": False}}


def test_an_expired_reservation_has_failed() -> None:
    reservation = decode(_scheduling("Reservation", status={"phase": "Expired"}))
    assert to_document(reservation)["status"] == {
        "phase": "Failed",
        "conditions": [{"type": "Ready", "status": "False", "reason": "Expired"}],
    }


def test_the_argument_is_left_alone() -> None:
    document = _slo({"resourceThresholdStrategy": {"thresholds": {"cpu-suppress-percent": 65}}})
    before = json.dumps(document)
    decode(document)
    assert json.dumps(document) == before


def test_a_draft_writes_the_canonical_form_and_removes_the_other() -> None:
    draft: Draft[Any] = Draft(
        _slo({"resourceThresholdStrategy": {"thresholds": {"cpu-suppress-percent": 65}}, "x": 1})
    )
    assert draft.merge_patch() == {
        "spec": {
            "resourceThresholdStrategy": None,
            "resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": 65},
        }
    }


REFUSED = [
    (
        _slo({"resourceThresholdStrategy": {"thresholds": {"cpu-suppress-percent": 101}}}),
        "object: spec.resourceThresholdStrategy.thresholds.cpu-suppress-percent: got 101, "
        "expected an integer from 0 to 100",
    ),
    (
        _slo({"resourceThresholdStrategy": {"thresholds": {"disk-percent": 1}}}),
        "object: spec.resourceThresholdStrategy.thresholds: got 'disk-percent', expected one of "
        "cpu-suppress-percent, cpu-evict-threshold-percent, memory-evict-threshold-percent, "
        "memory-request-utilization-percent",
    ),
    (
        _slo({"resourceThresholdStrategy": {"limits": {}}}),
        "object: spec.resourceThresholdStrategy: got 'limits', expected one of enable, thresholds",
    ),
    (
        _metric({"nodeName": "other"}),
        "object: spec.nodeName: got 'other', expected the object's name, n",
    ),
    (
        _metric({"collectionIntervalSeconds": 0}),
        "object: spec.collectionIntervalSeconds: got 0, expected an integer >= 1",
    ),
    (
        _scheduling("Device", spec={"devices": [{"deviceType": "gpu", "totalMemory": "40Gx"}]}),
        "object: spec.devices[0].totalMemory: quantity: got '40Gx'",
    ),
    (
        _scheduling("Device", status={"deviceAllocations": [{"device": {"uuid": "none"}}]}),
        "object: status.deviceAllocations[0].device.uuid: got 'none', "
        "expected the uuid of a card above",
    ),
    (
        _scheduling(
            "Device",
            spec={"devices": [{"deviceType": "gpu", "uuid": "a"}]},
            status={"deviceAllocations": [
                {"device": {"uuid": "a"}, "allocations": [{"allocated": "150%"}]}]},
        ),
        "object: status.deviceAllocations[0].allocations[0].allocated: got '150%', "
        'expected a percentage from "0%" to "100%"',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), REFUSED)
def test_what_cannot_be_mapped_is_named(document: dict[str, Any], message: str) -> None:
    with pytest.raises(KoordError) as raised:
        decode(document)
    assert str(raised.value).startswith(message)
