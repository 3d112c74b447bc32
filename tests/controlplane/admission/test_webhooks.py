# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks on the embedded server, called in this process and over HTTPS."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from koord.base import faults
from koord.controlplane.admission import WebhookClient
from koord.controlplane.admission.webhook_client import WebhookCallError
from koord.controlplane.credentials.pki import credentials
from tests.controlplane.plane import PODS, Api, pod, with_api

Document = dict[str, Any]
Answer = Callable[[str, Document], Document]

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
PODS_RULE = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
}


def allow(review: Document, **response: Any) -> Document:
    """A review that allows what it was asked."""
    answer = {"uid": review["request"]["uid"], "allowed": True, **response}
    return {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": answer}


def patching(*operations: Document) -> Answer:
    """A webhook that answers with a patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _, review: allow(review, patch=patch, patchType="JSONPatch")


def labelling(key: str, value: str) -> Answer:
    return patching({"op": "add", "path": f"/metadata/labels/{key}", "value": value})


async def register(
    api: Api, name: str, answer: Answer | None, kind: str = "mutating", **parts: Any
) -> None:
    """Configures one webhook, served in this process."""
    if answer is not None:
        api.caller.register_local(f"hooks/{name}", answer)
    webhook = {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": {"namespace": "hooks", "name": name, "path": f"/{name}"}},
        "rules": [PODS_RULE],
        **parts,
    }
    body = {"metadata": {"name": name}, "webhooks": [webhook]}
    await api.made(CONFIGURATIONS.format(kind), body)


def test_a_webhook_changes_a_pod_before_it_is_classed() -> None:
    async def check(api: Api) -> None:
        amounts = {"cpu": "1", "memory": "1Gi"}
        resources = {"limits": amounts, "requests": amounts}
        change = {"op": "add", "path": "/spec/containers/0/resources", "value": resources}
        await register(api, "a", patching(change))
        made = await api.made(PODS, pod())
        assert made["spec"]["containers"][0]["resources"] == resources
        assert made["status"]["qosClass"] == "Guaranteed"

    with_api(check)


def test_what_a_webhook_adds_gets_its_defaults() -> None:
    async def check(api: Api) -> None:
        sidecar = {"name": "sidecar", "image": "b"}
        change = {"op": "add", "path": "/spec/containers/-", "value": sidecar}
        await register(api, "a", patching(change))
        made = await api.made(PODS, pod())
        assert made["spec"]["containers"][1]["imagePullPolicy"] == "Always"

    with_api(check)


def test_a_webhook_sees_what_is_asked() -> None:
    seen: list[tuple[str, Document]] = []

    def answer(path: str, review: Document) -> Document:
        seen.append((path, review["request"]))
        return allow(review, warnings=["careful"])

    async def check(api: Api) -> None:
        rule = {**PODS_RULE, "operations": ["*"], "resources": ["pods", "pods/status"]}
        await register(api, "a", answer, rules=[rule])
        made = await api.made(PODS, pod())
        response = await api.send("PUT", f"{PODS}/web/status", made)
        assert "careful" in response.warnings
        await api("DELETE", f"{PODS}/web")

    with_api(check)
    (path, created), (_, updated), (_, deleted) = seen
    assert path == "/a"
    assert created["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert created["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (created["namespace"], created["name"], created["operation"]) == (
        "default",
        "web",
        "CREATE",
    )
    assert created["oldObject"] is None
    assert created["object"]["spec"]["containers"][0]["name"] == "app"
    assert (updated["operation"], updated["subResource"]) == ("UPDATE", "status")
    assert (deleted["operation"], deleted["object"]) == ("DELETE", None)
    assert deleted["oldObject"]["metadata"]["name"] == "web"


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "denied the request: no"),
        ({"reason": "Because"}, 400, "denied the request: Because"),
        ({}, 400, "denied the request without explanation"),
        ({"message": "odd", "code": 200}, 400, "denied the request: odd"),
    ],
)
@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_a_refusal_carries_the_name_of_its_webhook(
    kind: str, status: Document, code: int, message: str
) -> None:
    async def check(api: Api) -> None:
        def answer(_: str, review: Document) -> Document:
            return allow(review, allowed=False, status=status)

        await register(api, "a", answer, kind)
        said = await api("POST", PODS, pod())
        assert said["code"] == code
        assert said["message"] == f'admission webhook "a.example.com" {message}'

    with_api(check)


def test_webhooks_come_in_order_of_their_configurations() -> None:
    async def check(api: Api) -> None:
        await register(api, "b", labelling("x", "second"))
        await register(api, "a", labelling("x", "first"))
        made = await api.made(PODS, pod(labels={"x": ""}))
        assert made["metadata"]["labels"] == {"x": "second"}

    with_api(check)


def test_a_webhook_is_called_again_if_a_later_one_changed_the_object() -> None:
    calls: list[str] = []

    def counting(name: str, inner: Answer) -> Answer:
        def answer(path: str, review: Document) -> Document:
            calls.append(name)
            return inner(path, review)

        return answer

    async def check(api: Api) -> None:
        await register(
            api, "a", counting("a", lambda _, r: allow(r)), reinvocationPolicy="IfNeeded"
        )
        await register(api, "b", counting("b", lambda _, r: allow(r)))
        await register(api, "c", counting("c", labelling("x", "y")))
        await api.made(PODS, pod(labels={"a": "b"}))

    with_api(check)
    assert calls == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    ("parts", "called"),
    [
        ({}, True),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}, False),
        ({"rules": [{**PODS_RULE, "operations": ["UPDATE"]}]}, False),
        ({"rules": [{**PODS_RULE, "resources": ["*"]}]}, True),
        ({"rules": [{**PODS_RULE, "resources": ["*/*"]}]}, True),
        ({"rules": [{**PODS_RULE, "resources": ["pods/*"]}]}, True),
        ({"rules": [{**PODS_RULE, "resources": ["pods/status"]}]}, False),
        ({"rules": [{**PODS_RULE, "resources": ["*/status"]}]}, False),
        ({"rules": [{**PODS_RULE, "apiGroups": ["*"], "apiVersions": ["*"]}]}, True),
        ({"rules": [{**PODS_RULE, "apiGroups": ["apps"]}]}, False),
        ({"rules": [{**PODS_RULE, "scope": "Cluster"}]}, False),
        ({"rules": [{**PODS_RULE, "scope": "Namespaced"}]}, True),
        ({"rules": []}, False),
    ],
)
def test_rules_and_selectors_say_when_a_webhook_is_called(parts: Document, called: bool) -> None:
    async def check(api: Api) -> None:
        await register(api, "a", labelling("seen", "yes"), **parts)
        made = await api.made(PODS, pod(labels={"app": "web"}))
        assert ("seen" in made["metadata"]["labels"]) is called

    with_api(check)


def test_equivalent_matches_the_other_group_of_events_exact_does_not() -> None:
    seen: list[str] = []

    def answer(path: str, review: Document) -> Document:
        seen.append(f"{path} {review['request']['kind']['group']}")
        return allow(review)

    async def check(api: Api) -> None:
        rule = {**PODS_RULE, "apiGroups": ["events.k8s.io"], "resources": ["events"]}
        await register(api, "near", answer, "validating", rules=[rule])
        await register(api, "exact", answer, "validating", rules=[rule], matchPolicy="Exact")
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        event = {"metadata": {"name": "e"}, "involvedObject": about}
        await api.made("/api/v1/namespaces/default/events", event)

    with_api(check)
    assert seen == ["/near events.k8s.io"]


def broken(_: str, review: Document) -> Document:
    return {"response": {"uid": "another", "allowed": True}}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (broken, "received invalid webhook response: expected response.uid="),
        (lambda _, review: {}, "received invalid webhook response: webhook response was absent"),
        (
            lambda _, review: allow(review, patch="!", patchType="JSONPatch"),
            "received invalid webhook response: illegal base64",
        ),
        (
            lambda _, review: allow(review, patch="W10="),
            "webhook returned response.patch but not response.patchType",
        ),
        (None, "failed to call webhook: Post"),
    ],
)
def test_a_failing_webhook_refuses_or_is_ignored(answer: Answer | None, why: str) -> None:
    async def check(api: Api) -> None:
        await register(api, "a", answer)
        said = await api("POST", PODS, pod())
        assert (said["code"], said["reason"]) == (500, "InternalError")
        begin = 'Internal error occurred: failed calling webhook "a.example.com": '
        assert said["message"].startswith(begin)
        assert why in said["message"]
        path = CONFIGURATIONS.format("mutating")
        configuration = await api("GET", f"{path}/a")
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"
        assert (await api("PUT", f"{path}/a", configuration))["code"] == 200
        await api.made(PODS, pod())

    with_api(check)


def test_a_slow_webhook_runs_into_its_deadline() -> None:
    async def slow(_: str, review: Document) -> Document:
        await asyncio.sleep(60)
        return allow(review)

    async def check() -> None:
        caller = WebhookClient()
        caller.register_local("hooks/slow", slow)
        client = {"service": {"namespace": "hooks", "name": "slow"}}
        with pytest.raises(WebhookCallError, match="context deadline exceeded"):
            await caller.call(client, {}, 0.01)

    asyncio.run(check())


def test_a_dry_run_needs_a_webhook_without_side_effects() -> None:
    async def check(api: Api) -> None:
        await register(api, "a", labelling("x", "y"), sideEffects="NoneOnDryRun")
        made = await api("POST", f"{PODS}?dryRun=All", pod(labels={"x": ""}))
        assert made["metadata"]["labels"] == {"x": "y"}
        assert (await api("GET", f"{PODS}/web"))["code"] == 404

    with_api(check)


def test_webhooks_are_not_asked_about_their_configurations() -> None:
    async def check(api: Api) -> None:
        rule = {**PODS_RULE, "operations": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        await register(api, "a", broken, "validating", rules=[rule])
        path = f"{CONFIGURATIONS.format('validating')}/a"
        assert (await api("DELETE", path))["code"] == 200

    with_api(check)


def test_a_webhook_for_bindings_sees_a_binding() -> None:
    seen: list[Document] = []

    def answer(_: str, review: Document) -> Document:
        seen.append(review["request"])
        return allow(review, allowed=False, status={"message": "stay"})

    async def check(api: Api) -> None:
        rule = {**PODS_RULE, "resources": ["pods/binding"]}
        await register(api, "a", answer, "validating", rules=[rule])
        await api.made(PODS, pod())
        target = {"kind": "Node", "name": "n1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}}
        said = await api("POST", f"{PODS}/web/binding", {**binding, "target": target})
        assert (said["code"], "stay" in said["message"]) == (400, True)
        assert "nodeName" not in (await api("GET", f"{PODS}/web"))["spec"]

    with_api(check)
    (asked,) = seen
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert (asked["resource"]["resource"], asked["subResource"]) == ("pods", "binding")
    assert asked["object"]["target"] == {"kind": "Node", "name": "n1"}


@pytest.mark.parametrize(
    ("expressions", "policy", "code"),
    [
        (["object.metadata.name == 'web'"], "Fail", 201),
        (["object.metadata.name == 'x'", "object.nope"], "Fail", 201),
        (["object.metadata.nope == 'x'", "true"], "Fail", 403),
        (["object.metadata.nope == 'x'", "true"], "Ignore", 201),
    ],
    ids=["met", "one is not met", "broken", "broken and ignored"],
)
def test_conditions(expressions: list[str], policy: str, code: int) -> None:
    called: list[str] = []

    def answer(_: str, review: Document) -> Document:
        called.append(review["request"]["name"])
        return allow(review)

    async def check(api: Api) -> None:
        told = [{"name": f"c{n}", "expression": text} for n, text in enumerate(expressions)]
        await register(api, "a", answer, matchConditions=told, failurePolicy=policy)
        made = await api("POST", PODS, pod())
        assert made.get("code", 201) == code, made

    with_api(check)
    assert called == (["web"] if expressions[0].endswith("'web'") else [])


def test_a_webhook_that_an_injected_fault_hits_has_failed() -> None:
    async def check(api: Api) -> None:
        await register(api, "a", lambda _, review: allow(review), failurePolicy="Ignore")
        rule = faults.FaultRule(rate=1.0, error=WebhookCallError("injected"))
        with faults.inject(faults.FaultPlan(seed=1, rules={"admission.webhook": rule})) as plan:
            await api.made(PODS, pod())
        assert plan.failed["admission.webhook"] == 1

    with_api(check)


@asynccontextmanager
async def https_webhook(folder: Path, answer: Answer) -> AsyncIterator[tuple[int, str]]:
    """A webhook on loopback; its port and the authority that it is to be trusted by."""
    ours = credentials(folder)

    async def handle(request: web.Request) -> web.Response:
        if request.path == "/broken":
            return web.Response(status=503, text="not now")
        return web.json_response(answer(request.path, await request.json()))

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ours.context())
    await site.start()
    try:
        yield runner.addresses[0][1], base64.b64encode(ours.authority).decode()
    finally:
        await runner.cleanup()


async def call(caller: WebhookClient, client: Document) -> Any:
    try:
        return await caller.call(client, {"apiVersion": "x", "request": {"uid": "1"}}, 5)
    finally:
        await caller.close()


def test_a_webhook_is_called_over_https(tmp_path: Path) -> None:
    async def check() -> None:
        async with https_webhook(tmp_path, lambda path, review: {"path": path}) as (port, bundle):
            by_url = {"url": f"https://localhost:{port}/hook", "caBundle": bundle}
            assert await call(WebhookClient(), by_url) == {"path": "/hook"}
            service = {"namespace": "default", "name": "kubernetes", "path": "/x", "port": 443}
            caller = WebhookClient(resolve=lambda namespace, name, number: ("127.0.0.1", port))
            by_service = {"service": service, "caBundle": bundle}
            assert await call(caller, by_service) == {"path": "/x"}

    asyncio.run(check())


def test_a_webhook_that_cannot_be_trusted_or_is_broken_has_failed(tmp_path: Path) -> None:
    async def check() -> None:
        async with https_webhook(tmp_path, lambda path, review: {}) as (port, bundle):
            url = f"https://localhost:{port}/"
            with pytest.raises(WebhookCallError, match="certificate verify failed"):
                await call(WebhookClient(), {"url": url})
            with pytest.raises(WebhookCallError, match="unable to load root certificates"):
                await call(WebhookClient(), {"url": url, "caBundle": "AAAA"})
            with pytest.raises(WebhookCallError, match="currently unable to handle"):
                await call(WebhookClient(), {"url": f"{url}broken", "caBundle": bundle})
        with pytest.raises(WebhookCallError, match="Post"):
            await call(WebhookClient(), {"url": url, "caBundle": bundle})

    asyncio.run(check())
