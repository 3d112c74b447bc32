# SPDX-License-Identifier: Apache-2.0
"""What a claim that gets no volume says by an event, with its type and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.controllers.test_controllers import eventually
from tests.contract.documents import document

CLAIMS = "persistentvolumeclaims"
MODES = ["ReadWriteOnce"]


@pytest.fixture
def api(cluster: Server) -> Api:
    """Requests to a server with controllers."""
    return cluster.api


@pytest.fixture
def namespace(api: Api) -> str:
    return make_namespace(api)


def claim(api: Api, namespace: str, name: str, cls: str, **spec: Any) -> None:
    whole = {"accessModes": MODES, "resources": {"requests": {"storage": "1Gi"}},
             "storageClassName": cls, **spec}  # fmt: skip
    made = document("v1", "PersistentVolumeClaim", name, spec=whole)
    assert api.post(at(CLAIMS, namespace), made).ok


def said(api: Api, namespace: str, name: str) -> list[tuple[str, str, str]]:
    listed = api.get(at("events", namespace)).ok["items"]
    return [
        (each["type"], each["reason"], each["message"])
        for each in listed
        if each["involvedObject"]["name"] == name
    ]


def told(api: Api, namespace: str, name: str, event: tuple[str, str, str]) -> None:
    eventually(lambda: said(api, namespace, name), lambda found: event in found)


def test_a_claim_that_gets_no_volume_says_why(api: Api, namespace: str) -> None:
    local, volume = f"local-{namespace}", f"v-{namespace}"
    made = document("storage.k8s.io/v1", "StorageClass", local,
                    provisioner="kubernetes.io/no-provisioner")  # fmt: skip
    assert api.post(at("storageclasses"), made).ok
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": MODES, "hostPath": {"path": "/x"},
            "storageClassName": "other"}  # fmt: skip
    assert api.post(at("persistentvolumes"), document("v1", "PersistentVolume", volume,
                                                         spec=spec)).ok  # fmt: skip
    for name, cls in (("none", ""), ("nosuch", "nosuch"), ("local", local)):
        claim(api, namespace, name, cls)
    claim(api, namespace, "class", "", volumeName=volume)
    larger = {"requests": {"storage": "2Gi"}}
    claim(api, namespace, "size", "other", volumeName=volume, resources=larger)
    claim(api, namespace, "block", "other", volumeName=volume, volumeMode="Block")
    claim(api, namespace, "modes", "other", volumeName=volume, accessModes=["ReadWriteMany"])
    mismatch = f'Cannot bind to requested volume "{volume}": '
    wanted = {
        "none": ("Normal", "FailedBinding", "no persistent volumes available for this claim and "
                 "no storage class is set"),
        "nosuch": ("Warning", "ProvisioningFailed",
                   'storageclass.storage.k8s.io "nosuch" not found'),
        "local": ("Warning", "ProvisioningFailed",
                  "no volume plugin matched name: kubernetes.io/no-provisioner"),
        "class": ("Warning", "VolumeMismatch", f"{mismatch}storageClassName does not match"),
        "size": ("Warning", "VolumeMismatch", f"{mismatch}requested PV is too small"),
        "block": ("Warning", "VolumeMismatch", f"{mismatch}incompatible volumeMode"),
        "modes": ("Warning", "VolumeMismatch", f"{mismatch}incompatible accessMode"),
    }  # fmt: skip
    for name, event in wanted.items():
        told(api, namespace, name, event)
    claim(api, namespace, "owner", "other", volumeName=volume)
    eventually(
        lambda: api.get(f"{at(CLAIMS, namespace)}/owner").ok["status"].get("phase"),
        lambda phase: phase == "Bound",
    )
    claim(api, namespace, "late", "other", volumeName=volume)
    taken = f'volume "{volume}" already bound to a different claim.'
    told(api, namespace, "late", ("Warning", "FailedBinding", taken))
