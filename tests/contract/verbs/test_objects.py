# SPDX-License-Identifier: Apache-2.0
"""Create, read, replace and delete: names, versions, what clashes with what."""

from __future__ import annotations

import re

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.documents import config_map, deployment, document, node, service

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def test_an_object_lives_from_create_to_delete(api: Api, namespace: str) -> None:
    maps = at("configmaps", namespace)
    created = api.post(maps, config_map("a", data={"k": "v"}))
    assert created.code == 201
    made = created.document
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    assert (metadata["name"], metadata["namespace"]) == ("a", namespace)
    assert UUID.fullmatch(metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    read = api.get(f"{maps}/a")
    assert (read.code, read.document) == (200, made)

    changed = api.put(f"{maps}/a", {**made, "data": {"k": "w"}})
    assert (changed.code, changed.document["data"]) == (200, {"k": "w"})
    versions = [int(found["metadata"]["resourceVersion"]) for found in (made, changed.document)]
    assert versions[0] < versions[1]
    assert changed.document["metadata"]["uid"] == metadata["uid"]

    deleted = api.delete(f"{maps}/a")
    assert deleted.code == 200
    assert deleted.document == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": metadata["uid"]},
    }
    assert api.get(f"{maps}/a").code == 404


def test_a_write_that_changes_nothing_makes_no_version(api: Api, namespace: str) -> None:
    made = api.post(at("configmaps", namespace), config_map("a", data={"k": "v"})).ok
    again = api.put(at("configmaps", namespace, "a"), made).ok
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("plural", "named", "details"),
    [
        ("configmaps", "configmaps", {"name": "no", "kind": "configmaps"}),
        (
            "deployments",
            "deployments.apps",
            {"name": "no", "group": "apps", "kind": "deployments"},
        ),
    ],
)
def test_what_is_not_there(
    api: Api, namespace: str, plural: str, named: str, details: Document
) -> None:
    for method in ("GET", "DELETE"):
        answer = api.call(method, at(plural, namespace, "no"))
        assert answer.refusal == (404, "NotFound", f'{named} "no" not found')
        assert answer.document == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'{named} "no" not found',
            "reason": "NotFound",
            "details": details,
            "code": 404,
        }


def test_updates_of_what_is_not_there(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace, "no")
    message = 'configmaps "no" not found'
    assert api.put(path, config_map("no")).refusal == (404, "NotFound", message)
    assert api.patch(path, {"data": {"a": "b"}}).refusal == (404, "NotFound", message)


def test_a_namespace_that_is_not_there(api: Api) -> None:
    answer = api.post(at("configmaps", "no-such"), config_map("a"))
    assert answer.refusal == (404, "NotFound", 'namespaces "no-such" not found')
    assert api.get(at("configmaps", "no-such")).ok["items"] == []


def test_a_name_that_is_taken(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("a")).ok["metadata"]
    answer = api.post(at("deployments", namespace), deployment("a"))
    assert answer.refusal == (409, "AlreadyExists", 'deployments.apps "a" already exists')
    assert answer.document["details"] == {"name": "a", "group": "apps", "kind": "deployments"}


def test_a_name_is_made_from_a_prefix(api: Api, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
    found = [api.post(at("configmaps", namespace), body).ok["metadata"] for _ in range(5)]
    names = {metadata["name"] for metadata in found}
    assert len(names) == 5
    # No vowels and no digits that look like letters: no words by chance.
    assert all(re.fullmatch(r"made-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    assert all(metadata["generateName"] == "made-" for metadata in found)


def test_a_long_prefix_is_cut(api: Api, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a" * 70}}
    name = api.post(at("configmaps", namespace), body).ok["metadata"]["name"]
    assert (len(name), name[:58]) == (63, "a" * 58)


@pytest.mark.parametrize(
    ("plural", "body", "message"),
    [
        ("configmaps", config_map("A_b"), f'Invalid value: "A_b": {SUBDOMAIN}'),
        ("nodes", node("Node"), f'Invalid value: "Node": {SUBDOMAIN}'),
        (
            "namespaces",
            document("v1", "Namespace", "a.b"),
            'Invalid value: "a.b": must not contain dots',
        ),
        (
            "configmaps",
            config_map("a" * 254),
            f'Invalid value: "{"a" * 254}": must be no more than 253 characters',
        ),
    ],
    ids=["subdomain", "node", "label", "long"],
)
def test_names_are_checked(
    api: Api, namespace: str, plural: str, body: Document, message: str
) -> None:
    scope = "" if plural in ("nodes", "namespaces") else namespace
    answer = api.post(at(plural, scope), body)
    name, kind = body["metadata"]["name"], body["kind"]
    told = f'{kind} "{name}" is invalid: metadata.name: {message}'
    assert answer.refusal == (422, "Invalid", told)
    assert answer.causes == [("metadata.name", "FieldValueInvalid", message)]
    assert answer.document["details"]["kind"] == kind


def test_services_have_names_of_dns(api: Api, namespace: str) -> None:
    code, _, message = api.post(at("services", namespace), service("1a")).refusal
    assert code == 422
    assert 'metadata.name: Invalid value: "1a": a DNS-1035 label must consist of' in message


@pytest.mark.parametrize("body", [{"metadata": {}}, {}, {"apiVersion": "v1"}])
def test_a_name_is_needed(api: Api, namespace: str, body: Document) -> None:
    answer = api.post(at("configmaps", namespace), {"kind": "ConfigMap", **body})
    why = "metadata.name: Required value: name or generateName is required"
    assert answer.refusal == (422, "Invalid", f'ConfigMap "" is invalid: {why}')


@pytest.mark.parametrize(
    ("metadata", "code", "message"),
    [
        ({"namespace": "other"}, 400, "the namespace of the provided object does not match the "
         "namespace sent on the request"),
        ({"resourceVersion": "5"}, 500, "resourceVersion should not be set on objects to be "
         "created"),
    ],
)  # fmt: skip
def test_metadata_that_a_create_may_not_carry(
    api: Api, namespace: str, metadata: Document, code: int, message: str
) -> None:
    body = config_map("a")
    body["metadata"] |= metadata
    answer = api.post(at("configmaps", namespace), body)
    assert (answer.refusal[0], answer.refusal[2]) == (code, message)


def test_the_server_sets_its_own_metadata(api: Api, namespace: str) -> None:
    body = config_map("a")
    mine = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    body["metadata"] |= {**mine, "deletionTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}
    made = api.post(at("configmaps", namespace), body).ok["metadata"]
    assert not {"deletionTimestamp", "selfLink"} & made.keys()
    assert all(made.get(name) != value for name, value in mine.items())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "labels",
            {"a b": "c"},
            'metadata.labels: Invalid value: "a b": name part must consist of alphanumeric',
        ),
        ("labels", {"a": "c d"}, 'metadata.labels: Invalid value: "c d": a valid label must be an'),
        ("labels", {"a": "x" * 64}, f'metadata.labels: Invalid value: "{"x" * 64}": must be no'),
        ("annotations", {"-": "c"}, 'metadata.annotations: Invalid value: "-": name part must'),
        ("finalizers", ["x"], 'metadata.finalizers[0]: Invalid value: "x": name is neither a '
         "standard finalizer name nor is it fully qualified"),
        ("ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}],
         'metadata.ownerReferences.uid: Invalid value: "": must not be empty'),
    ],
)  # fmt: skip
def test_metadata_is_checked(
    api: Api, namespace: str, field: str, value: object, message: str
) -> None:
    body = config_map("a")
    body["metadata"][field] = value
    code, reason, told = api.post(at("configmaps", namespace), body).refusal
    assert (code, reason) == (422, "Invalid")
    assert message in told


def test_an_old_version_is_a_conflict(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace, "a")
    made = api.post(at("configmaps", namespace), config_map("a")).ok
    api.put(path, {**made, "data": {"n": "1"}}).ok["metadata"]
    answer = api.put(path, {**made, "data": {"n": "2"}})
    message = f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}'
    assert answer.refusal == (409, "Conflict", message)
    assert answer.document["details"] == {"name": "a", "kind": "configmaps"}
    assert api.get(path).ok["data"] == {"n": "1"}
    patch = {
        "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
        "data": {"n": "3"},
    }
    assert api.patch(path, patch).refusal == (409, "Conflict", message)


def test_no_version_means_whatever_is_there(api: Api, namespace: str) -> None:
    api.post(at("configmaps", namespace), config_map("a", data={"n": "1"})).ok["metadata"]
    changed = api.put(at("configmaps", namespace, "a"), config_map("a", data={"n": "2"}))
    assert changed.ok["data"] == {"n": "2"}


def test_an_update_for_another_object(api: Api, namespace: str) -> None:
    api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    path = at("configmaps", namespace, "a")
    message = "the name of the object (b) does not match the name on the URL (a)"
    assert api.put(path, config_map("b")).refusal == (400, "BadRequest", message)
    body = config_map("a")
    body["metadata"]["uid"] = "gone"
    code, reason, message = api.put(path, body).refusal
    assert (code, reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: gone, UID in object meta: " in message


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("uid", "the UID in the precondition (1) does not match the UID in record ({}). "
         "The object might have been deleted and then recreated"),
        ("resourceVersion", "the ResourceVersion in the precondition (1) does not match the "
         "ResourceVersion in record ({}). The object might have been modified"),
    ],
)  # fmt: skip
def test_a_delete_with_a_precondition(api: Api, namespace: str, field: str, message: str) -> None:
    made = api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    path = at("configmaps", namespace, "a")
    told = message.format(made[field])
    refusal = api.delete(path, {"preconditions": {field: "1"}}).refusal
    assert refusal == (409, "Conflict", f'Operation cannot be fulfilled on ConfigMap "a": {told}')
    assert api.delete(path, {"preconditions": {field: made[field]}}).ok["status"] == "Success"


def test_generation_counts_changes_of_the_spec(api: Api, namespace: str) -> None:
    path = at("deployments", namespace, "a")
    generations = [api.post(at("deployments", namespace), deployment("a")).ok]
    patches: list[Document] = [{"spec": {"replicas": 2}}, {"metadata": {"labels": {"a": "b"}}}]
    generations.extend(api.patch(path, patch).ok for patch in patches)
    generations.append(api.patch(f"{path}/status", {"status": {"replicas": 1}}).ok)
    assert [found["metadata"]["generation"] for found in generations] == [1, 2, 2, 2]


def test_an_immutable_config_map(api: Api, namespace: str) -> None:
    body = config_map("a", data={"k": "v"}, immutable=True)
    api.post(at("configmaps", namespace), body).ok["metadata"]
    answer = api.patch(at("configmaps", namespace, "a"), {"data": {"k": "w"}})
    why = "Forbidden: field is immutable when `immutable` is set"
    assert answer.causes == [("data", "FieldValueForbidden", why)]
    answer = api.patch(at("configmaps", namespace, "a"), {"immutable": False})
    assert answer.causes == [("immutable", "FieldValueForbidden", why)]
    assert (
        api.patch(at("configmaps", namespace, "a"), {"metadata": {"labels": {"a": "b"}}}).code
        == 200
    )


def test_an_event_is_one_object_in_both_groups(api: Api, namespace: str) -> None:
    involved = {"kind": "Pod", "name": "p", "namespace": namespace, "apiVersion": "v1"}
    body = document(
        "v1", "Event", "e", involvedObject=involved, reason="Because", message="told",
        type="Normal", source={"component": "contract"}, count=3,
    )  # fmt: skip
    api.post(at("events", namespace), body).ok["metadata"]
    other = api.get(at("events.k8s.io/v1/events", namespace, "e")).ok
    assert (other["apiVersion"], other["kind"]) == ("events.k8s.io/v1", "Event")
    assert (other["regarding"], other["note"], other["reason"]) == (involved, "told", "Because")
    assert (other["deprecatedCount"], other["deprecatedSource"]["component"]) == (3, "contract")
