# SPDX-License-Identifier: Apache-2.0
"""Lists: selectors, pages over one snapshot, and what a resourceVersion asks for."""

from __future__ import annotations

import base64
import json

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.documents import config_map, document, node, pod

LABELS: dict[str, dict[str, str]] = {
    "a": {"tier": "web", "zone": "1"},
    "b": {"tier": "web", "zone": "2"},
    "c": {"tier": "data"},
    "d": {},
}


@pytest.fixture(scope="module")
def labelled(server: Server) -> str:
    """A namespace with the config maps of `LABELS`."""
    api = server.api
    namespace = make_namespace(api)
    for name, labels in LABELS.items():
        api.post(at("configmaps", namespace), config_map(name, labels=labels)).ok["metadata"]
    return namespace


def names(listed: Document) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def fill(api: Api, namespace: str, count: int) -> None:
    for number in range(count):
        api.post(at("configmaps", namespace), config_map(f"n{number}")).ok["metadata"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("tier=web", "ab"),
        ("tier==web", "ab"),
        ("tier!=web", "cd"),
        ("tier", "abc"),
        ("!tier", "d"),
        ("tier in (web,data)", "abc"),
        ("tier in (web), zone in (2)", "b"),
        ("tier notin (web)", "cd"),
        ("tier=web,zone!=1", "b"),
        ("zone>1", "b"),
        ("zone<2", "a"),
        ("tier=", ""),
        ("", "abcd"),
    ],
)
def test_label_selectors(api: Api, labelled: str, selector: str, found: str) -> None:
    listed = api.get(at("configmaps", labelled), labelSelector=selector).ok
    assert names(listed) == list(found)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=b", "b"),
        ("metadata.name!=b", "acd"),
        ("metadata.name==b,metadata.namespace!=x", "b"),
        ("metadata.namespace=x", ""),
    ],
)
def test_field_selectors(api: Api, labelled: str, selector: str, found: str) -> None:
    listed = api.get(at("configmaps", labelled), fieldSelector=selector).ok
    assert names(listed) == list(found)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=one", ["placed"]),
        ("spec.nodeName=", ["waiting"]),
        ("spec.nodeName!=one", ["waiting"]),
        ("status.phase=Pending", ["placed", "waiting"]),
        ("status.phase!=Pending", []),
        ("spec.schedulerName=other", ["waiting"]),
        ("spec.restartPolicy=Always", ["placed", "waiting"]),
        ("spec.serviceAccountName=", ["placed", "waiting"]),
        ("status.nominatedNodeName=", ["placed", "waiting"]),
        ("status.podIP=,spec.hostNetwork=false", ["placed", "waiting"]),
    ],
)
def test_fields_of_pods(api: Api, namespace: str, selector: str, found: list[str]) -> None:
    for body in (pod("placed", nodeName="one"), pod("waiting", schedulerName="other")):
        api.post(at("pods", namespace), body).ok["metadata"]
    assert names(api.get(at("pods", namespace), fieldSelector=selector).ok) == found


def test_fields_of_other_kinds(api: Api, namespace: str) -> None:
    involved = {"kind": "Pod", "name": "p", "namespace": namespace}
    body = document("v1", "Event", "e", involvedObject=involved, reason="Why", type="Warning")
    api.post(at("events", namespace), body).ok["metadata"]
    for selector in ("involvedObject.name=p", "reason=Why,type=Warning", "involvedObject.kind=Pod"):
        assert names(api.get(at("events", namespace), fieldSelector=selector).ok) == ["e"]
    api.post(at("nodes"), node("shut", spec={"unschedulable": True})).ok["metadata"]
    assert "shut" in names(api.get(at("nodes"), fieldSelector="spec.unschedulable=true").ok)
    assert "shut" not in names(api.get(at("nodes"), fieldSelector="spec.unschedulable=false").ok)
    api.delete(at("nodes", name="shut"))
    secret = document("v1", "Secret", "s", type="example.test/token")
    api.post(at("secrets", namespace), secret).ok["metadata"]
    selected = api.get(at("secrets", namespace), fieldSelector="type=example.test/token").ok
    assert names(selected) == ["s"]


def test_a_list_says_what_it_is_and_its_items_do_not(api: Api, labelled: str) -> None:
    listed = api.get(at("configmaps", labelled)).ok
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "ConfigMapList")
    assert listed["metadata"].keys() == {"resourceVersion"}
    assert not any({"kind", "apiVersion"} & item.keys() for item in listed["items"])


def test_a_list_over_all_namespaces(api: Api, labelled: str) -> None:
    listed = api.get(at("configmaps"), fieldSelector=f"metadata.namespace={labelled}").ok
    assert names(listed) == list("abcd")


def test_pages_are_of_one_snapshot(api: Api, namespace: str) -> None:
    fill(api, namespace, 5)
    path = at("configmaps", namespace)
    first = api.get(path, limit=2).ok
    assert names(first) == ["n0", "n1"]
    assert first["metadata"]["remainingItemCount"] == 3
    api.delete(f"{path}/n2")
    api.post(path, config_map("n25")).ok["metadata"]
    api.patch(f"{path}/n3", {"data": {"late": "yes"}}).ok["metadata"]
    second = api.get(path, limit=2, **{"continue": first["metadata"]["continue"]}).ok
    assert names(second) == ["n2", "n3"]
    assert "data" not in second["items"][1]
    assert second["metadata"]["remainingItemCount"] == 1
    third = api.get(path, limit=2, **{"continue": second["metadata"]["continue"]}).ok
    assert names(third) == ["n4"]
    assert not {"continue", "remainingItemCount"} & third["metadata"].keys()
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


def test_pages_of_what_a_selector_leaves(api: Api, labelled: str) -> None:
    path = at("configmaps", labelled)
    first = api.get(path, limit=2, labelSelector="tier").ok
    # How many more match is not known without a look at them.
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    second = api.get(path, limit=2, labelSelector="tier", **{"continue": token}).ok
    assert (names(first), names(second)) == (["a", "b"], ["c"])


def test_a_token_that_is_too_old(server: Server, namespace: str) -> None:
    """Told with a token that goes on at whatever there is now."""
    api, path = server.api, at("configmaps", namespace)
    fill(api, namespace, 3)
    server.forget()
    token = api.get(path, limit="1").ok["metadata"]["continue"]
    read = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    old = base64.urlsafe_b64encode(json.dumps({**read, "rv": 2}).encode()).rstrip(b"=").decode()
    answer = api.get(path, **{"limit": "1", "continue": old})
    code, reason, message = answer.refusal
    assert (code, reason) == (410, "Expired")
    assert message.startswith("The provided continue parameter is too old to display a consistent")
    anew = answer.document["metadata"]["continue"]
    assert names(api.get(path, **{"continue": anew}).ok) == ["n1", "n2"]


def test_a_limit_that_is_not_reached(api: Api, labelled: str) -> None:
    listed = api.get(at("configmaps", labelled), limit=4).ok
    assert names(listed) == list("abcd")
    assert "continue" not in listed["metadata"]


@pytest.mark.parametrize("token", ["nonsense", "eyJ2IjoibWV0YS5rOHMuaW8vdjIifQ"])
def test_a_token_that_cannot_be_read(api: Api, labelled: str, token: str) -> None:
    answer = api.get(at("configmaps", labelled), limit=2, **{"continue": token})
    code, reason, message = answer.refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("invalid continue token: continue key is not valid: ")


def test_a_token_goes_with_no_version(api: Api, labelled: str) -> None:
    token = api.get(at("configmaps", labelled), limit=1).ok["metadata"]["continue"]
    answer = api.get(
        at("configmaps", labelled), limit=1, resourceVersion="5", **{"continue": token}
    )
    message = "specifying resource version is not allowed when using continue"
    assert answer.refusal == (400, "BadRequest", message)


def test_a_list_at_exactly_a_version(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace)
    fill(api, namespace, 2)
    then = api.get(path).ok["metadata"]["resourceVersion"]
    api.delete(f"{path}/n0")
    api.post(path, config_map("n9")).ok["metadata"]
    exact = api.get(path, resourceVersion=then, resourceVersionMatch="Exact").ok
    assert (names(exact), exact["metadata"]["resourceVersion"]) == (["n0", "n1"], then)
    later = api.get(path, resourceVersion=then, resourceVersionMatch="NotOlderThan").ok
    assert names(later) == ["n1", "n9"]
    assert int(later["metadata"]["resourceVersion"]) > int(then)
    for version in ("0", then, ""):
        assert names(api.get(path, resourceVersion=version).ok) == ["n1", "n9"]


def test_a_version_of_the_future(api: Api, labelled: str) -> None:
    answer = api.get(at("configmaps", labelled), resourceVersion=str(10**9))
    code, reason, message = answer.refusal
    assert (code, reason) == (504, "Timeout")
    assert message.startswith("Timeout: Too large resource version: 1000000000, current: ")
    assert answer.causes == [("", "ResourceVersionTooLarge", "Too large resource version")]
    assert answer.document["details"]["retryAfterSeconds"] == 1


def test_an_object_of_the_future(api: Api, labelled: str) -> None:
    name = api.get(at("configmaps", labelled)).ok["items"][0]["metadata"]["name"]
    answer = api.get(at("configmaps", labelled, name), resourceVersion=str(10**9))
    assert answer.refusal[:2] == (504, "Timeout")
    assert {key.lower(): value for key, value in answer.headers.items()}["retry-after"] == "1"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
            "resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for '
            'resourceVersion "0"',
        ),
        (
            {"resourceVersionMatch": "Nearly", "resourceVersion": "1"},
            'resourceVersionMatch: Unsupported value: "Nearly": supported values: "Exact", '
            '"NotOlderThan", ""',
        ),
    ],
)
def test_versions_that_make_no_sense(
    api: Api, labelled: str, query: dict[str, str], message: str
) -> None:
    code, reason, told = api.get(at("configmaps", labelled), **query).refusal
    assert (code, reason) == (422, "Invalid")
    assert told == f'ListOptions.meta.k8s.io "" is invalid: {message}'
