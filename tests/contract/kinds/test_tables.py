# SPDX-License-Identifier: Apache-2.0
"""Answers as tables, which is what ``kubectl get`` prints, and as metadata alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import JSON, Api, Document, at
from tests.contract.documents import (
    budget,
    config_map,
    deployment,
    job,
    lease,
    node,
    pod,
    priority_class,
    service,
    workload,
)

TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}"
METADATA = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,{JSON}"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,{JSON}"
AGE = "0s"

CASES: list[tuple[str, Document, str, list[Any]]] = [
    (
        "pods",
        pod("a"),
        "Name Ready Status Restarts Age IP Node Nominated_Node Readiness_Gates",
        ["a", "0/1", "Pending", "0", AGE, "<none>", "<none>", "<none>", "<none>"],
    ),
    ("configmaps", config_map("a", data={"x": "y"}), "Name Data Age", ["a", 1, AGE]),
    (
        "deployments",
        deployment("a", replicas=2),
        "Name Ready Up-to-date Available Age Containers Images Selector",
        ["a", "0/2", 0, 0, AGE, "main", "registry.test/app:1", "app=a"],
    ),
    (
        "replicasets",
        workload("ReplicaSet", "a"),
        "Name Desired Current Ready Age Containers Images Selector",
        ["a", 1, 0, 0, AGE, "main", "registry.test/app:1", "app=a"],
    ),
    (
        "statefulsets",
        workload("StatefulSet", "a"),
        "Name Ready Age Containers Images",
        ["a", "0/1", AGE, "main", "registry.test/app:1"],
    ),
    (
        "daemonsets",
        workload("DaemonSet", "a"),
        "Name Desired Current Ready Up-to-date Available Node_Selector Age Containers Images "
        "Selector",
        ["a", 0, 0, 0, 0, 0, "<none>", AGE, "main", "registry.test/app:1", "app=a"],
    ),
    (
        "poddisruptionbudgets",
        budget("a", minAvailable=1),
        "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
        ["a", "1", "N/A", 0, AGE],
    ),
    ("leases", lease("a", holderIdentity="me"), "Name Holder Age", ["a", "me", AGE]),
]


def words(table: Document) -> str:
    return " ".join(column["name"].replace(" ", "_") for column in table["columnDefinitions"])


def with_age(cells: list[Any]) -> list[Any]:
    """Cells in which whatever is an age of a few seconds is none."""
    return [AGE if isinstance(cell, str) and cell in {"1s", "2s", "3s"} else cell for cell in cells]


@pytest.mark.parametrize(
    ("plural", "body", "columns", "cells"), CASES, ids=[case[0] for case in CASES]
)
def test_columns_and_cells(
    api: Api, namespace: str, plural: str, body: Document, columns: str, cells: list[Any]
) -> None:
    made = api.post(at(plural, namespace), body).ok["metadata"]
    table = api.get(at(plural, namespace, "a"), accept=TABLE).ok
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert words(table) == columns
    (row,) = table["rows"]
    assert with_age(row["cells"]) == cells
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["uid"] == made["uid"]
    first = table["columnDefinitions"][0]
    assert (first["type"], first["format"], first["priority"]) == ("string", "name", 0)
    assert first["description"]


def test_cluster_wide_objects(api: Api, namespace: str) -> None:
    name = f"t-{namespace}"
    for plural, body in (("nodes", node(name)), ("priorityclasses", priority_class(name, 7))):
        api.post(at(plural), body).ok["metadata"]
    table = api.get(at("nodes", name=name), accept=TABLE).ok
    assert words(table) == (
        "Name Status Roles Age Version Internal-IP External-IP OS-Image Kernel-Version "
        "Container-Runtime"
    )
    assert with_age(table["rows"][0]["cells"]) == (
        [name, "Unknown", "<none>", AGE, "", "<none>", "<none>", *["<unknown>"] * 3]
    )
    table = api.get(at("priorityclasses", name=name), accept=TABLE).ok
    assert words(table) == "Name Value Global-Default Age PreemptionPolicy"
    assert with_age(table["rows"][0]["cells"]) == [name, 7, False, AGE, "PreemptLowerPriority"]
    for plural in ("nodes", "priorityclasses"):
        api.delete(at(plural, name=name))


def test_a_service_and_a_job(api: Api, namespace: str) -> None:
    api.post(at("services", namespace), service("a")).ok["metadata"]
    table = api.get(at("services", namespace, "a"), accept=TABLE).ok
    assert words(table) == "Name Type Cluster-IP External-IP Port(s) Age Selector"
    cells = table["rows"][0]["cells"]
    assert [*cells[:2], *cells[3:5], cells[6]] == ["a", "ClusterIP", "<none>", "80/TCP", "app=a"]
    api.post(at("jobs", namespace), job("a")).ok["metadata"]
    table = api.get(at("jobs", namespace, "a"), accept=TABLE).ok
    assert words(table) == ("Name Status Completions Duration Age Containers Images Selector")
    assert table["rows"][0]["cells"][:4] == ["a", "Running", "0/1", ""]


STATUSES: list[tuple[Document, str, str, str]] = [
    ({"phase": "Running"}, "0/1", "Running", "0"),
    (
        {"containerStatuses": [{"name": "main", "ready": True, "restartCount": 2,
         "state": {"running": {}}}], "phase": "Running"},
        "1/1", "Running", "2",
    ),
    (
        {"containerStatuses": [{"name": "main", "ready": False, "restartCount": 3,
         "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], "phase": "Running"},
        "0/1", "CrashLoopBackOff", "3",
    ),
    (
        {"containerStatuses": [{"name": "main", "ready": False, "restartCount": 0,
         "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}], "phase": "Succeeded"},
        "0/1", "Completed", "0",
    ),
    (
        {"containerStatuses": [{"name": "main", "ready": False, "restartCount": 0,
         "state": {"terminated": {"exitCode": 3}}}], "phase": "Failed"},
        "0/1", "ExitCode:3", "0",
    ),
    ({"phase": "Failed", "reason": "Evicted"}, "0/1", "Evicted", "0"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "ready", "shown", "restarts"), STATUSES)
def test_how_a_pod_fares(
    api: Api, namespace: str, status: Document, ready: str, shown: str, restarts: str
) -> None:
    for entry in status.get("containerStatuses", []):
        entry.update({"image": "i", "imageID": "i"})
    api.post(at("pods", namespace), pod("a", nodeName="one")).ok["metadata"]
    path = at("pods", namespace, "a")
    api.patch(f"{path}/status", {"status": status}).ok["metadata"]
    cells = api.get(path, accept=TABLE).ok["rows"][0]["cells"]
    assert cells[:4] == ["a", ready, shown, restarts]
    assert cells[6] == "one"


def test_a_pod_that_ends(api: Api, namespace: str) -> None:
    api.post(at("pods", namespace), pod("a", nodeName="one")).ok["metadata"]
    path = at("pods", namespace, "a")
    api.delete(path)
    assert api.get(path, accept=TABLE).ok["rows"][0]["cells"][2] == "Terminating"


def test_gates_and_scheduling(api: Api, namespace: str) -> None:
    gated = pod("a", schedulingGates=[{"name": "hold"}])
    api.post(at("pods", namespace), gated).ok["metadata"]
    cells = api.get(at("pods", namespace, "a"), accept=TABLE).ok["rows"][0]["cells"]
    assert cells[2] == "SchedulingGated"


def test_a_list_as_a_table(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace)
    for name in ("a", "b", "c"):
        api.post(path, config_map(name)).ok["metadata"]
    table = api.get(path, accept=TABLE, limit=2).ok
    assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
    assert table["metadata"]["remainingItemCount"] == 1
    token = table["metadata"]["continue"]
    rest = api.get(path, accept=TABLE, limit=2, **{"continue": token}).ok
    assert [row["cells"][0] for row in rest["rows"]] == ["c"]


@pytest.mark.parametrize(
    ("include", "kind"),
    [("None", None), ("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata")],
)
def test_what_a_row_carries(api: Api, namespace: str, include: str, kind: str | None) -> None:
    api.post(at("configmaps", namespace), config_map("a", data={"x": "y"})).ok["metadata"]
    table = api.get(at("configmaps", namespace), accept=TABLE, includeObject=include).ok
    carried = table["rows"][0].get("object")
    assert (carried or {}).get("kind") == kind
    if include == "Object":
        assert carried["data"] == {"x": "y"}


def test_a_watch_of_tables(api: Api, namespace: str) -> None:
    start = api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]["resourceVersion"]
    with api.watch(at("configmaps", namespace), accept=TABLE, resourceVersion=start) as watch:
        for name in ("b", "c"):
            api.post(at("configmaps", namespace), config_map(name)).ok["metadata"]
        first, second = watch.next(), watch.next()
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert first["object"]["rows"][0]["cells"][0] == "b"
    assert words(first["object"]) == "Name Data Age"
    # Columns are told once.
    assert not second["object"]["columnDefinitions"]


def test_metadata_alone(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace)
    made = api.post(path, config_map("a", data={"x": "y"}, labels={"k": "v"})).ok
    one = api.get(f"{path}/a", accept=METADATA).ok
    assert one == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }
    listed = api.get(path, accept=METADATA_LIST).ok
    assert (listed["kind"], listed["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1",
    )
    assert [item["metadata"]["labels"] for item in listed["items"]] == [{"k": "v"}]
    assert not any("data" in item for item in listed["items"])


def test_a_watch_of_metadata(api: Api, namespace: str) -> None:
    start = api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]["resourceVersion"]
    with api.watch(at("configmaps", namespace), accept=METADATA, resourceVersion=start) as watch:
        api.post(at("configmaps", namespace), config_map("b", data={"x": "y"})).ok["metadata"]
        event = watch.next()
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in event["object"]
