# SPDX-License-Identifier: Apache-2.0
"""persistentVolumeClaimRetentionPolicy: which claims of a StatefulSet go with what."""

from __future__ import annotations

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.controllers.test_controllers import eventually, names
from tests.contract.documents import container, document

SETS = "apps/v1/statefulsets"


@pytest.fixture
def api(cluster: Server) -> Api:
    """Requests to a server with controllers."""
    return cluster.api


@pytest.fixture
def namespace(api: Api) -> str:
    return make_namespace(api)


def make(api: Api, namespace: str, deleted: str, scaled: str) -> Document:
    main = container(volumeMounts=[{"name": "data", "mountPath": "/d"}])
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "serviceName": "db",
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled},
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [main]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": asked}],
    }
    made: Document = api.post(at(SETS, namespace), document("apps/v1", "StatefulSet", "db",
                                                            spec=spec)).ok  # fmt: skip
    eventually(lambda: owners(api, namespace), lambda found: len(found) == 2)
    return made


def owners(api: Api, namespace: str) -> dict[str, list[str]]:
    """By name of the claims that stay: kinds and names of their controllers."""
    items = api.get(at("persistentvolumeclaims", namespace)).ok["items"]
    return {
        item["metadata"]["name"]: [
            f"{each['kind']} {each['name']}"
            for each in item["metadata"].get("ownerReferences", [])
            if each["controller"]
        ]
        for item in items
        if "deletionTimestamp" not in item["metadata"]
    }


def become(api: Api, namespace: str, wanted: dict[str, list[str]]) -> None:
    eventually(lambda: owners(api, namespace), lambda found: found == wanted)


def scale(api: Api, namespace: str, replicas: int) -> None:
    api.patch(f"{at(SETS, namespace)}/db", {"spec": {"replicas": replicas}}).ok  # noqa: B018


def test_claims_of_pods_too_many_and_of_a_set_that_goes_go_with_them(
    api: Api, namespace: str
) -> None:
    make(api, namespace, "Delete", "Delete")
    mine = ["StatefulSet db"]
    become(api, namespace, {"data-db-0": mine, "data-db-1": mine})
    scale(api, namespace, 1)
    become(api, namespace, {"data-db-0": mine})
    # A new pod of the old name gets a new claim.
    scale(api, namespace, 2)
    become(api, namespace, {"data-db-0": mine, "data-db-1": mine})
    api.delete(f"{at(SETS, namespace)}/db").ok  # noqa: B018
    become(api, namespace, {})


def test_a_policy_may_change(api: Api, namespace: str) -> None:
    make(api, namespace, "Retain", "Delete")
    become(api, namespace, {"data-db-0": [], "data-db-1": []})
    for deleted, holders in (("Delete", ["StatefulSet db"]), ("Retain", [])):
        kept = {"whenDeleted": deleted, "whenScaled": "Retain"}
        change = {"spec": {"persistentVolumeClaimRetentionPolicy": kept}}
        api.patch(f"{at(SETS, namespace)}/db", change).ok  # noqa: B018
        wanted = dict.fromkeys(("data-db-0", "data-db-1"), holders)
        become(api, namespace, wanted)
    scale(api, namespace, 0)
    eventually(lambda: names(api, "pods", namespace), lambda found: not found)
    assert owners(api, namespace) == {"data-db-0": [], "data-db-1": []}
