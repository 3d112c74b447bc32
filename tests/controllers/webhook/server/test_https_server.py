# SPDX-License-Identifier: Apache-2.0
"""Over TLS: reviews are answered, and whatever else comes is refused cleanly."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonpatch
import pytest

from koord.controllers.webhook.framework.webhook_table import MUTATE_POD, VALIDATE_POD
from koord.controllers.webhook.server import https_server
from tests.controllers.webhook.reviews import POD, TLSScene, patch_of, review, served

BAD = {**POD, "metadata": {"name": "a", "labels": {"bad": "x" * 300}}}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_change_is_a_patch_in_the_version_of_the_question(version: str) -> None:
    async def script(scene: TLSScene) -> None:
        status, body = await scene.post(MUTATE_POD, review(version=version))
        answer = json.loads(body)
        assert (status, answer["apiVersion"]) == (200, f"admission.k8s.io/{version}")
        response = answer["response"]
        assert response["uid"] == review()["request"]["uid"]
        assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
        assert response["warnings"] == ["the class is BE"]
        path = "/metadata/labels/koordinator.sh~1qosClass"
        assert patch_of(response) == [{"op": "add", "path": path, "value": "BE"}]
        made = jsonpatch.apply_patch(POD, patch_of(response))
        assert made["metadata"]["labels"] == {"app": "web", "koordinator.sh/qosClass": "BE"}

    served(script)


def test_a_refusal_names_everything_and_has_no_patch() -> None:
    async def script(scene: TLSScene) -> None:
        response = await scene.review(VALIDATE_POD, pod=BAD)
        assert not response["allowed"]
        assert response["status"]["code"] == 403
        assert response["status"]["message"].startswith("Pod default/a: metadata.labels[bad]: got")
        assert "patch" not in response
        assert (await scene.review(VALIDATE_POD))["allowed"]

    served(script)


@pytest.mark.parametrize(
    "arguments",
    [{"resource": "nodes"}, {"subresource": "status"}, {"subresource": "binding"}],
)
def test_another_resource_is_allowed_unseen(arguments: Any) -> None:
    async def script(scene: TLSScene) -> None:
        response = await scene.review(VALIDATE_POD, pod=BAD, **arguments)
        assert response == {"uid": review()["request"]["uid"], "allowed": True}

    served(script)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"no JSON", 400),
        (b"\xff\xfe", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b"[" * 100_000, 400),
        (json.dumps({**review(), "apiVersion": "admission.k8s.io/v2"}).encode(), 400),
        (json.dumps({**review(), "request": None}).encode(), 400),
        (json.dumps(review(operation="INVENT")).encode(), 400),
        (json.dumps(review(userInfo={"username": 3})).encode(), 400),
        (b'{"a":"' + b"x" * 3 * 1024 * 1024 + b'"}', 400),
        (b" " * (https_server.MAX_BODY_BYTES + 1), 413),
    ],
)
def test_what_is_no_review_is_refused(body: bytes, status: int) -> None:
    async def script(scene: TLSScene) -> None:
        found, text = await scene.post(MUTATE_POD, body)
        assert found == status
        assert text.count(b"\n") == 1
        assert len(text) < 1000
        assert (await scene.review())["allowed"]

    served(script)


def test_objects_that_are_none_are_refused_inside_the_answer() -> None:
    async def script(scene: TLSScene) -> None:
        objects: tuple[Any, ...] = (None, 3, [], "text")
        for pod in objects:
            response = await scene.review(pod=pod)
            assert (response["allowed"], response["status"]["code"]) == (False, 400)
        status, body = await scene.post(MUTATE_POD, _deep(5000))
        assert status == 400, body
        # Deep enough for what compares documents to give up, not for what reads them.
        status, body = await scene.post(MUTATE_POD, _deep(900))
        assert status in (200, 400), body

    served(script)


def _deep(levels: int) -> bytes:
    text = json.dumps(review(pod={**POD, "deep": "HERE"}))
    return text.replace('"HERE"', '{"a":' * levels + "1" + "}" * levels).encode()


def test_hostile_names_come_back_in_one_line() -> None:
    async def script(scene: TLSScene) -> None:
        hostile = {**BAD, "metadata": {"labels": {"bad": "a\r\nX: y\x00\u202e"}}}
        response = await scene.review(VALIDATE_POD, pod=hostile, name="a\nb", namespace="\x1b[31m")
        message = response["status"]["message"]
        assert message.isprintable()
        assert not response["allowed"]

    served(script)


def test_methods_types_and_paths() -> None:
    async def script(scene: TLSScene) -> None:
        assert (await scene.get(MUTATE_POD))[0] == 405
        assert (await scene.post(MUTATE_POD, review(), **{"Content-Type": "text/plain"}))[0] == 415
        assert (await scene.post("/mutate-nothing", review()))[0] == 404
        assert await scene.get("/healthz") == (200, b"ok\n")
        assert await scene.get("/readyz") == (200, b"ok\n")
        assert (await scene.get("/"))[0] == 404

    served(script)


def test_reviews_wait_for_caches() -> None:
    async def script(scene: TLSScene) -> None:
        assert (await scene.post(MUTATE_POD, review()))[0] == 503
        assert (await scene.get("/healthz"))[0] == 200

    served(script, serving=False)


def test_a_handler_that_fails_leaves_it_to_the_failure_policy(caplog: Any) -> None:
    async def script(scene: TLSScene) -> None:
        failing = {**POD, "metadata": {"name": "a", "labels": {"fail": "now"}}}
        for _ in range(3):
            status, text = await scene.post(MUTATE_POD, review(pod=failing))
            assert status == 500
            assert b"asked to fail" not in text
        assert scene.supervisor.part(MUTATE_POD).failures == 3
        assert (await scene.review())["allowed"]
        assert scene.supervisor.part(MUTATE_POD).error == ""
        shown = scene.metrics.registry.expose().decode()
        code = 'controller_runtime_webhook_requests_total{code="%s",webhook="/mutate-pod"} %s'
        assert _has(shown, code % ("500", "3.0"))
        assert _has(shown, code % ("200", "1.0"))
        assert 'controller_runtime_webhook_requests_in_flight{webhook="/mutate-pod"} 0.0' in shown
        assert "koord_manager_webhook_webhook_duration_milliseconds_bucket" in shown

    served(script)
    assert len([each for each in caplog.records if "failed" in each.getMessage()]) == 1


def _has(shown: str, line: str) -> bool:
    """Whether a sample is there, whatever the order of its labels."""
    head, _, value = line.rpartition(" ")
    name, _, labels = head.rstrip("}").partition("{")
    wanted = set(labels.split(","))
    return any(
        each.startswith(f"{name}{{")
        and each.endswith(f" {value}")
        and set(each.partition("{")[2].partition("}")[0].split(",")) == wanted
        for each in shown.splitlines()
    )


def test_slow_clients_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https_server, "READ_SECONDS", 0.05)

    async def script(scene: TLSScene) -> None:
        silent = await asyncio.open_connection("localhost", scene.server.port, ssl=scene.tls)
        slow = await asyncio.open_connection("localhost", scene.server.port, ssl=scene.tls)
        slow[1].write(
            b"POST /mutate-pod HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b'Content-Length: 100\r\n\r\n{"kind"'
        )
        assert (await scene.review())["allowed"]
        assert await silent[0].read() == b""
        assert (await slow[0].read()).startswith(b"HTTP/1.1 408 ")
        for _, writer in (silent, slow):
            writer.close()

    served(script)


def test_a_server_that_ends_answers_for_a_while_each_connection_once_more() -> None:
    async def script(scene: TLSScene) -> None:
        assert (await scene.review())["allowed"]
        ending = asyncio.create_task(scene.server.stop(drain_seconds=0.5))
        await asyncio.sleep(0)
        assert await scene.get("/readyz") == (500, b"stopping\n")
        for _ in range(3):
            headers = {"Content-Type": "application/json"}
            data = json.dumps(review()).encode()
            async with scene.session.post(
                scene.url(MUTATE_POD), data=data, headers=headers, ssl=scene.tls
            ) as answer:
                assert (answer.status, answer.headers["Connection"]) == (200, "close")
        await ending
        assert not scene.server.listening

    served(script)


def test_a_server_that_nobody_has_asked_ends_at_once() -> None:
    async def script(scene: TLSScene) -> None:
        assert (await scene.get("/readyz"))[0] == 200
        async with asyncio.timeout(30):
            await scene.server.stop(drain_seconds=3600)

    served(script)
