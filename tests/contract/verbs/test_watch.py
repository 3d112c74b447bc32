# SPDX-License-Identifier: Apache-2.0
"""Watches: what comes, in which order, from which version on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.api import Api, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.documents import config_map, pod

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def create(api: Api, namespace: str, name: str, **fields: Any) -> str:
    """Creates a config map; gives its version."""
    made = api.post(at("configmaps", namespace), config_map(name, **fields)).ok
    version: str = made["metadata"]["resourceVersion"]
    return version


def test_changes_come_in_order_from_a_version_on(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace)
    start = create(api, namespace, "before")
    create(api, namespace, "a")
    api.patch(f"{path}/a", {"data": {"n": "1"}}).ok["metadata"]
    with api.watch(path, resourceVersion=start) as watch:
        assert watch.named(2) == [("ADDED", "a"), ("MODIFIED", "a")]
        api.patch(f"{path}/a", {"data": {"n": "2"}}).ok["metadata"]
        changed = watch.next()
        assert changed["object"] == api.get(f"{path}/a").document
        api.delete(f"{path}/a")
        gone = watch.next()
    assert gone["type"] == "DELETED"
    assert gone["object"]["data"] == {"n": "2"}
    # The last version is that of the deletion, from which a watch can go on.
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (changed, gone)]
    assert versions[0] < versions[1]


@pytest.mark.parametrize("version", [None, "0"])
def test_without_a_version_what_is_there_comes_first(
    api: Api, namespace: str, version: str | None
) -> None:
    for name in ("b", "a"):
        create(api, namespace, name)
    query = {} if version is None else {"resourceVersion": version}
    with api.watch(at("configmaps", namespace), **query) as watch:
        assert sorted(watch.named(2)) == [("ADDED", "a"), ("ADDED", "b")]
        create(api, namespace, "c")
        assert watch.named(1) == [("ADDED", "c")]


def test_other_namespaces_are_not_seen(api: Api, namespace: str) -> None:
    start = create(api, namespace, "a")
    create(api, "default", "elsewhere")
    with api.watch(at("configmaps", namespace), resourceVersion=start) as watch:
        create(api, namespace, "b")
        assert watch.named(1) == [("ADDED", "b")]
    with api.watch(at("configmaps"), resourceVersion=start) as everywhere:
        assert everywhere.named(2) == [("ADDED", "elsewhere"), ("ADDED", "b")]
    api.delete(at("configmaps", "default", "elsewhere"))


def test_a_selector_sees_objects_come_and_go(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace)
    start = create(api, namespace, "a", labels={"in": "no"})
    with api.watch(path, resourceVersion=start, labelSelector="in=yes") as watch:
        for value in ("yes", "yes", "no", "no", "yes"):
            patch = {"metadata": {"labels": {"in": value}, "annotations": {"at": "x" + value}}}
            api.patch(f"{path}/a", patch).ok["metadata"]
        api.patch(f"{path}/a", {"data": {"n": "1"}}).ok["metadata"]
        api.delete(f"{path}/a")
        events = [watch.next() for _ in range(5)]
    types = [event["type"] for event in events]
    assert types == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    # What leaves is shown as it was last seen, at the version at which it left.
    left = events[1]["object"]["metadata"]
    assert left["labels"] == {"in": "yes"}
    assert int(left["resourceVersion"]) > int(events[0]["object"]["metadata"]["resourceVersion"])


def test_a_field_selector_follows_a_pod_to_its_node(api: Api, namespace: str) -> None:
    made = api.post(at("pods", namespace), pod("p")).ok["metadata"]
    query = {"resourceVersion": made["resourceVersion"]}
    waiting = api.watch(at("pods", namespace), fieldSelector="spec.nodeName=", **query)
    placed = api.watch(at("pods", namespace), fieldSelector="spec.nodeName=one", **query)
    target = {"kind": "Node", "name": "one"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    assert api.post(at("pods", namespace, "p", "binding"), binding).code == 201
    with waiting, placed:
        assert waiting.named(1) == [("DELETED", "p")]
        assert placed.named(1) == [("ADDED", "p")]


def test_one_object_by_name(api: Api, namespace: str) -> None:
    start = create(api, namespace, "a")
    query = {"resourceVersion": start, "fieldSelector": "metadata.name=b"}
    with api.watch(at("configmaps", namespace), **query) as watch:
        create(api, namespace, "c")
        create(api, namespace, "b")
        assert watch.named(1) == [("ADDED", "b")]


def test_a_version_that_is_too_old(api: Api, namespace: str) -> None:
    create(api, namespace, "a")
    query = {"resourceVersion": "1", "timeoutSeconds": "5"}
    with api.watch(at("configmaps", namespace), **query) as watch:
        told = watch.next()
    # Within the stream on some versions of Kubernetes, as the answer on others.
    status = told["object"] if told.get("type") == "ERROR" else told
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


def test_a_version_that_is_no_number(api: Api, namespace: str) -> None:
    with api.watch(at("configmaps", namespace), resourceVersion="x") as watch:
        told = json.loads(watch.rest())
    assert watch.code in (400, 500)
    assert told["kind"] == "Status"
    assert 'resourceVersion: Invalid value: "x"' in told["message"]


def test_the_watch_ends_by_itself_after_its_time(api: Api, namespace: str) -> None:
    start = create(api, namespace, "a")
    query = {"resourceVersion": start, "timeoutSeconds": "1"}
    with api.watch(at("configmaps", namespace), **query) as watch:
        assert watch.code == 200
        assert list(watch) == []


def test_a_bookmark_comes_before_the_end(api: Api, namespace: str) -> None:
    start, elsewhere = create(api, namespace, "a"), make_namespace(api)
    query = {"resourceVersion": start, "timeoutSeconds": "5", "allowWatchBookmarks": "true"}
    with api.watch(at("configmaps", namespace), **query) as watch:
        unseen = create(api, elsewhere, "b")
        told = watch.next()
    assert told["type"] == "BOOKMARK"
    metadata = {"resourceVersion": told["object"]["metadata"]["resourceVersion"]}
    assert told["object"] == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
    assert int(metadata["resourceVersion"]) >= int(unseen)


def test_a_list_as_a_watch(api: Api, namespace: str) -> None:
    for name in ("b", "a"):
        create(api, namespace, name)
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with api.watch(at("configmaps", namespace), **query) as watch:
        events = [watch.next() for _ in range(3)]
        create(api, namespace, "c")
        assert watch.named(1) == [("ADDED", "c")]
    found = [(event["type"], event["object"]["metadata"].get("name")) for event in events]
    assert found == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", None)]
    end = events[2]["object"]["metadata"]
    assert end["annotations"] == {INITIAL_EVENTS_END: "true"}
    assert int(end["resourceVersion"]) > 0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"sendInitialEvents": "true"},
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
            "resourceVersionMatch to NotOlderThan",
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless "
            "sendInitialEvents is provided",
        ),
    ],
)
def test_options_that_do_not_go_together(
    api: Api, namespace: str, query: dict[str, str], message: str
) -> None:
    with api.watch(at("configmaps", namespace), **query) as watch:
        told = json.loads(watch.rest())
    assert (told["code"], told["reason"]) == (422, "Invalid")
    assert message in told["message"]


def test_watching_one_object_by_its_path(server: Server, namespace: str) -> None:
    """An old form that some clients still use."""
    api = server.api
    create(api, namespace, "a")
    create(api, namespace, "b")
    path = f"/api/v1/watch/namespaces/{namespace}/configmaps/a"
    with api.watch(path) as watch:
        assert watch.named(1) == [("ADDED", "a")]
