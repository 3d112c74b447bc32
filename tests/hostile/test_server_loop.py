# SPDX-License-Identifier: Apache-2.0
"""Requests that cost much more than they say; others are answered meanwhile."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any

import pytest

from koord.base.worker import HEAVY_BYTES
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.handlers import read
from koord.kube.transport.messages import Request
from tests.hostile.served import CONFIGS, PODS, Document, Target, attack, config_map, encoded, said

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def pod_with_terms(count: int, **term: Any) -> Document:
    """A pod that would rather be in many places."""
    preferred = [{"weight": 1, "preference": term} for _ in range(count)]
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {
        "metadata": {"name": "a"},
        "spec": {
            "containers": [{"name": "app", "image": "nginx:1"}],
            "affinity": {"nodeAffinity": affinity},
        },
    }


GOOD = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
BAD = {"matchExpressions": [{"key": "-", "operator": "Around"}]}
LARGE = {f"key-{number:06d}": "" for number in range(50_000)}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (PODS, pod_with_terms(10_000, **GOOD), 201),
        (PODS, pod_with_terms(10_000, **BAD), 422),
        (CONFIGS, config_map("a", LARGE), 201),
        (CONFIGS, {**config_map("a"), "metadata": {"name": "a", "labels": LARGE}}, 201),
        (CONFIGS, {**config_map("a"), "metadata": {"name": "a", "no-field": LARGE}}, 201),
        (CONFIGS, {**config_map("a"), "no-field": [[]] * 300_000}, 201),
    ],
    ids=["terms", "bad terms", "data", "labels", "unknown metadata", "unknown fields"],
)
def test_others_are_answered_while_a_large_object_is_made(
    path: str, body: Document, status: int
) -> None:
    async def test(target: Target) -> None:
        answer, others = await target.others_asked(target.ask("POST", path, body))
        assert answer.status == status, answer.body[:300]
        assert others >= 1
        if status == 201:
            answer, others = await target.others_asked(target.ask("PUT", f"{path}/a", body))
            assert answer.status == 200
            assert others >= 1

    attack(test)


def test_a_large_object_is_read_beside_the_loop_to_be_deleted() -> None:
    async def test(target: Target) -> None:
        worker = target.plane.server.worker
        assert (await target.ask("POST", CONFIGS, config_map("a", LARGE))).status == 201
        before = worker.calls
        answer, others = await target.others_asked(target.ask("DELETE", f"{CONFIGS}/a"))
        assert answer.status == 200
        assert worker.calls > before
        assert others >= 1

    attack(test)


def test_1500_preferred_terms_go_to_the_worker_and_few_do_not() -> None:
    async def test(target: Target) -> None:
        worker = target.plane.server.worker
        few = pod_with_terms(20, **GOOD)
        assert len(encoded(few)) < HEAVY_BYTES
        assert (await target.ask("POST", PODS, few)).status == 201
        assert worker.calls == 0
        many = pod_with_terms(1_500, **GOOD)
        many["metadata"]["name"] = "b"
        assert (await target.ask("POST", PODS, many)).status == 201
        assert worker.calls > 0

    attack(test)


def test_the_thread_leaves_the_interpreter_to_the_loop_soon() -> None:
    """The loop asks for it after each read and write of a socket; Python has it wait for 5 ms."""

    async def test(target: Target) -> None:
        before, worker = sys.getswitchinterval(), target.plane.server.worker
        assert await worker.call(HEAVY_BYTES, sys.getswitchinterval) <= before / 5
        assert sys.getswitchinterval() == before
        assert await worker.call(HEAVY_BYTES - 1, sys.getswitchinterval) == before

    attack(test)


def test_without_a_socket_there_is_no_thread() -> None:
    """On virtual time a thread takes none: everything is done at once."""

    async def run() -> int:
        async with EmbeddedControlPlane(Options(port=None, seed=1)) as plane:
            body = encoded(config_map("a", LARGE))
            sent = Request("POST", CONFIGS, body=body)
            assert (await plane.transport().send(sent)).status == 201
            return plane.server.worker.calls

    assert asyncio.run(run()) == 0


@pytest.mark.parametrize("path", [f"{PODS}/a/eviction", f"{PODS}/a/binding", f"{CONFIGS}/a"])
def test_others_are_answered_while_yaml_is_read(path: str) -> None:
    """It takes many times as long as JSON, so that a body of it is heavy sooner."""
    lines = "".join(f"k{number}: [a, b]\n" for number in range(1_000))
    assert len(lines) < HEAVY_BYTES

    async def test(target: Target) -> None:
        method = "DELETE" if path.startswith(CONFIGS) else "POST"
        sent = target.ask(method, path, lines.encode(), "application/yaml")
        answer, others = await target.others_asked(sent)
        assert answer.status >= 400
        assert others >= 1

    attack(test)


@pytest.mark.parametrize(
    "path",
    [
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ],
)
def test_a_review_has_little_to_say(path: str) -> None:
    async def test(target: Target) -> None:
        for body in (b"a: [" + b"x, " * 20_000 + b"x]", b'{"a":"' + b"x" * (200 << 10) + b'"}'):
            answer = await target.ask("POST", path, body, "application/yaml")
            assert answer.status == 413
        few = {"spec": {"token": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
        assert (await target.ask("POST", path, few)).status == 201

    attack(test, insecure=False)


def token(version: object, start: object = "") -> str:
    text = encoded({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


@pytest.mark.parametrize("version", [10**6, 2**63, 10**300])
def test_a_token_of_a_version_to_come_is_not_waited_for(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "FRESH_SECONDS", 1_000.0)

    async def test(target: Target) -> None:
        await target.ask("POST", CONFIGS, config_map("a"))
        query = {"continue": token(version), "limit": "1"}
        async with asyncio.timeout(30):
            answer = await target.ask("GET", CONFIGS, **query)
        assert answer.status == 410
        rest = json.loads(answer.body)["metadata"]["continue"]
        answer = await target.ask("GET", CONFIGS, **{"continue": rest})
        assert json.loads(answer.body)["items"][0]["metadata"]["name"] == "a"

    attack(test)


@pytest.mark.parametrize(
    "forged",
    ["x", "[1]", token(None), token(1.5), token(0), token("1"), token(True, None), token(1, 1),
     "A" * 30_000, base64.urlsafe_b64encode(b"[" * 20_000).decode()],
)  # fmt: skip
def test_forged_tokens(forged: str) -> None:
    async def test(target: Target) -> None:
        answer = await target.ask("GET", CONFIGS, **{"continue": forged})
        assert answer.status in (400, 410)
        assert len(answer.body) < 2_000

    attack(test)


@pytest.mark.parametrize(
    "selector",
    ["a" * 30_000, ",".join(f"k{number}=v" for number in range(4_000)), "a in (" + "x," * 15_000,
     "(" * 30_000, "!" * 30_000, "a=" + "\\" * 30_000, " " * 30_000, "," * 30_000],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["labelSelector", "fieldSelector"])
def test_selectors_of_30_kilobytes(kind: str, selector: str) -> None:
    async def test(target: Target) -> None:
        for number in range(20):
            await target.ask("POST", CONFIGS, config_map(f"a{number}"))
        answer = await target.ask("GET", CONFIGS, **{kind: selector})
        assert answer.status in (200, 400)
        assert answer.status == 200 or len(answer.body) < 3 * len(selector)

    attack(test)


def definition(pattern: str) -> Document:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"text": {"type": "string", "pattern": pattern}},
            }
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "texts", "singular": "text", "kind": "Text", "listKind": "TextList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "texts.example.com"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]"]
)
def test_patterns_that_look_back_and_forth(pattern: str) -> None:
    """Where matching takes twice as long with each letter, 30,000 of them never end."""

    async def test(target: Target) -> None:
        assert (await target.ask("POST", DEFINITIONS, definition(pattern))).status == 201
        path = "/apis/example.com/v1/namespaces/default/texts"
        for letter in "ax":
            text = {
                "apiVersion": "example.com/v1",
                "kind": "Text",
                "metadata": {"name": letter},
                "spec": {"text": letter * 30_000 + "!"},
            }
            answer = await target.ask("POST", path, text)
            assert answer.status in (201, 422)

    attack(test)


@pytest.mark.parametrize("pattern", ["(" * 10_000, "a{1000000000}", "((a{1000}){1000}){1000}", "["])
def test_patterns_that_are_none_or_too_large(pattern: str) -> None:
    async def test(target: Target) -> None:
        answer = await target.ask("POST", DEFINITIONS, definition(pattern))
        assert answer.status in (201, 422)
        if answer.status == 422:
            assert "pattern" in said(answer)
            return
        text = {"apiVersion": "example.com/v1", "kind": "Text", "metadata": {"name": "a"},
                "spec": {"text": "a"}}  # fmt: skip
        path = "/apis/example.com/v1/namespaces/default/texts"
        assert (await target.ask("POST", path, text)).status in (201, 422)

    attack(test)


def test_a_collection_is_deleted_in_parts() -> None:
    async def test(target: Target) -> None:
        for number in range(200):
            await target.ask("POST", CONFIGS, config_map(f"a{number}"))
        answer, others = await target.others_asked(target.ask("DELETE", CONFIGS))
        assert answer.status == 200
        assert others >= 1
        assert json.loads((await target.ask("GET", CONFIGS)).body)["items"] == []

    attack(test)


def test_a_large_list_comes_whole_in_portions() -> None:
    """One write would encrypt all of it before anybody else is served."""

    async def test(target: Target) -> None:
        data = {"a": "x" * 1_000_000}
        for name in ("a", "b"):
            answer = await target.ask("POST", CONFIGS, config_map(name, data))
            assert answer.status == 201
        request = f"GET {CONFIGS} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        head, _, body = (await target.exchange(request.encode())).partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")
        items = json.loads(body)["items"]
        assert [len(each["data"]["a"]) for each in items[-2:]] == [1_000_000] * 2

    attack(test)
