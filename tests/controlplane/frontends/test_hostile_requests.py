# SPDX-License-Identifier: Apache-2.0
"""Requests that make no sense get a 4xx ``Status``, never a 500 and never silence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.transport.messages import JSON, MERGE_PATCH, Request, Response
from tests.controlplane.plane import PODS, pod

ANY = (None, True, 5, 1e300, 10**19, "x", "", [], {}, [1], [None], {"a": 1}, {"": None}, [[]])
POD = f"{PODS}/web"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKEN = f"{ACCOUNTS}/a/token"
CONFIGS = "/api/v1/namespaces/default/configmaps"


def answers(requests: Iterable[Request]) -> list[Response]:
    """What a server with one pod answers."""

    async def run() -> list[Response]:
        async with EmbeddedControlPlane(Options(port=None, seed=1)) as plane:
            transport = plane.transport()
            await transport.send(Request("POST", PODS, body=json.dumps(pod()).encode()))
            account = b'{"metadata":{"name":"a"}}'
            await transport.send(Request("POST", ACCOUNTS, body=account))
            return [await transport.send(request) for request in requests]

    return asyncio.run(run())


def said(response: Response) -> tuple[int, str]:
    return response.status, json.loads(response.body).get("message", "")


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("labelSelector", "a,", "found '', expected: identifier after ','"),
        ("labelSelector", "a,,b", "found ',', expected: identifier after ','"),
        ("fieldSelector", "metadata.name=x\\", "invalid escape sequence"),
        ("timeoutSeconds", "9" * 400, "value out of range"),
        ("limit", "1_0", 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        ("limit", "9" * 5000, "value out of range"),
        ("resourceVersion", "9" * 5000, "value out of range"),
        ("resourceVersion", "\u00b2", "invalid syntax"),
    ],
)
def test_options_of_a_list(key: str, text: str, message: str) -> None:
    (answer,) = answers([Request("GET", "/api/v1/pods", ((key, text),))])
    status, told = said(answer)
    assert status == 400
    assert message in told


@pytest.mark.parametrize("text", ["metadata.name!=a\\\\", "metadata.name=a\\,b"])
def test_escapes_in_field_selectors(text: str) -> None:
    (answer,) = answers([Request("GET", "/api/v1/pods", (("fieldSelector", text),))])
    assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path", "fields"),
    [
        ("DELETE", POD, ("preconditions", "dryRun", "gracePeriodSeconds", "propagationPolicy")),
        ("DELETE", PODS, ("preconditions", "dryRun", "orphanDependents")),
        ("POST", f"{POD}/eviction", ("metadata", "deleteOptions")),
        ("POST", f"{POD}/binding", ("metadata",)),
        ("POST", TOKEN, ("spec", "metadata")),
    ],
)
def test_values_of_the_wrong_type(method: str, path: str, fields: tuple[str, ...]) -> None:
    bodies: list[Any] = [{field: value} for field in fields for value in ANY]
    bodies += [{"preconditions": {"uid": value}} for value in ANY]
    requests = [
        Request(method, path, (("dryRun", "All"),), json.dumps(body).encode()) for body in bodies
    ]
    told = {
        said(answer)
        for answer in answers(requests)
        # A kube-apiserver has no better word for a binding without a node.
        if answer.status >= 500 and b"target" not in answer.body
    }
    assert not told


def test_half_of_a_surrogate_pair() -> None:
    half = b'{"metadata":{"name":"a"},"data":{"a":"\\ud800"}}'
    named = b'{"metadata":{"name":"\\ud800"}}'
    sent = [
        Request("POST", CONFIGS, body=half),
        Request("POST", CONFIGS, body=named),
        Request("PATCH", POD, body=b'{"metadata":{"annotations":{"a":"\\udfff"}}}',
                content_type=MERGE_PATCH),
        Request("POST", CONFIGS, body=b'{"metadata":{"name":"a"},"data":{"a":"\\ud83d\\ude00"}}',
                content_type=JSON),
    ]  # fmt: skip
    assert [answer.status for answer in answers(sent)] == [400, 400, 400, 201]


@pytest.mark.parametrize(
    ("seconds", "message"), [(5, "less than 10 minutes"), (10**18, "larger than 2^32 seconds")]
)
def test_the_lifetime_of_a_token(seconds: int, message: str) -> None:
    body = json.dumps({"spec": {"expirationSeconds": seconds}}).encode()
    (answer,) = answers([Request("POST", TOKEN, body=body)])
    status, told = said(answer)
    assert status == 422
    assert message in told


def test_a_further_api_gets_the_paths_of_its_own_group_alone() -> None:
    class Mine:
        resources = ()

        async def __call__(self, request: Request) -> Response:
            return Response(200, b"{}")

    async def run() -> list[int]:
        further = {"/apis/example.com": Mine()}
        async with EmbeddedControlPlane(Options(port=None, further=further)) as plane:
            transport = plane.transport()
            paths = ("/apis/example.com", "/apis/example.com/v1/a", "/apis/example.community/v1/a")
            return [(await transport.send(Request("GET", path))).status for path in paths]

    assert asyncio.run(run()) == [200, 200, 404]
