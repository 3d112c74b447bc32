# SPDX-License-Identifier: Apache-2.0
"""How a request that cannot be served is refused."""

from __future__ import annotations

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server
from tests.contract.documents import config_map, document, pod

NO_RESOURCE = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize("path", ["/nope", "/apis/no.such/v1", "/apis/no.such/v1/things"])
def test_a_path_outside_every_api_is_plain_404(api: Api, path: str) -> None:
    answer = api.get(path)
    assert (answer.code, answer.text) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    "path", ["/api/v1/nopes", "/apis/apps/v1/namespaces/default/nopes/a", "/api/v1/nodes/a/nope"]
)
def test_a_resource_that_is_not_served(api: Api, path: str) -> None:
    answer = api.get(path)
    assert answer.refusal == (404, "NotFound", NO_RESOURCE)
    assert answer.document["details"] == {}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/namespaces/default/configmaps/a"),
        ("PUT", "/api/v1/namespaces/default/configmaps"),
        ("PATCH", "/api/v1/namespaces/default/configmaps"),
        ("BREW", "/api/v1/namespaces/default/configmaps"),
        ("DELETE", "/api/v1/namespaces/default/pods/a/status"),
    ],
)
def test_a_method_that_is_not_served(api: Api, method: str, path: str) -> None:
    assert api.call(method, path, {}).refusal == (405, "MethodNotAllowed", NO_METHOD)


def test_a_wrong_token_is_401(server: Server) -> None:
    answer = server.stranger.get("/api/v1/nodes", headers={"Authorization": "Bearer wrong"})
    assert answer.refusal == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_health_is_told_in_plain_text(api: Api, path: str) -> None:
    answer = api.get(path)
    assert (answer.code, answer.text) == (200, "ok")


@pytest.mark.parametrize(
    ("content", "accepted"),
    [("text/plain", "application/json, application/yaml"), ("application/xml", "application/json")],
)
def test_a_body_in_an_unknown_format(api: Api, content: str, accepted: str) -> None:
    code, reason, message = api.post(at("configmaps", "default"), b"x", content=content).refusal
    assert (code, reason) == (415, "UnsupportedMediaType")
    start = "the body of the request was in an unknown format - accepted media types include: "
    assert message.startswith(start + accepted)


def test_an_unknown_kind_of_patch(api: Api) -> None:
    answer = api.patch(at("configmaps", "default", "a"), {}, content="text/plain")
    assert answer.refusal[:2] == (415, "UnsupportedMediaType")


def test_an_answer_in_an_unknown_format(api: Api) -> None:
    code, reason, message = api.get(at("pods", "default"), accept="text/html").refusal
    assert (code, reason) == (406, "NotAcceptable")
    assert "Available representations: application/json" in message


def test_yaml_in(api: Api, namespace: str) -> None:
    body = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: from-yaml}\ndata: {a: b}\n"
    made = api.post(at("configmaps", namespace), body, content="application/yaml").ok
    assert made["data"] == {"a": "b"}


@pytest.mark.parametrize("body", [b"{nope", b"", b"[]", b'"text"'])
def test_a_body_that_is_not_an_object_in_json(api: Api, body: bytes) -> None:
    code, reason, message = api.post(at("configmaps", "default"), body).refusal
    assert (code, reason) == (400, "BadRequest")
    unrecognized = "the object provided is unrecognized (must be of type ConfigMap): "
    assert message.startswith(f"{unrecognized}couldn't get version/kind; json parse error: ")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            document("v1", "Secret", "x"),
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            config_map("x", data={"a": 1}),
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '
            "number into Go struct field ConfigMap.data of type string",
        ),
        (
            config_map("x", binaryData={"a": "!"}),
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            "illegal base64 data at input byte 0",
        ),
    ],
    ids=["another kind", "wrong type", "no base64"],
)
def test_an_object_that_cannot_be_one(api: Api, body: Document, message: str) -> None:
    answer = api.post(at("configmaps", "default"), body)
    assert answer.refusal == (400, "BadRequest", message)


def test_types_of_pods_are_checked(api: Api) -> None:
    body = pod("x", terminationGracePeriodSeconds="soon")
    code, reason, message = api.post(at("pods", "default"), body).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message == (
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go '
        "struct field PodSpec.spec.terminationGracePeriodSeconds of type int64"
    )


def test_a_quantity_that_is_none(api: Api) -> None:
    spec = {"resources": {"requests": {"cpu": "many"}}}
    body = pod("x")
    body["spec"]["containers"][0] |= spec
    code, reason, message = api.post(at("pods", "default"), body).refusal
    assert (code, reason) == (400, "BadRequest")
    assert "quantities must match the regular expression" in message


def test_a_body_beyond_three_mebibytes(api: Api) -> None:
    answer = api.post(at("configmaps", "default"), config_map("x", data={"a": "y" * (3 << 20)}))
    message = "Request entity too large: limit is 3145728"
    assert answer.refusal == (413, "RequestEntityTooLarge", message)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"labelSelector": "a in b"}, "unable to parse requirement"),
        ({"labelSelector": "a in (b"}, "unable to parse requirement"),
        ({"fieldSelector": "spec.nope=1"}, "field label not supported: spec.nope"),
        ({"fieldSelector": "nope"}, "invalid selector: 'nope'; can't understand 'nope'"),
    ],
)
def test_a_selector_that_cannot_be_read(api: Api, query: dict[str, str], message: str) -> None:
    code, reason, told = api.get(at("pods", "default"), **query).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message in told


def test_what_may_i_do(api: Api) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}},
    }
    answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert answer.code == 201
    assert answer.document["status"]["allowed"] is True


def test_what_may_another_do_in_a_namespace(api: Api, namespace: str) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "LocalSubjectAccessReview",
        "metadata": {"namespace": namespace},
        "spec": {
            "user": "somebody",
            "groups": ["system:masters"],
            "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "pods"},
        },
    }
    path = f"/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews"
    answer = api.post(path, review)
    assert (answer.code, answer.document["status"]["allowed"]) == (201, True)
    review["metadata"] = {"namespace": "other"}
    assert api.post(path, review).refusal[:2] == (400, "BadRequest")
